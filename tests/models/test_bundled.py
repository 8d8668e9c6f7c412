"""The bundled base: tokenizer, sizes, loading; and the script that makes it."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from transformers import AutoModelForCausalLM, AutoTokenizer

from upside.models import bundled, pretrain, tokenizer
from upside.tasks.arithmetic import Arithmetic
from upside.tasks.knights import Knights


@pytest.fixture(scope="module")
def tok():  # type: ignore[no-untyped-def]
    return AutoTokenizer.from_pretrained(bundled())


def test_tokenizer_round_trip(tok) -> None:  # type: ignore[no-untyped-def]
    for task in (Arithmetic(), Knights()):
        for problem in task.problems("test", 50):
            ids = tok(problem.prompt)["input_ids"]
            assert tok.decode(ids) == problem.prompt
            assert tok.unk_token_id not in ids
    text = " hmm7*8=49?56; waitAk:-B|+C,Bn>Aktx!#56"
    assert tok.decode(tok(text)["input_ids"], skip_special_tokens=True) == text
    assert tok("é€")["input_ids"] == [tok.unk_token_id] * 2


def test_chat_template(tok) -> None:  # type: ignore[no-untyped-def]
    messages = [{"role": "user", "content": "34+7"}]
    ids = tok.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    user, assistant = tok.convert_tokens_to_ids(["<user>", "<assistant>"])
    assert ids == [user, *tok("34+7")["input_ids"], assistant]
    messages.append({"role": "assistant", "content": "#41"})
    assert tok.apply_chat_template(messages, tokenize=False) == "<user>34+7<assistant>#41<eos>"
    assert tok.eos_token_id != tok.pad_token_id
    assert tok.padding_side == "left"


def test_shipped_tokenizer_is_the_built_one(tok) -> None:  # type: ignore[no-untyped-def]
    built = tokenizer.build()
    assert built.get_vocab() == tok.get_vocab()
    assert built.chat_template == tok.chat_template


def test_prompts_are_short(tok) -> None:  # type: ignore[no-untyped-def]
    for task in (Arithmetic(), Knights()):
        assert max(len(tok(p.prompt)["input_ids"]) for p in task.problems("train", 300)) <= 32


def test_model_loads_small_and_answers(tok) -> None:  # type: ignore[no-untyped-def]
    model = AutoModelForCausalLM.from_pretrained(bundled())
    assert sum(p.numel() for p in model.parameters()) <= 3_000_000
    assert sum(f.stat().st_size for f in bundled().iterdir()) <= 8_000_000
    assert model.dtype == torch.float32
    assert model.generation_config.eos_token_id == tok.eos_token_id
    assert len(tok) == model.config.vocab_size
    torch.manual_seed(0)
    task = Arithmetic([1])
    problems = task.problems("test", 32)
    chats = [[{"role": "user", "content": p.prompt}] for p in problems]
    batch = tok.apply_chat_template(
        chats, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
    )
    out = model.generate(**batch, max_new_tokens=96)[:, batch["input_ids"].shape[1] :]
    texts = tok.batch_decode(out, skip_special_tokens=True)
    scores = [task.verify(p, t).score or 0.0 for p, t in zip(problems, texts, strict=True)]
    assert sum(scores) / len(scores) > 0.3
    assert all("#" in t for t in texts)


def test_packed_rows_hold_whole_examples() -> None:
    import random

    tok = tokenizer.build()
    batch = next(pretrain.batches(random.Random(0), tok, rows=4, flawless=False))
    assert all(value.shape == (4, pretrain.ROW) for value in batch.values())
    ids, labels, positions = batch["input_ids"], batch["labels"], batch["position_ids"]
    user = tok.convert_tokens_to_ids("<user>")
    assert torch.equal(positions == 0, (ids == user) | ((positions == 0) & (ids == tok.pad_token_id)))
    kept = labels != -100
    assert torch.equal(labels[kept], ids[kept])
    assert (ids[kept] != user).all()
    assert ((ids == tok.eos_token_id).sum(1) == (ids == user).sum(1)).all()


def test_packing_equals_one_at_a_time() -> None:
    import random

    tok = tokenizer.build()
    torch.manual_seed(0)
    model = pretrain.decoder(pretrain.Plan(width=32, inner=64), tok).eval()
    batch = next(pretrain.batches(random.Random(0), tok, rows=1, flawless=False))
    model.set_attn_implementation("eager")
    packed = model(input_ids=batch["input_ids"], position_ids=batch["position_ids"], use_cache=False).logits[0]
    start, end = (batch["position_ids"][0] == 0).nonzero()[1:3, 0].tolist()
    alone = model(input_ids=batch["input_ids"][:, start:end]).logits[0]
    torch.testing.assert_close(packed[start:end], alone, rtol=1e-4, atol=1e-4)


def test_pretraining_is_deterministic(tmp_path: Path) -> None:
    files = []
    for name in ("one", "two"):
        result = CliRunner().invoke(pretrain.main, ["--out", str(tmp_path / name), "--steps", "3", "--seed", "5"])
        assert result.exit_code == 0, result.output
        files.append((tmp_path / name / "model.safetensors").read_bytes())
    assert files[0] == files[1]
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "one").config.tie_word_embeddings
