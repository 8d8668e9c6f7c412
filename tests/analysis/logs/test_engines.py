"""Logs as the engines write them: TRL's by a real trainer, verl's in the format of 0.9.1."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from datasets import Dataset
from trl import GRPOTrainer

import upside
from upside.analysis import read_log, replay
from upside.analysis.blocks import Findings
from upside.analysis.logs import LogError


def parity(completions: list[Any], log_extra: Any = None, **columns: Any) -> list[float | None]:
    """Nothing to say of every fifth response; an extra column beside it."""
    texts = [text if isinstance(text, str) else text[0]["content"] for text in completions]
    log_extra("size", [float(len(text)) for text in texts])
    return [None if row % 5 == 0 else float(len(text) % 2) for row, text in enumerate(texts)]


def train(model: Path, output: Path, data: Dataset, **changes: Any) -> None:
    config = tiny.config(output, log_completions=True, **changes)
    GRPOTrainer(model=str(model), reward_funcs=[tiny.reward, parity], args=config, train_dataset=data).train()


def test_trl(model: Path, tmp_path: Path) -> None:
    train(model, tmp_path, tiny.dataset(8))
    log = read_log(tmp_path)
    assert log.kind == "trl"
    assert log.steps == [1, 2, 3]
    assert len(log) == 48
    assert np.bincount(log.codes("group")).tolist() == [4] * 12
    assert any("reward+parity" in note for note in log.notes)  # the extra column size is no reward
    found = replay(log, ["grpo", "rloo"])
    np.testing.assert_allclose(found.values["grpo"], log.numbers("advantage"), atol=1e-4)
    assert found.figures["logged"]["closest"] == "grpo"
    assert found.figures["logged"]["equal"]["grpo"] == 1
    assert found.figures["logged"]["equal"]["rloo"] < 0.5


def test_trl_messages_and_batches_that_serve_two_steps(model: Path, tmp_path: Path) -> None:
    chat = Path(shutil.copytree(model, tmp_path / "chat"))
    template = "{% for m in messages %}{{ m['role'] }}:{{ m['content'] }}\n{% endfor %}"
    (chat / "chat_template.jinja").write_text(template)
    rows = [{"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": f"{a}+1"}]} for a in range(8)]
    train(chat, tmp_path / "run", Dataset.from_list(rows), num_iterations=2, max_steps=4)
    log = read_log(tmp_path / "run" / "completions")
    assert log.steps == [1, 3]
    assert len(log) == 32
    assert any("2 files repeat" in note for note in log.notes)
    prompt = log.texts("prompt_text", [0])[0] or ""
    assert prompt.startswith("system: s\nuser: ")
    assert isinstance(log.texts("response", [0])[0], str)
    found = replay(log, ["grpo"])
    np.testing.assert_allclose(found.values["grpo"], log.numbers("advantage"), atol=1e-4)


def test_trl_with_advantages_that_were_changed(model: Path, tmp_path: Path) -> None:
    """As in a subclass that changes them before they are logged: no sum of rewards and no estimator explains them."""
    import pyarrow.parquet

    train(model, tmp_path, tiny.dataset(8), max_steps=1)
    (file,) = (tmp_path / "completions").glob("*.parquet")
    table = pyarrow.parquet.read_table(file)
    changed = np.roll(table["advantage"].to_numpy(), 1)
    table = table.set_column(table.column_names.index("advantage"), "advantage", [changed])
    pyarrow.parquet.write_table(table, file)
    log = read_log(tmp_path)
    assert any("map reward=2*reward+" in note for note in log.notes)
    blocks = replay(log, ["grpo"]).sections()[0].blocks
    (finding,) = next(block for block in blocks if isinstance(block, Findings)).findings
    assert finding["level"] == "warn"
    assert "none of these" in finding["title"]


def dump(folder: Path, step: int, uid: bool = False) -> None:
    """<step>.jsonl as verl 0.9.1 writes it; uid as in its newer trainer: {prompt}_{rollout}_{output}."""
    with (folder / f"{step}.jsonl").open("w") as file:
        for row in range(8):
            entry = {
                "input": f"user\n{row // 4}+1=",
                "output": "é 1",
                "gts": "1",
                "score": float(row % 2),
                "step": step,
            }
            entry |= (
                {"uid": f"id_{row // 4}_{row % 4}_0"} if uid else {"acc": str(row % 2 == 1), "request_id": f"r{row}"}
            )
            file.write(json.dumps(entry, ensure_ascii=False, default=str) + "\n")


@pytest.mark.parametrize("uid", [False, True])
def test_verl(tmp_path: Path, uid: bool) -> None:
    for step in (1, 2, 10):
        dump(tmp_path, step, uid)
    log = read_log(tmp_path)
    assert log.kind == "verl"
    assert log.steps == [1, 2, 10]
    assert log.codes("group").tolist() == np.repeat(range(6), 4).tolist()
    assert log.codes("prompt").tolist() == np.tile(np.repeat([0, 1], 4), 3).tolist()
    assert log.numbers("correct").tolist() == [0, 1] * 12
    assert replay(log, ["grpo"]).values["grpo"][:2].tolist() == pytest.approx([-0.8658, 0.8658], abs=1e-4)


def test_ids_that_name_responses(tmp_path: Path) -> None:
    rows = [{"uid": f"r{row}", "prompt": f"p{row // 2}", "reward": row} for row in range(4)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    log = read_log(tmp_path / "log.jsonl")
    assert log.codes("group").tolist() == [0, 0, 1, 1]
    assert any("no group id" in note for note in log.notes)


def run_folder(folder: Path, spec: str, steps: int = 3) -> Path:
    """A run folder as the engines write it, of made-up responses; the last step has unscored ones."""
    from upside.training.folder import RunFolder
    from upside.training.record import Step

    made = RunFolder(folder)
    made.rollouts.mkdir(parents=True)
    made.recipe_file.write_text(f"estimator: '{spec}'\nsteps: {steps}\n")
    estimator = upside.estimator(spec)
    for step in range(1, steps + 1):
        draw = np.random.default_rng(step)
        right = draw.random(8) < 0.5
        batch = upside.Rollouts(
            rewards=[None if step == steps and row % 4 == 0 else float(x) for row, x in enumerate(right)],
            groups=[row // 4 for row in range(8)],
            lengths=draw.integers(1, 9, 8),
            entropy=draw.random(8),
            correct=right,
            truncated=draw.random(8) < 0.2,
            reference_rewards=draw.integers(0, 2, 8).astype(float),
            step=step,
            total_steps=steps,
        )
        texts = [f"{step} {row // 4}" for row in range(8)]
        wrote = Step(batch, estimator(batch), texts, texts, right.tolist(), None)
        made.write_rollouts(step, wrote.columns(estimator))
    return folder


@pytest.mark.parametrize("spec", ["grpo", "canon_dynamic", "aapo > adora_weight", "reinforce_pp", "canon:mu=linear()"])
def test_a_run_replayed_under_its_own_estimator(tmp_path: Path, spec: str) -> None:
    log = read_log(run_folder(tmp_path / "run", spec))
    assert np.isnan(log.numbers("reward")).sum() == 2
    found = replay(log, ["dr_grpo", spec])
    np.testing.assert_array_equal(found.values[spec], log.numbers("advantage").astype(np.float32))
    assert found.figures["logged"]["closest"] == spec


def test_the_recipes_estimator_is_known(tmp_path: Path) -> None:
    found = replay(read_log(run_folder(tmp_path / "run", "rloo")), ["grpo"])
    assert found.figures["logged"]["closest"] == "rloo, as trained"


def test_a_file_that_is_being_written(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", "grpo")
    last, first = run / "rollouts" / "step-00003.parquet", run / "rollouts" / "step-00001.parquet"
    last.write_bytes(last.read_bytes()[:200])
    log = read_log(run)
    assert log.steps == [1, 2]
    assert any("step-00003.parquet is incomplete" in note for note in log.notes)
    first.write_bytes(b"")
    with pytest.raises(LogError, match=r"step-00001\.parquet is cut short"):
        read_log(run)
