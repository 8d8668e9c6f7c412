"""`upside replay`: figures by hand, the same values at once and step by step, what a log lacks, and the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from batches import SPECS
from click.testing import CliRunner

import upside
from upside.analysis import blocks, read_log, replay
from upside.analysis.logs import Log, LogError
from upside.cli import main

# Two visits of one prompt. A = r - mean: [.75, -.25, -.25, -.25] and [.5, .25, -.25, -.5].
# Halves by length, CANON-Intra: [.5, -.5, 0, 0] (low: 1, 0; high: 0, 0) and [.125, -.125, .125, -.125].
ROWS = {
    "step": [1, 1, 1, 1, 2, 2, 2, 2],
    "prompt": ["p"] * 8,
    "reward": [1, 0, 0, 0, 1, 0.75, 0.25, 0],
    "correct": [True, False, False, False, True, True, False, False],
    "length": [10, 20, 30, 40, 40, 30, 20, 10],
}
INTRA = "canon_intra:metric=length"


def log_of(tmp_path: Path, **columns: Any) -> Log:
    (tmp_path / "log.json").write_text(json.dumps({**ROWS, **columns}))
    return read_log(tmp_path / "log.json")


def test_figures_by_hand(tmp_path: Path) -> None:
    found = replay(log_of(tmp_path), ["dr_grpo", INTRA])
    f = found.figures
    mean, intra = f["estimators"].values()
    assert found.values[INTRA].tolist() == [0.5, -0.5, 0, 0, 0.125, -0.125, 0.125, -0.125]
    assert f["same_sign"] == [[1, 0.5], [0.5, 1]]
    assert f["opposite_sign"] == [[0, 0.25], [0.25, 0]]
    # sum of products 0.375 + 0.125 + 0.0625 - 0.03125 - 0.03125 + 0.0625, squares 1.375 and 0.5625
    assert f["correlation"][0][1] == pytest.approx(0.5625 / (1.375 * 0.5625) ** 0.5)
    assert (mean["zero_share"], intra["zero_share"], intra["zero_groups"]) == (0, 0.25, 0)
    assert mean["steps"]["effective"] == pytest.approx([1.5**2 / 0.75 / 4, 1.5**2 / 0.625 / 4])
    assert intra["steps"]["effective"] == pytest.approx([0.5, 1])
    assert (mean["size"], intra["size"]) == (1, 0.5)
    right = next(each for each in f["slices"] if each["name"] == "right")
    assert right["rows"] == 0.375
    assert right["share"] == {"dr_grpo": 0.5, INTRA: 0.5}
    assert right["push"] == {"dr_grpo": 0.5, INTRA: pytest.approx(1 / 3)}
    assert f["halves"]["length"] == {"gap": 0.125, "high_better": 0.5, "low_better": 0.5, "steps": [-0.5, 0.75]}


def test_states_of_a_prompt_by_hand(tmp_path: Path) -> None:
    """Length advantage: 10 > 30 at the first visit, 40 > 15 at the second. Difficulty: 1/4 and 2/4, at most 1/2."""
    length, difficulty, adora = replay(log_of(tmp_path), ["grpo", "adora"]).figures["advantageous"]
    assert length == {"name": "length advantage", "share": 0.5, "visits": 1, "flips": 1, "by_chance": 0.5}
    assert difficulty == {"name": "difficulty advantage", "share": 1, "visits": 1, "flips": 0, "by_chance": 0}
    assert adora == {**length, "name": "adora"}


def test_unscored_responses_stay_out(tmp_path: Path) -> None:
    """The last response of each group unscored: it has no sign to agree on, but counts as one without signal."""
    found = replay(log_of(tmp_path, reward=[1, 0, 0, None, 1, 0.5, 0, None]), ["dr_grpo", "rloo"])
    assert found.figures["unscored"] == 2
    assert found.figures["same_sign"][0][1] == 1
    assert found.figures["estimators"]["rloo"]["zero_share"] == pytest.approx(3 / 8)  # and 0.5 at the mean of 1, 0.5, 0
    assert found.figures["estimators"]["rloo"]["size"] == pytest.approx(1.5)


def test_a_log_without_a_single_reward(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="no response has a reward"):
        replay(log_of(tmp_path, reward=[None] * 8), ["grpo"])


def test_mean_weight(tmp_path: Path) -> None:
    assert replay(log_of(tmp_path), ["adora"]).figures["estimators"]["adora"]["mean_weight"] == pytest.approx(0.55)


@pytest.mark.parametrize("spec", SPECS)
def test_at_once_is_step_by_step(tmp_path: Path, spec: str) -> None:
    """Whatever a stage says of itself: five steps of unequal groups at once and one after the other give the same."""
    draw = np.random.default_rng(0)
    step = np.repeat([1, 2, 3, 4, 7], [9, 14, 8, 12, 10])
    n = len(step)
    log = log_of(
        tmp_path,
        step=step.tolist(),
        prompt=[f"p{p}" for p in draw.integers(0, 3, n)],
        reward=[None if draw.random() < 0.1 else float(draw.integers(0, 2)) for _ in range(n)],
        correct=draw.integers(0, 2, n).astype(bool).tolist(),
        length=draw.integers(1, 9, n).tolist(),
        entropy=(draw.integers(0, 9, n) / 8).tolist(),
        truncated=(draw.random(n) < 0.2).tolist(),
        reference_reward=draw.integers(0, 2, n).tolist(),
        baseline=draw.random(n).tolist(),
        difficulty=draw.integers(0, 6, n).tolist(),
    )
    log = Log(log.source, log.kind, log.table, recipe={"steps": 10})
    values = replay(log, {"it": spec}).values["it"]
    batches = [log.rollouts(rows, step=step, metrics=["baseline", "difficulty"]) for step, rows in log.by_step()]
    alone = [upside.estimator(spec)(batch).values.numpy() for batch in batches]
    np.testing.assert_array_equal(values, np.concatenate(alone))


def test_what_the_log_lacks_is_named(tmp_path: Path) -> None:
    found = replay(log_of(tmp_path, truncated=[None] + [False] * 7), ["grpo", "canon_inter", "aapo", "remax", "dapo"])
    assert list(found.values) == ["grpo"]
    assert "no entropy" in found.left_out["canon_inter"]
    assert "metric=length" in found.left_out["canon_inter"]
    assert "reference model would have to answer" in found.left_out["aapo"]
    assert "map baseline=COLUMN" in found.left_out["remax"]
    assert found.left_out["dapo"] == "truncated is missing in 1 of 8 responses that have a reward"
    with pytest.raises(ValueError, match="no estimator can be replayed: aapo"):
        replay(log_of(tmp_path), ["aapo"])
    with pytest.raises(ValueError, match="baseline: 'rloo' is none of"):
        replay(log_of(tmp_path), ["grpo"], baseline="rloo")


def test_what_counts_as_success_is_said(tmp_path: Path) -> None:
    assert replay(log_of(tmp_path), ["grpo"]).figures["assumed"] == []
    (said,) = replay(log_of(tmp_path, correct=[None] + [False] * 7), ["grpo"]).figures["assumed"]
    assert said.startswith("1 scored responses have no verdict")


def test_groups_of_one_everywhere(tmp_path: Path) -> None:
    log = log_of(tmp_path, prompt=[f"p{row}" for row in range(8)])
    with pytest.raises(ValueError, match="single response"):
        replay(log, ["grpo"])


def test_a_log_of_equal_rewards(tmp_path: Path) -> None:
    found = replay(log_of(tmp_path, reward=[1] * 8, correct=[True] * 8), ["grpo", "dr_grpo"])
    assert found.figures["correlation"][0] == [None, None]
    assert found.figures["estimators"]["grpo"]["size"] is None
    assert found.sections()


def test_files_and_command(tmp_path: Path) -> None:
    log_of(tmp_path)
    asked = [
        "replay",
        str(tmp_path / "log.json"),
        "-e",
        f"dr_grpo,{INTRA},aapo",
        "--output",
        str(tmp_path / "o"),
        "--rows",
    ]
    done = CliRunner().invoke(main, asked, catch_exceptions=False)
    assert done.exit_code == 0
    assert "turns the sign of 25.0%" in " ".join(done.output.split())
    assert "aapo is left out" in done.output
    assert json.loads((tmp_path / "o" / "replay.json").read_text())["same_sign"][0] == [1, 0.5]
    assert [section.id for section in blocks.load(tmp_path / "o" / "sections.json")] == [
        "replay", "replay-who", "replay-conditions",
    ]  # fmt: skip
    assert (tmp_path / "o" / "replay.png").read_bytes()[:4] == b"\x89PNG"
    rows = pyarrow.parquet.read_table(tmp_path / "o" / "advantages.parquet").to_pydict()
    assert rows[f"advantage {INTRA}"] == [0.5, -0.5, 0, 0, 0.125, -0.125, 0.125, -0.125]
    assert rows["step"] == ROWS["step"]


def test_the_command_on_bad_input(tmp_path: Path) -> None:
    log_of(tmp_path)
    path = str(tmp_path / "log.json")
    for asked, said in (
        ([path, "--map", "reward"], "write MEANING=COLUMN"),
        ([path, "--map", "reward=rewrad"], "Did you mean 'reward'"),
        ([path, "-e", "grpoo"], "Did you mean 'grpo'"),
        ([path, "--rows"], "--rows needs --output"),
        ([str(tmp_path / "none.csv")], "no such file"),
    ):
        done = CliRunner().invoke(main, ["replay", *asked])
        assert done.exit_code == 2
        assert said in done.output
        assert done.output.count("\n") == 1


def test_a_log_without_responses(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    with pytest.raises(LogError, match="no responses"):
        replay(Log("x", "table", log.table.slice(0, 0)), ["grpo"])
