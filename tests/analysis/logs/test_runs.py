"""Run folders whose files were cut short or edited: one sentence that names the file, or what is left of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from upside.analysis import read_log
from upside.analysis.logs import LogError

STEP = {"step": [1, 1], "group": [0, 0], "prompt": ["1+1", "1+1"], "response": ["2", "3"], "reward": [1.0, 0.0]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rollouts").mkdir()
    for step in (1, 2):
        table = pa.table({**STEP, "step": [step, step], "valid": [True, True]})
        pq.write_table(table, tmp_path / "rollouts" / f"step-{step:05}.parquet")
    lists = {name: [1] for name in ("right", "judged", "drawn", "tokens")}
    (tmp_path / "recipe.yaml").write_text("estimator: grpo\nsteps: 2\nlr: 1.0e-06\nof_a_later_version: {a: [1]}\n")
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "reward": 0.5, "kl": null}\n{"step": 2, "reward": 0.5}\n')
    (tmp_path / "held_out.jsonl").write_text(json.dumps({"step": 0, "mode": "greedy", **lists}) + "\n")
    (tmp_path / "summary.json").write_text('{"before": {"greedy": {"accuracy": 1.0}}, "seconds": {"train": 3}}')
    return tmp_path


def test_a_whole_folder_and_one_without_its_further_files(folder: Path) -> None:
    log = read_log(folder)
    assert (len(log), log.steps, log.recipe["estimator"], len(log.metrics)) == (4, [1, 2], "grpo", 2)
    for name in ("metrics.jsonl", "held_out.jsonl", "summary.json"):
        (folder / name).unlink()
    log = read_log(folder)
    assert (len(log), log.metrics, log.held_out, log.summary) == (4, [], [], {})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("recipe.yaml", "a: [1"),
        ("recipe.yaml", "- a"),
        ("recipe.yaml", "estimator: 3"),
        ("recipe.yaml", "steps: many"),
        ("summary.json", '{"before": {"gre'),
        ("summary.json", "[1]"),
        ("summary.json", '{"before": 3}'),
        ("summary.json", '{"after": {"greedy": 5}}'),
        ("summary.json", '{"after": {"greedy": {}}}'),
        ("summary.json", '{"during": [{"greedy": {"accuracy": 1.0}}]}'),
        ("summary.json", '{"seconds": 3}'),
        ("metrics.jsonl", "3\n"),
        ("metrics.jsonl", '{"reward": 1}\n'),
        ("metrics.jsonl", '{"step": 1, "reward": "x"}\n'),
        ("held_out.jsonl", '{"mode": "greedy"}\n'),
        ("held_out.jsonl", '{"step": 0, "mode": "greedy", "right": 1}\n'),
    ],
)
def test_a_file_that_holds_something_else_is_named(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(LogError, match=rf"{name}: not what `upside train` wrote .*; restore it$"):
        read_log(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.drop_columns(["reward"]),
        lambda table: table.drop_columns(["group"]),
        lambda table: table.set_column(0, "step", pa.nulls(2, pa.int64())),
        lambda table: table.set_column(4, "reward", pa.array(["a", "b"])),
    ],
)
def test_rollouts_of_another_kind_are_named(folder: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    for file in (folder / "rollouts").iterdir():
        pq.write_table(change(pq.read_table(file)), file)
    with pytest.raises(LogError, match=r"rollouts: not what `upside train` wrote"):
        read_log(folder)


@pytest.mark.parametrize(
    ("images", "files"),
    [([None, None], []), ([[], []], []), ([[None], [None]], []), ([["a.png", "b.png"]] * 2, ["a.png", "b.png"])],
)
def test_pictures_of_a_step(folder: Path, images: list[object], files: list[str]) -> None:
    for file in (folder / "rollouts").iterdir():
        table = pq.read_table(file)
        pq.write_table(table.append_column("images", pa.array(images)), file)
    assert read_log(folder).pictures([0, 3]) == [files, files]


def test_pictures_that_are_none(folder: Path) -> None:
    for file in (folder / "rollouts").iterdir():
        pq.write_table(pq.read_table(file).append_column("images", pa.array([3, 4])), file)
    with pytest.raises(LogError, match=r"rollouts: not what `upside train` wrote .*list"):
        read_log(folder)
