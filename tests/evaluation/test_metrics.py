"""The formulas, by hand."""

import itertools
import math
import random

import numpy as np
import pytest

from upside.evaluation import majority_at_k, mixed_share, pass_at_k, plan_group
from upside.evaluation.metrics import (
    Estimate,
    estimate_average,
    estimate_mean,
    estimate_share,
    majority,
    t_quantile,
)


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


@pytest.mark.parametrize(
    ("df", "value"), [(1, 12.706205), (2, 4.302653), (3, 3.182446), (5, 2.570582), (19, 2.093024), (199, 1.971957)]
)
def test_student_quantile(df, value):
    assert t_quantile(df) == pytest.approx(value, rel=3e-3)
    with pytest.raises(ValueError, match="df must be at least 1"):
        t_quantile(0)


def test_share_interval():
    full = estimate_share([1.0] * 20)
    assert (full.value, full.high) == (1.0, 1.0)
    assert full.low == pytest.approx(20 / (20 + 2.093024**2), abs=1e-5)
    none = estimate_share([0.0] * 20)
    assert none.high == pytest.approx(1 - full.low)
    half = estimate_share([0.0, 1.0] * 500)
    assert (half.low, half.high) == (pytest.approx(0.469, abs=1e-3), pytest.approx(0.531, abs=1e-3))
    assert estimate_share([0.5] * 100).low > estimate_share([0.0, 1.0] * 50).low - 1e-9
    assert math.isnan(estimate_share([]).value)
    assert estimate_share([1.0]).problems == 1


@pytest.mark.parametrize("n", [30, 200])
@pytest.mark.parametrize("p", [0.02, 0.1, 0.5, 0.9])
def test_share_interval_covers(p, n):
    """16 responses to each of n problems whose pass rates vary (correlation 0.3 between two responses to one problem):
    95% intervals hold p about 95 times in 100. Reckoned with 16 n responses they would do so 65 times."""
    rng = np.random.default_rng(1)
    scale = 1 / 0.3 - 1
    hits = naive = 0
    for _ in range(600):
        shares = rng.binomial(16, rng.beta(p * scale, (1 - p) * scale, n)) / 16
        found = estimate_share(shares.tolist())
        hits += found.low <= p <= found.high
        mean = shares.mean()
        naive += abs(mean - p) <= 1.96 * math.sqrt(mean * (1 - mean) / (16 * n))
    assert 0.92 <= hits / 600 <= 0.99
    assert naive / 600 < 0.75


def test_mean_interval():
    found = estimate_mean([1.0, 3.0])
    assert (found.value, found.low, found.high) == (
        2.0,
        pytest.approx(-10.706, abs=1e-3),
        pytest.approx(14.706, abs=1e-3),
    )
    assert math.isnan(estimate_mean([1.0]).low)
    assert math.isnan(estimate_mean([]).value)
    assert (found.low, found.high) == (estimate_mean([4.0, 12.0], [4, 4]).low, estimate_mean([4.0, 12.0], [4, 4]).high)


def test_mean_of_unequal_counts_is_over_responses():
    found = estimate_mean([10.0, 30.0, 0.0], [1, 3, 0])  # every response has 10 tokens
    assert (found.value, found.low, found.high, found.problems) == (10.0, 10.0, 10.0, 2)
    by_hand = estimate_mean([2.0, 12.0], [1, 2])  # ratio 14/3, residuals -8/3 and 8/3
    half = t_quantile(1) * math.sqrt(2 * 2 * (8 / 3) ** 2) / 3
    assert by_hand.value == pytest.approx(14 / 3)
    assert by_hand.high - by_hand.value == pytest.approx(half)


def test_average_of_sets():
    parts = [Estimate(0.5, 0.4, 0.6, 10), Estimate(0.1, 0.0, 0.4, 20)]
    found = estimate_average(parts)
    assert found.value == pytest.approx(0.3)
    assert found.low == pytest.approx(0.3 - math.sqrt(0.02) / 2)
    assert found.high == pytest.approx(0.3 + math.sqrt(0.1) / 2)
    assert found.problems == 30
    alone = estimate_average(parts[:1])
    assert (alone.low, alone.high) == (pytest.approx(0.4), pytest.approx(0.6))
    assert math.isnan(estimate_average([]).value)


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
