"""The batch: what it takes, what it refuses, and whether the refusal names field, row and remedy."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import upside
from upside import Rollouts


def batch(**more):
    return Rollouts(**{"rewards": [1, 0, 1, 0], "groups": [0, 0, 1, 1], **more})


@pytest.mark.parametrize(
    "rewards",
    [
        (1, 0, None),
        np.array([1.0, 0.0, math.nan]),
        np.array([1, 0, None], dtype=object),
        torch.tensor([1.0, 0.0, math.nan], dtype=torch.bfloat16),
        torch.tensor([1.0, 0.0, math.nan], requires_grad=True),
        [torch.tensor(1.0), torch.tensor(0.0), None],
        [True, False, None],
    ],
    ids=lambda r: type(r).__name__,
)
def test_numbers_in_any_shape_of_container(rewards):
    rollouts = Rollouts(rewards, ["a", "a", "a"])
    assert rollouts.rewards.dtype == torch.float64
    assert not rollouts.rewards.requires_grad
    assert rollouts.rewards[:2].tolist() == [1, 0]
    assert rollouts.valid.tolist() == [True, True, False]
    assert rollouts.scores.tolist() == [1, 0, 0]
    assert len(rollouts) == 3


def test_float32_rewards_stay_equal_in_float64():
    rollouts = Rollouts(torch.full((8,), 0.7), [0] * 8)
    assert rollouts.grouping.constant(rollouts.scores).tolist() == [True]


def test_groups_may_be_an_iterator():
    assert Rollouts([1, 0], (g for g in "ab")).group_ids == ["a", "b"]


def test_tensors_in_a_list_of_ids_count_by_value():
    rollouts = Rollouts([1, 0, 1], [*torch.tensor([7, 7]), "seven"])
    assert rollouts.group_ids == [7, "seven"]
    assert rollouts.group_index.tolist() == [0, 0, 1]


BAD = [
    ({"lengths": [1, 2, 3]}, r"lengths: 3 values for 4 rewards; give one per response"),
    ({"entropy": [1.0]}, r"entropy: 1 values for 4 rewards"),
    ({"reference_rewards": [1] * 5}, r"reference_rewards: 5 values for 4 rewards"),
    ({"correct": [True]}, r"correct: 1 values for 4 rewards"),
    ({"valid": [True]}, r"valid: 1 values for 4 rewards"),
    ({"metrics": {"m": [1, 2]}}, r"metrics\['m'\]: 2 values for 4 rewards"),
    ({"groups": [0, 0, 1]}, r"groups: 3 ids for 4 rewards; give one id per response"),
    ({"rewards": [], "groups": []}, r"rewards: the batch is empty"),
    ({"rewards": torch.zeros(2, 2)}, r"rewards: shape \(2, 2\); expected \(N,\)"),
    ({"rewards": 1.0}, r"rewards: shape \(\); expected \(N,\)"),
    ({"rewards": ["good", 0, 1, 0]}, r"rewards: expected one number per response"),
    ({"rewards": [1, math.inf, 0, -math.inf]}, r"rewards\[1\] is infinite.*None or NaN.*2 rows in all"),
    ({"reference_rewards": [1, 0, math.inf, 0]}, r"reference_rewards\[2\] is infinite; use None"),
    ({"lengths": [5, -1, 3, 4]}, r"lengths\[1\] is negative; expected generated tokens per response"),
    ({"entropy": [0.1, 0.2, 0.3, -0.4]}, r"entropy\[3\] is negative; expected mean nats"),
    ({"entropy": [0.1, math.nan, None, 0.2]}, r"entropy\[1\] is NaN or infinite.*valid=False.*2 rows in all"),
    ({"lengths": [1, 2, math.inf, 4]}, r"lengths\[2\] is NaN or infinite"),
    ({"metrics": {"m": [0, 0, math.nan, 0]}}, r"metrics\['m'\]\[2\] is NaN or infinite"),
    ({"correct": [1, 0, 0.5, 0]}, r"correct\[2\] is neither true nor false; set valid=False"),
    ({"correct": [True, None, True, True]}, r"correct\[1\] is neither true nor false"),
    ({"valid": [True, None, True, True]}, r"valid\[1\] is neither true nor false"),
    ({"groups": [0, None, 1, 1]}, r"groups\[1\] is None; every response needs the id of its prompt"),
    ({"groups": [0, math.nan, 1, 1]}, r"groups\[1\] is nan"),
    ({"groups": [0, 0, [1], [1]]}, r"groups\[2\] is not hashable; use an int or a string"),
    ({"groups": torch.zeros(4)}, r"groups: expected a 1-D tensor of integers, got torch.float32"),
    ({"groups": torch.zeros(4, 1, dtype=torch.long)}, r"groups: expected a 1-D tensor"),
    ({"metrics": {"length": [1, 2, 3, 4]}}, r"metrics\['length'\]: the name is taken; give it as a field"),
    ({"metrics": {"entropy": [1, 2, 3, 4]}}, r"metrics\['entropy'\]: the name is taken"),
    ({"step": -1}, r"step=-1 is no step; steps count 1, 2, … \(0: unknown\)"),
    ({"step": None}, r"step=None is no step"),
    ({"step": "3"}, r"step='3' is no step"),
    ({"total_steps": 0}, r"total_steps=0 is no step; steps count 1, 2, … \(None: unknown\)"),
    ({"total_steps": 2.5}, r"total_steps=2.5 is no step"),
    ({"groups": None}, r"groups: expected one id per response, in the order of the rewards, got NoneType"),
    ({"groups": {0, 1, 2, 3}}, r"groups: expected one id per response, in the order of the rewards, got set"),
    ({"groups": dict.fromkeys(range(4))}, r"groups: expected one id per response.*got dict"),
    ({"groups": torch.tensor(1)}, r"groups: expected one id per response.*got Tensor"),
    ({"groups": np.array(1)}, r"groups: expected one id per response.*got ndarray"),
    ({"metrics": None}, r"metrics: expected \{name: one number per response\}, got NoneType"),
    ({"metrics": {1: [1, 2, 3, 4]}}, r"metrics: expected \{name: one number"),
    (
        {"rewards": torch.ones(4, dtype=torch.complex64)},
        r"rewards: expected one real number per response, got .*complex64",
    ),
    ({"lengths": np.ones(4, dtype=complex)}, r"lengths: expected one real number per response, got complex128"),
]


@pytest.mark.parametrize(("fields", "message"), BAD, ids=[m[:40] for _, m in BAD])
def test_bad_input_is_named(fields, message):
    with pytest.raises(ValueError, match=message):
        batch(**fields)


def test_unknown_fields_of_an_invalid_row():
    rollouts = batch(
        valid=[True, True, True, False], correct=[1, 0, 1, None], entropy=[1, 2, 3, math.nan], lengths=[1, 1, 1, -1]
    )
    assert rollouts.success().tolist() == [True, False, True, False]


def test_the_reward_decides_when_valid_says_otherwise():
    assert batch(rewards=[None, 0, 1, 0], valid=[True] * 4).valid.tolist() == [False, True, True, True]


def test_success():
    shaped = batch(rewards=[0.6, 0.5, -3, 3])
    assert shaped.success().tolist() == [True, False, False, True]
    assert shaped.success(above=0.6).tolist() == [False, False, False, True]
    assert batch(correct=[0, 1, 0, 1]).success().tolist() == [False, True, False, True]
    assert batch(correct=[0, 1, 0, 1]).success(above=0.5).tolist() == [True, False, True, False]


def test_accuracy():
    assert float(batch(rewards=[1, 0, 1, None]).accuracy()) == pytest.approx(2 / 3)
    assert float(batch(rewards=[2, 2, 2, 2], correct=[1, 0, 0, 0]).accuracy()) == 0.25
    assert float(batch(rewards=[None] * 4).accuracy()) == 0
    with pytest.raises(ValueError, match=r"rewards\[0\] is neither 0 nor 1, .*; supply Rollouts.correct"):
        batch(rewards=[0.9, 1, 0, 0]).accuracy()


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("lengths", "generated tokens per response including EOS"),
        ("entropy", "mean nats per token of the sampling distribution"),
        ("truncated", "hit the token limit"),
        ("reference_rewards", "reward of a reference-policy response"),
    ],
)
def test_a_missing_field_says_who_needs_it_and_how_to_supply_it(name, how):
    with pytest.raises(
        ValueError, match=rf"canon needs Rollouts\.{name}, which this batch does not have\. Supply .*{how}"
    ):
        batch().require(name, "canon")


def test_require_lists_the_metrics_there_are():
    with pytest.raises(ValueError, match=r"metrics: depth, style"):
        batch(metrics={"style": [0] * 4, "depth": [0] * 4}).require("width", "canon")


def test_the_batch_cannot_be_changed():
    with pytest.raises(AttributeError):
        batch().rewards = torch.zeros(4)


def test_inputs_are_left_alone():
    given = {"rewards": [1, None, 0, 1], "groups": ["a", "a", "b", "b"], "metrics": {"m": [1, 2, 3, 4]}}
    Rollouts(**given)
    assert given == {"rewards": [1, None, 0, 1], "groups": ["a", "a", "b", "b"], "metrics": {"m": [1, 2, 3, 4]}}


@pytest.mark.parametrize("make", [torch.tensor, np.array])
def test_later_changes_of_the_input_do_not_reach_the_batch(make):
    rewards, lengths = make([1.0, 0.0, 1.0, 0.0]), make([1.0, 2.0, 3.0, 4.0])
    rollouts = batch(rewards=rewards, lengths=lengths)
    rewards[0] = lengths[0] = 99.0
    assert rollouts.rewards.tolist() == [1, 0, 1, 0]
    assert rollouts.lengths.tolist() == [1, 2, 3, 4]


def test_replace_keeps_what_was_invalid():
    unscored = batch(rewards=[None, 0, 1, 0])
    assert replace(unscored, rewards=[1, 0, 1, 0]).valid.tolist() == [False, True, True, True]
    assert replace(unscored, rewards=[1, 0, 1, 0], valid=None).valid.tolist() == [True] * 4


def test_names_of_the_package():
    assert set(upside.__all__) == {
        "Advantages", "Estimator", "Rollouts", "Stage", "StageOutput", "__version__", "chain", "estimator", "explain",
        "presets", "register_preset", "register_stage", "schedules", "stage", "testing", "why",
    }  # fmt: skip
    assert all(hasattr(upside, name) for name in upside.__all__)
