"""Which tokens are trained on: every generated one, the end token included, and nothing after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny
import torch

from upside.engines.sampler import rollout
from upside.engines.trl import AdvantageTrainer


class Kept(AdvantageTrainer):
    """Keeps what the loss gets."""

    def _generate_and_score_completions(self, inputs: Any) -> dict:
        self.output = super()._generate_and_score_completions(inputs)
        return self.output


def trained(model: Path, folder: Path, loss: str, pad: str = "<pad>", own_sampler: bool = True) -> Kept:
    tokenizer = tiny.tokenizer()
    tokenizer.pad_token = pad
    trainer = Kept(
        model=str(model),
        args=tiny.config(folder, max_steps=1, learning_rate=0.0, loss_type=loss),
        processing_class=tokenizer,
        reward_funcs=[tiny.reward],
        train_dataset=tiny.dataset(),
        estimator="grpo",
        **({"rollout_func": rollout} if own_sampler else {}),
    )
    trainer.train()
    return trainer


def batch_of(trainer: Kept) -> dict[str, Any]:
    """A batch of the loss, with responses of several lengths."""
    batch = dict(trainer.output)
    assert len(set(batch["completion_mask"].sum(1).tolist())) > 2
    return batch


@pytest.mark.parametrize("own_sampler", [False, True])
def test_the_mask_is_the_generated_length_also_where_pad_ends_a_response(
    model: Path, tmp_path: Path, own_sampler: bool
) -> None:
    # trl#4970, MemGen#33, verl#3805: with pad == eos a mask by token value loses the end token, or none
    batch = batch_of(trained(model, tmp_path, "dapo", pad="<eos>", own_sampler=own_sampler))
    for ids, mask in zip(batch["completion_ids"].tolist(), batch["completion_mask"].tolist(), strict=True):
        ends = [at for at, token in enumerate(ids) if token in tiny.ENDS]
        length = ends[0] + 1 if ends else len(ids)
        assert mask == [1] * length + [0] * (len(ids) - length)


@pytest.mark.parametrize("loss", ["dapo", "cross_entropy"])
def test_nothing_after_the_end_token_matters(model: Path, tmp_path: Path, loss: str) -> None:
    # trl#2708, Soup#1084: what fills a row after its end changes neither loss nor gradient
    trainer = trained(model, tmp_path, loss)
    batch = batch_of(trainer)
    filled = dict(batch)
    filled["completion_ids"] = torch.where(batch["completion_mask"] == 0, 200, batch["completion_ids"])
    assert not torch.equal(filled["completion_ids"], batch["completion_ids"])
    found = []
    for inputs in (batch, filled):
        trainer.model.zero_grad()
        value = trainer.compute_loss(trainer.model, inputs)
        value.backward()
        found.append((value.detach(), [p.grad.clone() for p in trainer.model.parameters()]))
    assert any(g.abs().max() > 0 for g in found[0][1])
    torch.testing.assert_close(found[0], found[1], atol=1e-7, rtol=1e-5)


def test_each_token_has_the_log_probability_of_itself(model: Path, tmp_path: Path) -> None:
    # verl#3562, #3287: a mask shifted by one loses the first token or the end token
    trainer = trained(model, tmp_path, "dapo")
    batch = batch_of(trainer)
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    width = batch["completion_ids"].shape[1]
    logps = trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, width)[0]
    fresh = tiny.Qwen2ForCausalLM.from_pretrained(model)
    for row in range(len(ids)):
        prompt = batch["prompt_ids"][row][batch["prompt_mask"][row].bool()]
        answer = batch["completion_ids"][row][batch["completion_mask"][row].bool()]
        with torch.no_grad():
            law = fresh(torch.cat([prompt, answer])[None]).logits[0].log_softmax(-1)
        by_hand = [law[len(prompt) - 1 + t, token].item() for t, token in enumerate(answer)]
        assert logps[row, : len(answer)].tolist() == pytest.approx(by_hand, abs=1e-4)
