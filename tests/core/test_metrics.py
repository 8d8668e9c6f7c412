"""What every estimator reports about its batch. trl#3857, #3452: "loss = 0, is it broken?" gets an answer here."""

import pytest

import upside
from upside import Rollouts


def metrics(spec="dr_grpo", **fields):
    return upside.estimator(spec)(Rollouts(**fields)).metrics


@pytest.mark.filterwarnings("ignore:.*single response")
def test_literal():
    got = metrics(
        rewards=[1, 1, 1, 0, 0, 1, 0, None, 1],
        groups=["right", "right", "right", "wrong", "wrong", "mixed", "mixed", "mixed", "lone"],
    )
    expected = {
        "zero_advantage_share": 7 / 9,  # all but the two valid rows of the mixed group
        "zero_group_share": 3 / 4,
        "zero_batch": 0,
        "constant_group_share": 3 / 4,
        "all_correct_share": 2 / 4,
        "all_wrong_share": 1 / 4,
        "invalid_share": 1 / 9,
        "advantage_abs_max": 0.5,
        "groups": 4,
        "singleton_groups": 1,
        "group_size/1": 1,
        "group_size/2": 1,
        "group_size/3": 2,
    }
    assert got == pytest.approx(expected)


def test_correct_decides_what_is_right():
    got = metrics(rewards=[0.9, 0.9, -1, -3], groups=[0, 0, 1, 1], correct=[False, False, True, True])
    assert got["all_wrong_share"] == 0.5
    assert got["all_correct_share"] == 0.5


def test_a_batch_without_a_signal():
    got = metrics(rewards=[1, 1, 0, 0], groups=[0, 0, 1, 1])
    assert got["zero_batch"] == 1
    assert got["zero_advantage_share"] == got["zero_group_share"] == 1


def test_a_group_without_a_valid_row_is_in_no_share():
    got = metrics(rewards=[1, 0, None, None], groups=[0, 0, 1, 1])
    assert got["all_wrong_share"] == got["zero_group_share"] == 0
    assert got["invalid_share"] == 0.5


def test_stages_add_theirs():
    fields = {"rewards": [1, 0], "groups": [0, 0], "lengths": [2, 1], "entropy": [1, 2], "reference_rewards": [0, 0]}
    got = metrics("canon > reference_margin > adora_weight", **fields)
    assert {
        "canon_mu",
        "canon_gap",
        "margin_mean",
        "margin_clipped_share",
        "adora_tas_share",
        "adora_mean_weight",
    } <= set(got)
