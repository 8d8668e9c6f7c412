"""Real comparisons on a tiny model: the folder, what is not repeated, kills, signals, failures, Ray."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from upside.analysis.blocks import load
from upside.training.folder import RunFolder

Command = Callable[..., subprocess.Popen[str]]
Whole = tuple[Path, str]
ESTIMATORS = ("--estimators", "grpo", "--estimators", "idea=grpo > shorter:strength=0.5", "--seeds", "1")
pytestmark = pytest.mark.slow


def figures(folder: Path) -> dict[str, Any]:
    """comparison.json without the clock."""
    found = json.loads((folder / "comparison.json").read_text())
    assert found.pop("times")
    return found


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    text = process.communicate(timeout=300)[0]
    assert process.returncode == code, text
    return text


def wait_for_step(run: Path, step: int) -> None:
    deadline = time.monotonic() + 200
    while len(RunFolder(run).metrics()) < step:
        assert time.monotonic() < deadline, f"{run} did not reach step {step}"
        time.sleep(0.05)


def trainers(folder: Path) -> list[int]:
    """Processes that train into a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if "comparison.worker" in words and str(folder) in words:
                found.append(int(entry.name))
    return found


def test_a_comparison_of_two_estimators_one_of_them_the_users_own(whole: Whole) -> None:
    folder, text = whole
    assert {path.name for path in folder.iterdir()} == {
        ".lock", "runs", "logs", "recipes", "comparison.json", "sections.json", "table.md", "curves.png",
    }  # fmt: skip
    assert "grpo-s0: started" in text
    assert "(2 of 2 runs done)" in text
    found = figures(folder)
    assert [result["spec"] for result in found["results"]] == ["grpo", "grpo > shorter:strength=0.5"]
    assert [check["equal"] for check in found["checks"]] == [True, True, True, True]
    assert not found["failed"]
    assert not found["missing"]
    for result in found["results"]:
        run = RunFolder(folder / "runs" / f"{result['name']}-s0")
        last = [line for line in run.held_out() if line["mode"] == "sampled"][-1]
        assert last["step"] == 6
        assert result["by_seed"]["sampled"] == [pytest.approx(sum(last["right"]) / sum(last["judged"]))]
        assert result["tokens"] == [pytest.approx(sum(16 * row["length"] for row in run.metrics()))]
    assert load(folder / "sections.json")[0].id == "comparison-results"
    assert (folder / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert (folder / "table.md").read_text().count("\n| ") == 3


def test_finished_runs_are_not_repeated_wherever_the_folder_is(whole: Whole, command: Command) -> None:
    moved = whole[0].with_name("moved")
    shutil.copytree(whole[0], moved)
    text = finish(command(*ESTIMATORS, "--output", "moved"))
    assert "2 of 2 runs are finished already" in text
    assert "started" not in text
    assert figures(moved) == figures(whole[0])


def test_killed_stopped_and_continued_it_is_the_same(whole: Whole, command: Command) -> None:
    workplace = whole[0].parent
    (workplace / "slow").touch()  # so that the run of `idea` can be caught in the middle
    folder = workplace / "cut"
    arguments = (*ESTIMATORS, "--output", "cut")
    process = command(*arguments)
    wait_for_step(folder / "runs" / "grpo-s0", 1)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    deadline = time.monotonic() + 60
    while trainers(folder):  # no orphan trains on
        assert time.monotonic() < deadline
        time.sleep(0.1)

    process = command(*arguments)
    wait_for_step(folder / "runs" / "idea-s0", 3)
    assert trainers(folder)
    process.send_signal(signal.SIGINT)
    text = finish(process, code=130)
    assert "stopped by SIGINT; 1 of 2 runs are finished" in text
    assert not trainers(folder)
    run = RunFolder(folder / "runs" / "idea-s0")
    checkpoint = run.last_checkpoint()
    assert checkpoint is not None
    assert int(checkpoint.name.rpartition("-")[2]) == len(run.metrics()) < 6  # saved after the step under way

    (workplace / "slow").unlink()
    text = finish(command(*arguments))
    assert "idea-s0: goes on from a checkpoint" in text
    assert "grpo-s0: started" not in text
    assert figures(folder) == figures(whole[0])


def test_a_run_that_fails_stops_no_other(whole: Whole, command: Command) -> None:
    broken = whole[0].with_name("broken")
    shutil.copytree(whole[0] / "runs" / "grpo-s0", broken / "runs" / "grpo-s0")
    estimators = ("--estimators", "broken=grpo > shorter:fails=true,grpo", "--baseline", "grpo", "--seeds", "1")
    text = finish(command(*estimators, "--output", "broken"), code=1)
    assert "RuntimeError: no idea any more" in text
    assert "1 run is missing and left out: broken-s0" in text
    found = figures(broken)
    assert "no idea any more" in found["failed"]["broken-s0"]
    assert found["missing"] == ["broken-s0"]
    assert [result["name"] for result in found["results"]] == ["grpo"]


def test_on_ray_the_runs_are_the_same(whole: Whole, command: Command) -> None:
    pytest.importorskip("ray")
    folder = whole[0].with_name("on_ray")
    shutil.copytree(whole[0] / "runs" / "grpo-s0", folder / "runs" / "grpo-s0")
    finish(command(*ESTIMATORS, "--ray", "--output", "on_ray"))
    assert figures(folder) == figures(whole[0])
