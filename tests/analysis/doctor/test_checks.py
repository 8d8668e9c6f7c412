"""Every check on a log that has its fault and on one that has not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import upside
from upside.analysis.doctor import CHECKS, diagnose
from upside.analysis.logs import Log

STEPS, PROMPTS, SIZE = 60, 10, 8
N = STEPS * PROMPTS * SIZE
STEP = np.repeat(np.arange(1, STEPS + 1), PROMPTS * SIZE)
GROUP = np.repeat(np.arange(STEPS * PROMPTS), SIZE)
EVEN = GROUP % 2 == 0
LATE = STEP > 50
RISING = np.linspace(0, 1, STEPS)
SPEC = "canon:metric=length,mu=0.5 > reference_margin > adora_weight:mode=amplify"


@cache
def healthy() -> Log:
    """60 steps of 10 prompts x 8 responses that go from 30% to 70% right, with all that the checks read."""
    rng = np.random.default_rng(0)
    correct = rng.random(N) < 0.3 + 0.4 * STEP / STEPS
    length = rng.integers(40, 80, N).astype(float)
    columns: dict[str, Any] = {
        "step": STEP,
        "group": GROUP,
        "prompt": GROUP % 97,
        "prompt_text": [f"prompt {code}" for code in GROUP % 97],
        "response": [f"response {row} is unlike the others" for row in range(N)],
        "reward": correct.astype(float),
        "correct": correct,
        "outcome": np.where(correct, "correct", "wrong"),
        "length": length,
        "entropy": rng.uniform(0.3, 0.5, N),
        "truncated": rng.random(N) < 0.01,
        "reference_reward": (rng.random(N) < 0.5).astype(float),
    }
    estimator = upside.estimator(SPEC)
    parts = []
    for rows in np.split(np.arange(N), STEPS):
        batch = upside.Rollouts(
            columns["reward"][rows], GROUP[rows], lengths=length[rows], correct=correct[rows],
            reference_rewards=columns["reference_reward"][rows], training=False,
        )  # fmt: skip
        parts.append(upside.explain(estimator, batch))
    explained = [row for part in parts for row in part]
    for name in ("metric", "half", "margin", "weight", "tas", "advantage"):
        columns[name] = np.array([row[name] for row in explained], dtype=float)
    line = {"loss": 0.1, "grad_norm": 0.5, "lr": 1e-6, "kl": 0.02, "clip_share": 0.01, "seconds": 2.0,
            "explained_variance": 0.5, "reference_missing_share": 0.0}  # fmt: skip
    held_out = [{"step": at, "mode": "sampled", "right": [1, 0, 0] * 40 if at == 0 else [1, 1, 0] * 40,
                 "judged": [1] * 120, "drawn": [1] * 120, "tokens": [9] * 120} for at in (0, STEPS)]  # fmt: skip
    return Log(
        source="made",
        kind="upside",
        table=pa.table(columns),
        metrics=[{"step": at, **line} for at in range(1, STEPS + 1)],
        recipe={"estimator": SPEC, "group_size": SIZE, "steps": STEPS},
        held_out=held_out,
    )


def of_metrics(**series: Any) -> Log:
    """Metrics alone: each argument is (T,) values of a number of a step."""
    steps = len(next(iter(series.values())))
    rows = [{"step": at + 1, **{name: values[at] for name, values in series.items()}} for at in range(steps)]
    schema = pa.schema({"step": pa.int64(), "group": pa.int64(), "reward": pa.float64()})
    return Log("made", "table", schema.empty_table(), metrics=rows)


def change(log: Log, **columns: Any) -> Log:
    """Other columns in the table."""
    table = log.table
    for name, values in columns.items():
        table = table.drop_columns([name]) if name in table.column_names else table
        table = table.append_column(name, pa.array(values))
    return replace(log, table=table)


def keep(log: Log, rows: np.ndarray) -> Log:
    """Some rows."""
    return replace(log, table=log.table.filter(pa.array(rows)))


def lines(log: Log, **series: Any) -> Log:
    """Other numbers in the metrics: a value for every step, or one per step."""
    rows = [
        {**row, **{name: value if np.isscalar(value) or value is None else value[at] for name, value in series.items()}}
        for at, row in enumerate(log.metrics)
    ]
    return replace(log, metrics=rows)


def rewards(values: np.ndarray, **more: Any) -> Log:
    """The healthy log with these rewards, right where they are 1."""
    return change(healthy(), reward=values, correct=values == 1, **more)


def right(share: np.ndarray) -> np.ndarray:
    """(N,) rewards 0 or 1, a share of them 1 at each step. share: (60,)"""
    return (np.random.default_rng(1).random(N) < share[STEP - 1]).astype(float)


def texts(pattern: Callable[[int], str]) -> list[str]:
    return [pattern(row) for row in range(N)]


def held_out(*accuracy: tuple[int, int]) -> Log:
    """(step, how many of 120 problems are right) …"""
    rows = [
        {"step": step, "mode": "sampled", "right": [1] * count + [0] * (120 - count), "judged": [1] * 120}
        for step, count in accuracy
    ]
    return replace(healthy(), held_out=rows)


def jumping() -> Log:
    """Reward 0.2 to 0.8 and entropy 0.4 to 0.1; then, within a step, both where they began."""
    noise = np.random.default_rng(2).normal(0, 0.01, STEPS)
    up = np.where(np.arange(STEPS) < 45, 0.2 + 0.6 * np.minimum(RISING * 2, 1), 0.2)
    return of_metrics(reward=up + noise, entropy=0.5 - up / 2 + noise / 4)


FAULTS: dict[str, tuple[str, Callable[[], Log]]] = {  # check -> the level it must give, a log with the fault
    "too_easy_groups": ("fail", lambda: rewards(np.where(GROUP % 20 == 0, healthy().numbers("reward"), 1.0))),
    "too_hard_groups": ("fail", lambda: rewards(np.where(GROUP % 20 == 0, healthy().numbers("reward"), 0.0))),
    "dead_groups": ("fail", lambda: change(
        healthy(), reward=np.where(GROUP % 20 == 0, healthy().numbers("reward"), 0.7))),
    "singleton_groups": ("fail", lambda: change(healthy(), group=np.arange(N))),
    "mixed_groups": ("fail", lambda: change(healthy(), prompt=np.arange(N) % 7)),
    "merged_groups": ("warn", lambda: change(healthy(), group=np.where(GROUP % 10 == 1, GROUP - 1, GROUP))),
    "split_groups": ("fail", lambda: change(healthy(), group=GROUP * 2 + np.arange(N) % 2)),
    "uneven_groups": ("warn", lambda: keep(healthy(), ~((np.arange(N) % SIZE == 0) & (GROUP % 5 == 0)))),
    "duplicate_responses": ("fail", lambda: change(healthy(), response=texts(lambda row: f"as {GROUP[row]}"))),
    "same_response": ("fail", lambda: change(healthy(), response=["42"] * N)),
    "reward_not_moving": ("warn", lambda: rewards(right(np.full(STEPS, 0.3)))),
    "reward_plateau": ("warn", lambda: of_metrics(reward=np.minimum(np.arange(120) / 40, 1) * 0.6 + np.resize(
        [0, 0.01], 120))),
    "reward_collapse": ("fail", lambda: rewards(right(np.where(RISING < 0.6, 0.2 + RISING, 0.2)))),
    "sudden_reset": ("fail", jumping),
    "format_only": ("fail", lambda: change(
        healthy(), reward=right(RISING) * 0.5, correct=np.random.default_rng(3).random(N) < 0.1)),
    "reward_spread": ("warn", lambda: change(
        healthy(), reward=np.where(LATE, 0.5, 0) + healthy().numbers("reward") * np.where(LATE, 0.05, 1.0))),
    "reward_outliers": ("warn", lambda: change(
        healthy(), reward=healthy().numbers("reward") + 100.0 * (np.arange(N) == 77))),
    "verifier_timeouts": ("fail", lambda: change(
        healthy(), outcome=np.where(np.arange(N) % 5 == 0, "timeout", "wrong"))),
    "unparsed_answers": ("warn", lambda: change(healthy(), outcome=np.where(EVEN, "unparsed", "wrong"))),
    "invalid_rewards": ("fail", lambda: change(healthy(), reward=[None if row % 4 == 0 else 1.0 for row in range(N)])),
    "held_out_falls": ("fail", lambda: held_out((0, 80), (30, 90), (60, 40))),
    "held_out_flat": ("warn", lambda: held_out((0, 40), (60, 42))),
    "train_eval_mismatch": ("fail", lambda: held_out((0, 110), (60, 110))),
    "memorising": ("warn", lambda: held_out((0, 40), (60, 40))),
    "truncation": ("fail", lambda: change(healthy(), truncated=LATE & EVEN)),
    "length_runaway": ("warn", lambda: rewards(right(np.full(STEPS, 0.3)), length=50.0 + 2 * STEP)),
    "length_collapse": ("fail", lambda: rewards(right(np.full(STEPS, 0.3)), length=np.where(LATE, 5.0, 50.0))),
    "length_reward": ("warn", lambda: change(
        healthy(), reward=healthy().numbers("reward") + healthy().numbers("length") / 100)),
    "missing_eos": ("fail", lambda: change(healthy(), truncated=[True] * N)),
    "equal_lengths": ("fail", lambda: change(healthy(), length=[64.0] * N)),
    "empty_responses": ("fail", lambda: change(healthy(), response=texts(lambda row: "" if row % 4 else "x"))),
    "repetition": ("fail", lambda: change(healthy(), response=texts(lambda row: f"{row} " + "again and " * 200))),
    "entropy_collapse": ("fail", lambda: rewards(right(np.full(STEPS, 0.5)), entropy=0.5 * np.exp(-STEP / 8.0))),
    "entropy_explosion": ("fail", lambda: change(healthy(), entropy=0.4 + STEP / 20.0)),
    "clip_share": ("warn", lambda: lines(healthy(), clip_share=0.3)),
    "kl_blowup": ("fail", lambda: lines(healthy(), kl=0.01 + 3 * RISING)),
    "gradient_spikes": ("fail", lambda: lines(healthy(), grad_norm=np.where(np.arange(STEPS) % 10 == 0, 30.0, 0.5))),
    "not_finite": ("fail", lambda: lines(healthy(), loss=[None if at == 30 else 0.1 for at in range(STEPS)])),
    "no_update": ("fail", lambda: lines(healthy(), lr=0.0)),
    "value_function": ("fail", lambda: lines(healthy(), explained_variance=0.5 - 1.5 * RISING)),
    "slow_steps": ("warn", lambda: lines(healthy(), seconds=2.0 + 4 * RISING)),
    "log_gaps": ("warn", lambda: keep(healthy(), (STEP != 20) & (STEP != 21))),
    "advantage_outliers": ("fail", lambda: change(
        healthy(), advantage=np.where(np.arange(N) == 9, 59.6, healthy().numbers("advantage")))),
    "vanishing_advantages": ("fail", lambda: change(healthy(), advantage=np.where(LATE, 0.0, 1.0))),
    "concentrated_signal": ("fail", lambda: change(healthy(), advantage=np.where(np.arange(N) % 400 == 0, 5.0, 0.001))),
    "constant_group_signal": ("fail", lambda: replace(
        rewards(np.where(EVEN, 0.7, right(RISING)), advantage=[-1.09] * N), recipe={"estimator": "grpo"})),
    "advantages_differ": ("fail", lambda: change(healthy(), advantage=healthy().numbers("advantage") * 1.1)),
    "mean_weight": ("warn", lambda: change(healthy(), weight=np.where(EVEN, 0.1, 0.2))),
    "adora_constant": ("warn", lambda: change(healthy(), tas=[1.0] * N)),
    "canon_tied": ("fail", lambda: change(healthy(), metric=[64.0] * N)),
    "margin_saturation": ("fail", lambda: change(healthy(), margin=[0.28] * N)),
    "reference_missing": ("fail", lambda: lines(healthy(), reference_missing_share=0.6)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "norm", "expected"),
    [
        ({"beta": 0.0, "max_grad_norm": 1.0}, 0.3, "ok"),  # Adam: 60 steps of grpo at weight 0.3 and at 1 are alike
        ({"beta": 0.001, "max_grad_norm": 1.0}, 0.3, "warn"),
        ({"beta": 0.0, "entropy_bonus": 0.01, "max_grad_norm": 1.0}, 0.3, "warn"),
        ({"beta": 0.0, "max_grad_norm": 0.1}, 0.3, "warn"),
        ({"beta": 0.0, "max_grad_norm": 1.0, "trl": {"optim": "sgd"}}, 0.3, "warn"),
        ({}, 0.3, "warn"),
    ],
)
def test_a_mean_weight_matters_where_its_scale_does(settings: dict[str, Any], norm: float, expected: str) -> None:
    log = lines(change(healthy(), weight=np.full(N, 0.3)), grad_norm=norm)
    assert level("mean_weight", replace(log, recipe=settings)) == expected


def test_weights_that_fall_matter_to_adam_too() -> None:
    """On pictures: ADORA's weights scaled to a mean of 1 make up more than half of its distance (docs/vision.md)."""
    log = replace(lines(healthy(), grad_norm=0.3), recipe={"beta": 0.0, "max_grad_norm": 1.0})
    early = np.asarray(log.codes("step")) < 10
    for recent, expected in ((0.2, "warn"), (0.45, "ok")):
        assert level("mean_weight", change(log, weight=np.where(early, 0.5, recent))) == expected


def level(check: str, log: Log) -> str:
    return diagnose(log, only=[check]).findings[0]["level"]


def test_every_check_has_a_fault_here() -> None:
    assert set(FAULTS) == set(CHECKS)
    assert len(CHECKS) >= 16


@pytest.mark.parametrize("check", FAULTS)
def test_a_log_with_the_fault_and_one_without(check: str) -> None:
    expected, faulty = FAULTS[check]
    found = diagnose(faulty(), only=[check]).findings[0]
    assert found["level"] == expected, found["evidence"]
    assert diagnose(healthy(), only=[check]).findings[0]["level"] == "ok"
    assert all(found[key] for key in ("evidence", "threshold", "remedy", "title"))


def test_a_healthy_log_has_no_finding_and_nothing_unknown() -> None:
    found = diagnose(healthy())
    assert {finding["level"] for finding in found.findings} == {"ok"}, found.findings
    assert found.exit_code == 0


@pytest.mark.parametrize(
    ("log", "checks"),
    [
        # reward 0.2 -> 0.75 while the format term goes to its ceiling and the one for the answer stays
        (of_metrics(**{"reward": 0.2 + 0.4 * RISING, "reward_part/format": RISING + np.resize([0, 0.01], STEPS),
                       "reward_part/math": np.resize([0.1, 0.12], STEPS)}), {"format_only"}),
        # the length grows threefold and the reward with it
        (of_metrics(reward=0.2 + 0.5 * RISING, length=100 + 200 * RISING), {"length_reward"}),
        (of_metrics(reward=0.2 + 0.5 * RISING, constant_group_share=0.1 + 0.8 * RISING), {"dead_groups"}),
        (of_metrics(reward=0.2 + 0.5 * RISING, repeated_share=0.5 * RISING), {"repetition"}),
        (of_metrics(reward=0.2 + 0.5 * RISING, nan_count=np.where(np.arange(STEPS) == 7, 2, 0)), {"not_finite"}),
        (of_metrics(reward=0.2 + 0.5 * RISING, held_out_accuracy=np.where(np.arange(STEPS) < 30, 0.6, 0.3)),
         {"held_out_falls"}),
        (of_metrics(reward=0.2 + 0.5 * RISING, zero_advantage_share=np.full(STEPS, 0.97)), {"vanishing_advantages"}),
        (of_metrics(reward=0.2 + 0.5 * RISING, entropy=np.full(STEPS, 0.4), length=np.full(STEPS, 90.0)), set()),
    ],
)  # fmt: skip
def test_metrics_alone(log: Log, checks: set[str]) -> None:
    found = diagnose(log)
    assert {finding["check"] for finding in found.findings if finding["level"] in ("warn", "fail")} == checks


def test_one_of_eight_right_is_a_signal_and_none_is_not() -> None:
    """Two steps by hand: 3 groups of 4; one all right, one all wrong, one mixed -> a third each."""
    reward = np.array([1, 1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0] * 2, dtype=float)
    table = {"step": [1] * 12 + [2] * 12, "group": np.repeat(np.arange(6), 4), "reward": reward}
    log = Log("hand", "table", pa.table(table))
    found = {finding["check"]: finding["evidence"] for finding in diagnose(log).findings}
    assert found["too_easy_groups"].startswith("33% of all groups")
    assert found["too_hard_groups"].startswith("33% of the recent groups")
    assert found["dead_groups"].startswith("0% of the recent groups")
    assert level("truncation", log) == "unknown"


def test_a_want_of_signal_at_the_end_of_a_good_run_is_no_fault() -> None:
    reward = right(0.2 + 0.79 * np.minimum(RISING * 2, 1))  # 20% to 99% right at half time
    advantage = np.where(LATE, 0.0, 1.0)
    log = rewards(reward, entropy=0.5 * np.exp(-STEP / 10.0), advantage=advantage)
    for check in ("entropy_collapse", "vanishing_advantages", "reward_spread", "reward_not_moving", "dead_groups"):
        assert level(check, log) == "ok", check


def test_a_first_update_that_breaks_the_model_is_named_before_what_follows_from_it() -> None:
    """30% right at the first step, none ever after; the healthy log has that first step and goes on."""
    broken = rewards(np.where(STEP == 1, right(np.full(STEPS, 0.3)), 0.0))
    broken = replace(broken, metrics=[])
    found = diagnose(broken, only=["too_hard_groups", "reward_spread", "reward_collapse", "vanishing_advantages"])
    assert [finding["check"] for finding in found.at("fail")] == ["reward_collapse", "too_hard_groups", "reward_spread"]
    assert found.findings[0]["evidence"] == "mean reward 0.275 at step 1, 0.000 at best after"
    assert diagnose(keep(broken, STEP <= 12), only=["reward_collapse"]).exit_code == 1
    assert diagnose(keep(replace(healthy(), metrics=[]), STEP <= 25), only=["reward_collapse"]).exit_code == 0


def test_a_reward_that_never_pays_is_neither_hard_prompts_nor_a_reset() -> None:
    log = change(replace(healthy(), metrics=[]), reward=np.zeros(N), advantage=np.zeros(N))
    log = replace(log, table=log.table.drop_columns(["correct", "outcome"]))
    found = {finding["check"]: finding for finding in diagnose(log).findings}
    assert found["reward_spread"]["level"] == "fail"
    assert found["reward_spread"]["evidence"] == "the rewards of every step are all equal"
    assert found["too_hard_groups"]["level"] == "unknown"
    assert found["sudden_reset"]["level"] == "ok"
    assert diagnose(keep(log, STEP <= 6), only=["reward_spread"]).exit_code == 1


def test_an_infinite_reward_is_no_number() -> None:
    values = np.where(np.arange(N) == 100, np.inf, healthy().numbers("reward"))
    found = diagnose(change(healthy(), reward=values), only=["not_finite"])
    assert (found.exit_code, found.findings[0]["steps"]) == (1, [2])


def test_a_prompt_drawn_twice_with_two_ids_is_no_fault() -> None:
    log = change(healthy(), prompt=GROUP % 5, prompt_text=[f"p{code}" for code in GROUP % 5])  # each twice a step
    assert level("split_groups", log) == "ok"
    assert level("merged_groups", log) == "ok"


def test_margins_on_dead_groups_are_meant_and_whitened_zeros_are_not() -> None:
    log = rewards(np.where(EVEN, 1.0, healthy().numbers("reward")), advantage=[0.28] * N)
    assert level("constant_group_signal", replace(log, recipe={"estimator": "aapo"})) == "ok"
    assert level("constant_group_signal", replace(log, recipe={"estimator": "grpo"})) == "fail"
    assert level("constant_group_signal", replace(log, recipe={})) == "fail"


def test_advantages_of_an_unknown_estimator_are_not_judged() -> None:
    found = diagnose(replace(healthy(), recipe={}), only=["advantages_differ"]).findings[0]
    assert found["level"] == "unknown"
    assert "which estimator" in found["evidence"]
    assert level("advantages_differ", replace(healthy(), recipe={"estimator": "no_such"})) == "unknown"
