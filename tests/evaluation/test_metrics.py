"""The formulas, by hand."""

import itertools
import math
import random

import pytest

from upside.evaluation import majority_at_k, mixed_share, pass_at_k, plan_group
from upside.evaluation.metrics import estimate_mean, estimate_share, majority


@pytest.mark.parametrize(
    ("n", "right", "k", "value"),
    [
        (4, 0, 2, 0.0),
        (4, 1, 1, 0.25),
        (4, 1, 2, 0.5),
        (4, 2, 2, 5 / 6),
        (4, 3, 2, 1.0),
        (4, 4, 4, 1.0),
        (10, 3, 5, 1 - 21 / 252),
        (200, 1, 100, 0.5),
        (5000, 1, 2500, 0.5),
    ],
)
def test_pass_at_k(n, right, k, value):
    assert pass_at_k(n, right, k) == pytest.approx(value, abs=1e-15)


def test_pass_at_k_and_mixed_share_count_subsets():
    for n, right, k in [(6, 2, 3), (7, 5, 2), (5, 1, 5)]:
        subsets = list(itertools.combinations([1] * right + [0] * (n - right), k))
        assert pass_at_k(n, right, k) == pytest.approx(sum(any(s) for s in subsets) / len(subsets))
        mixed = sum(0 < sum(s) < k for s in subsets) / len(subsets)
        assert mixed_share(n, right, k) == pytest.approx(mixed)


def test_pass_at_k_is_unbiased():
    rng, p, n, k = random.Random(0), 0.2, 8, 4
    draws = [pass_at_k(n, sum(rng.random() < p for _ in range(n)), k) for _ in range(20_000)]
    assert sum(draws) / len(draws) == pytest.approx(1 - (1 - p) ** k, abs=0.01)


@pytest.mark.parametrize("k", [0, 5, -1])
def test_k_out_of_range(k):
    with pytest.raises(ValueError, match="k must be between 1 and the number of samples 4"):
        pass_at_k(4, 2, k)
    with pytest.raises(ValueError, match="size must be between"):
        mixed_share(4, 2, k)
    with pytest.raises(ValueError, match="right must be"):
        pass_at_k(4, 5, 2)


def test_majority_and_its_ties():
    assert majority(["a", "a", "b"], [True, True, False]) == 1.0
    assert majority(["a", "b", "b"], [True, False, False]) == 0.0
    assert majority(["a", "b"], [True, False]) == 0.5
    assert majority(["a", "b", "c"], [False, True, False]) == pytest.approx(1 / 3)
    assert majority([None, None, "a"], [False, False, True]) == 1.0
    assert majority([None, None], [False, False]) == 0.0
    assert majority(["a", "a", "b"], [True, False, False]) == 0.5


def test_majority_in_blocks():
    answers, right = ["a", "a", "b", "b", "b", "a"], [True, True, False, False, False, True]
    assert majority_at_k(answers, right, 3) == 0.5
    assert majority_at_k(answers, right, 2) == pytest.approx((1 + 0 + 0.5) / 3)
    assert majority_at_k(answers, right, 4) == 0.5
    with pytest.raises(ValueError, match="k must be between"):
        majority_at_k(answers, right, 7)
    with pytest.raises(ValueError, match="right: 5 judgements for 6 answers; give one per answer"):
        majority_at_k(answers, right[:5], 3)


def test_share_interval():
    full = estimate_share([1.0] * 20)
    assert (full.value, full.high) == (1.0, 1.0)
    assert full.low == pytest.approx(20 / (20 + 1.959964**2), abs=1e-6)
    none = estimate_share([0.0] * 20)
    assert none.high == pytest.approx(1 - full.low)
    half = estimate_share([0.0, 1.0] * 500)
    assert (half.low, half.high) == (pytest.approx(0.469, abs=1e-3), pytest.approx(0.531, abs=1e-3))
    assert estimate_share([0.5] * 100).low > estimate_share([0.0, 1.0] * 50).low - 1e-9
    assert math.isnan(estimate_share([]).value)
    assert estimate_share([1.0]).problems == 1


def test_share_interval_covers_and_is_clustered():
    """16 responses to each of 60 problems whose pass rates vary: the interval must reckon with 60, not 960."""
    rng = random.Random(0)
    hits = 0
    for _ in range(400):
        rates = [rng.random() for _ in range(60)]
        found = estimate_share([sum(rng.random() < p for _ in range(16)) / 16 for p in rates])
        hits += found.low <= 0.5 <= found.high
    assert 0.92 <= hits / 400 <= 0.98


def test_mean_interval():
    found = estimate_mean([1.0, 3.0])
    assert (found.value, found.low, found.high) == (2.0, pytest.approx(0.04, abs=1e-3), pytest.approx(3.96, abs=1e-3))
    assert math.isnan(estimate_mean([1.0]).low)
    assert math.isnan(estimate_mean([]).value)


@pytest.mark.parametrize(
    ("size", "dead", "row", "group"),
    [(2, 0.82, 0.41, 0.205), (6, 0.5314, 0.2657, 0.0083), (10, 0.3487, 0.1743, 0.00034)],
)
def test_plan_matches_the_bernoulli_check_of_aapo(size, dead, row, group):
    plan = plan_group(0.9, size, 0.5)
    assert plan.dead == pytest.approx(dead, abs=6e-5)
    assert plan.aapo_row == pytest.approx(row, abs=6e-5)
    assert plan.aapo_group == pytest.approx(group, abs=6e-5)
    assert plan.all_right + plan.all_wrong == pytest.approx(plan.dead)


def test_plan_of_a_group_of_two_at_018():
    plan = plan_group(0.18, 2, prompts=16)
    assert plan.dead == pytest.approx(0.7048)
    assert plan.reference_pass_rate == 0.18
    assert plan.expected_mixed == pytest.approx(16 * 0.2952)
    assert plan_group(0.3, 1).dead == 1.0
    assert plan_group(0.0, 8).all_wrong == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.2, 8), "pass_rate must be between 0 and 1, got 1.2"),
        ((0.2, 0), "group_size must be a whole number and at least 1, got 0"),
        ((0.2, 2.5), "group_size must be a whole number and at least 1, got 2.5"),
        ((0.2, 8, -0.1), "reference_pass_rate must be"),
        ((math.nan, 8), "pass_rate must be"),
        ((0.2, 8, None, 0), "prompts must be"),
    ],
)
def test_plan_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        plan_group(*arguments)
