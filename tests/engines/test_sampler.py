"""The sampler against transformers' own generation and forward pass."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, GenerationConfig

from upside.engines.buckets import in_buckets
from upside.engines.sampler import sample

PROMPTS = [[5, 6, 7], [5, 6, 7], [9, 10], [11, 12, 13, 14, 15], [11, 12, 13, 14, 15]]


@pytest.fixture(scope="module")
def lm(model: Path) -> torch.nn.Module:
    return AutoModelForCausalLM.from_pretrained(model)


def test_greedy_is_generate(lm: torch.nn.Module) -> None:
    ends = [1, 40, 41, 42, 43]
    ours = sample(lm, PROMPTS, eos_ids=ends, max_new_tokens=20, greedy=True)
    for prompt, ids in zip(PROMPTS, ours.ids, strict=True):
        config = GenerationConfig(max_new_tokens=20, do_sample=False, eos_token_id=ends, pad_token_id=0)
        theirs = lm.generate(input_ids=torch.tensor([prompt]), generation_config=config)[0, len(prompt) :]
        assert ids == theirs.tolist()


def test_rows_end_at_the_first_end_token_or_the_limit(lm: torch.nn.Module) -> None:
    # compose-rl#31: several end tokens; verl#3805: none at all
    torch.manual_seed(0)
    ends = list(range(1, 60))
    out = sample(lm, PROMPTS * 8, eos_ids=ends, max_new_tokens=15)
    assert len({len(ids) for ids in out.ids}) > 3
    for ids in out.ids:
        assert all(token not in ends for token in ids[:-1])
        assert len(ids) == 15 or ids[-1] in ends


def test_logps_and_entropies_are_the_models(lm: torch.nn.Module) -> None:
    torch.manual_seed(1)
    out = sample(lm, PROMPTS, eos_ids=[1], max_new_tokens=12, temperature=0.8)
    for prompt, ids, logps, entropies in zip(PROMPTS, out.ids, out.logps, out.entropies, strict=True):
        with torch.no_grad():
            logits = lm(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1] / 0.8
        logp = logits.log_softmax(-1)
        torch.testing.assert_close(
            torch.tensor(logps), logp.gather(1, torch.tensor(ids)[:, None])[:, 0], atol=1e-4, rtol=1e-4
        )
        torch.testing.assert_close(torch.tensor(entropies), -(logp.exp() * logp).sum(-1), atol=1e-4, rtol=1e-4)


def test_sampled_frequencies_are_the_distribution(lm: torch.nn.Module) -> None:
    torch.manual_seed(2)
    out = sample(lm, [[5, 6, 7]] * 4000, eos_ids=[1], max_new_tokens=1)
    with torch.no_grad():
        probs = lm(torch.tensor([[5, 6, 7]])).logits[0, -1].softmax(-1)
    counts = torch.bincount(torch.tensor([ids[0] for ids in out.ids]), minlength=260) / 4000
    assert (counts - probs).abs().max() < 4 * (probs.max() / 4000).sqrt()


@pytest.mark.parametrize(("top_k", "top_p", "allowed"), [(3, 1.0, 3), (0, 1e-6, 1)])
def test_truncation_of_the_distribution(lm: torch.nn.Module, top_k: int, top_p: float, allowed: int) -> None:
    out = sample(lm, [[5, 6, 7]] * 200, eos_ids=[1], max_new_tokens=1, top_k=top_k, top_p=top_p)
    with torch.no_grad():
        best = lm(torch.tensor([[5, 6, 7]])).logits[0, -1].topk(allowed).indices.tolist()
    assert {ids[0] for ids in out.ids} <= set(best)


def test_training_mode_is_restored(lm: torch.nn.Module) -> None:
    lm.train()
    sample(lm, PROMPTS, eos_ids=[1], max_new_tokens=2)
    assert lm.training
    lm.eval()


def test_refusals(lm: torch.nn.Module) -> None:
    with pytest.raises(ValueError, match="empty prompt"):
        sample(lm, [[1], []], eos_ids=[1], max_new_tokens=2)
    with pytest.raises(ValueError, match="temperature"):
        sample(lm, [[1]], eos_ids=[1], max_new_tokens=2, temperature=0.0)


@pytest.mark.parametrize("buckets", [1, 2, 3, 50])
def test_buckets_equal_one_pass(lm: torch.nn.Module, buckets: int) -> None:
    torch.manual_seed(3)
    prompts, answers = [2, 5, 3, 4, 5, 1], [7, 1, 4, 7, 2, 3]
    ids, mask = torch.randint(4, 260, (6, 12)), torch.zeros(6, 12, dtype=torch.long)
    for row, (p, a) in enumerate(zip(prompts, answers, strict=True)):
        mask[row, 5 - p : 5 + a] = 1

    def score(ids: torch.Tensor, mask: torch.Tensor, keep: int) -> tuple:
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        logp = lm(ids, attention_mask=mask, position_ids=positions).logits[:, -keep - 1 : -1].log_softmax(-1)
        entropy = -(logp.exp() * logp).sum(-1)
        return logp.gather(2, ids[:, -keep:, None])[..., 0] * mask[:, -keep:], entropy * mask[:, -keep:], None

    whole, parts = score(ids, mask, 7), in_buckets(score, buckets, ids, mask, 7)
    torch.testing.assert_close(parts[0], whole[0], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(parts[1], whole[1], atol=1e-4, rtol=1e-4)
