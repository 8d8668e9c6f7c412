"""A step's line and columns, by hand."""

from __future__ import annotations

import pytest

import upside
from upside.training.record import Step


def step(**changes) -> Step:
    batch = upside.Rollouts(
        rewards=[1.0, 0.0, 0.0, None],
        groups=["a", "a", "b", "b"],
        lengths=[2, 4, 6, 8],
        entropy=[0.5, 0.25, 0.5, 0.0],
        truncated=[False, False, False, True],
        reference_rewards=[1.0, 1.0, 0.0, None],
        step=3,
    )
    result = upside.estimator("dr_grpo")(batch)
    facts = {"correct": [True, False, None, None], "outcomes": ["correct", "wrong", "timeout", "error"]} | changes
    return Step(batch, result, ["p", "p", "q", "q"], ["r1", "r2", "r3", "r4"], **facts)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_line() -> None:
    row = step().metrics({"loss": 0.5, "entropy": 9.0}, {"rollout": 1.5}, 2.0)
    assert row["step"] == 3
    assert row["reward"] == pytest.approx(1 / 3)  # the row without a reward stays out
    assert (row["accuracy"], row["length"], row["truncated_share"]) == (0.5, 5.0, 0.25)
    assert row["entropy"] == pytest.approx((0.5 * 2 + 0.25 * 4 + 0.5 * 6) / 20)  # per token, and not the engine's
    assert (row["loss"], row["seconds"], row["seconds_rollout"]) == (0.5, 2.0, 1.5)
    assert row["reference_reward"] == pytest.approx(2 / 3)
    assert [row[f"verify/{name}"] for name in ("correct", "wrong", "unparsed", "timeout", "error")] == [
        0.25, 0.25, 0.0, 0.25, 0.25,
    ]  # fmt: skip
    assert row["groups"] == 2
    unjudged = step(correct=None, outcomes=None).metrics({}, {}, 1.0)
    assert unjudged["accuracy"] is None
    assert not any(key.startswith("verify/") for key in unjudged)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_columns() -> None:
    columns = step().columns(upside.estimator("dr_grpo"))
    assert columns["step"] == [3] * 4
    assert columns["response"] == ["r1", "r2", "r3", "r4"]
    assert columns["correct"] == [True, False, None, None]
    assert columns["outcome"] == ["correct", "wrong", "timeout", "error"]
    assert columns["advantage"] == [0.5, -0.5, 0.0, 0.0]
    assert {len(column) for column in columns.values()} == {4}
    assert step(correct=None, outcomes=None).columns(upside.estimator("dr_grpo"))["outcome"] == [None] * 4
