"""The doctor beside a run: what it tells, and when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from upside.analysis.doctor import live
from upside.analysis.doctor.live import Live
from upside.training.folder import RunFolder

SIZE = 16


def step(at: int, truncated: float) -> tuple[dict[str, Any], pa.Table]:
    """A step's line and responses, a share of them cut off."""
    rows = range(SIZE)
    cut = [row < truncated * SIZE for row in rows]
    columns = {
        "step": [at] * SIZE,
        "prompt": [f"p{row // 4}" for row in rows],
        "response": [f"{at} {row}" for row in rows],
        "correct": [row % 3 == 0 for row in rows],
        "outcome": ["correct" if row % 3 == 0 else "wrong" for row in rows],
        "group": [row // 4 for row in rows],
        "valid": [True] * SIZE,
        "reward": [float(row % 3 == 0) for row in rows],
        "length": [9.0 + row for row in rows],
        "truncated": cut,
    }
    return {"step": at, "reward": 6 / 16, "truncated_share": sum(cut) / SIZE, "loss": 0.1}, pa.table(columns)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    (tmp_path / "rollouts").mkdir()
    return RunFolder(tmp_path)


def test_a_finding_is_told_once_and_again_when_it_is_worse(folder: RunFolder) -> None:
    told: list[str] = []
    halts: list[int] = []
    doctor = Live(folder, {"steps": 55}, told.append, lambda: halts.append(len(told)))
    for at in range(1, 56):
        doctor.step(*step(at, 0.0 if at <= 10 else 0.125 if at <= 30 else 0.5))
    assert [line.split(":")[0] for line in told if line.startswith("doctor")] == ["doctor, step 20", "doctor, step 40"]
    assert told[0] == (
        "doctor, step 20: warn truncation: 12.5% of the recent responses are cut off (0.0% at first); mean length 16 "
        "at first, 16 recently; 50% of those cut off are right"
    )
    assert told[1].startswith("  remedy: more room (max_new_tokens")
    assert halts == [4]  # at the first failure, once
    assert doctor.failed is not None
    assert doctor.failed["check"] == "truncation"
    kept = json.loads(folder.summary_file.read_text())["doctor"]
    assert [(found["step"], found["level"]) for found in kept] == [(20, "warn"), (40, "fail")]


def test_a_continued_run_remembers_what_was_told_and_looks_at_the_same_window(folder: RunFolder) -> None:
    whole: list[str] = []
    doctor = Live(folder, {"steps": 40}, whole.append)
    for at in range(1, 41):
        row, table = step(at, 0.0 if at <= 10 else 0.125)
        doctor.step(row, table)
        if at <= 25:  # what was on disk when the run was killed
            folder.log(row)
            pyarrow.parquet.write_table(table, folder.rollouts_file(at))
    assert len(whole) == 2
    rest: list[str] = []
    doctor = Live(folder, {"steps": 40}, rest.append)
    assert [table["step"][0].as_py() for table in doctor._tables] == list(range(6, 26))
    for at in range(26, 41):
        doctor.step(*step(at, 0.125))
    assert rest == []


def test_the_window_is_bounded_in_memory(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MEMORY", 3 * step(1, 0.0)[1].nbytes)
    doctor = Live(folder, {"steps": 9}, print)
    for at in range(1, 10):
        doctor.step(*step(at, 0.0))
    assert [table["step"][0].as_py() for table in doctor._tables] == [7, 8, 9]


def test_a_check_that_breaks_ends_the_looking_and_not_the_run(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise ZeroDivisionError("of a check")

    monkeypatch.setattr(live, "diagnose", broken)
    told: list[str] = []
    doctor = Live(folder, {"steps": 30}, told.append)
    for at in range(1, 31):
        doctor.step(*step(at, 0.5))
    assert told == ["doctor: looks no more, the run goes on (ZeroDivisionError: of a check)"]
