"""Against literal values, published tables and definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from upside.analysis.comparison import statistics as st


def test_interquartile_mean() -> None:
    assert st.iqm(np.array([0, 1, 2, 3, 4, 5, 6, 100.0])) == 3.5  # of 2, 3, 4, 5
    assert st.iqm(np.array([1, 2, 6.0])) == 3  # too few to leave any out
    assert st.iqm(np.array([1, 2, 3, 90.0])) == 2.5


def test_bootstrap_knows_both_kinds_of_noise() -> None:
    same = np.tile([0.0, 1.0, 1.0, 0.0], (3, 1))  # seeds alike: the problems alone spread
    mean, middle = st.bootstrap(same)
    assert mean == middle
    assert (mean.value, mean.low, mean.high) == (0.5, 0.0, 1.0)  # C(4,0)/16 = 6% of the draws have no right problem
    flat = np.array([[0.2] * 50, [0.4] * 50, [0.6] * 50])  # problems alike: of 27 draws of seeds one is the lowest
    mean, _ = st.bootstrap(flat)
    assert (mean.value, mean.low, mean.high) == (pytest.approx(0.4), pytest.approx(0.2), pytest.approx(0.6))
    assert st.bootstrap(flat) == st.bootstrap(flat)


def test_paired_difference_over_seeds() -> None:
    # problems alike: Student's t of 1, 2, 4; mean 7/3, standard deviation 1.5275, t(2) = 4.3027
    found = st.paired_difference(np.repeat([[1.0], [2.0], [4.0]], 2, axis=1))
    assert found.value == pytest.approx(7 / 3)
    assert found.spread == pytest.approx(1.527525)
    assert found.high - found.value == pytest.approx(4.302653 * 1.527525 / math.sqrt(3), rel=1e-6)
    assert found.p == pytest.approx(0.118, abs=5e-4)  # t = 2.6458


def test_paired_difference_is_wider_where_problems_differ() -> None:
    # seeds alike, problems 0, 0, 0, 4: MS_problems = 2 * 12 / 3 = 8, the others 0; SE = 1, and df 3
    found = st.paired_difference(np.tile([0.0, 0.0, 0.0, 4.0], (2, 1)))
    assert found.value == 1
    assert found.spread == 0
    assert found.freedom == pytest.approx(3)
    assert found.high == pytest.approx(1 + 3.182446)
    assert found.p == pytest.approx(0.391, abs=5e-4)  # t = 1


def test_seeds_that_differ_by_the_same_by_chance_leave_noise() -> None:
    # both seeds gain one answer of four, another one each: MS_seeds 0, MS_problems 1/6, MS_rest 1/3, so SE = sqrt(1/24)
    found = st.paired_difference(np.array([[1.0, 0, 0, 0], [0, 1.0, 0, 0]]))
    assert found.high - found.value == pytest.approx(3.182446 * math.sqrt(1 / 24))  # t(3)
    assert found.p == pytest.approx(0.308, abs=5e-4)  # t = 1.2247
    assert found.spread == pytest.approx(math.sqrt(1 / 12))  # not 0, which would say that any difference is told


def test_paired_difference_of_one_seed_and_of_equals() -> None:
    assert st.paired_difference(np.array([[0.5, 1.0]])) == st.Paired(0.75)
    equal = st.paired_difference(np.zeros((3, 4)))
    assert (equal.value, equal.low, equal.high, equal.p) == (0, 0, 0, 1)


def test_probability_of_improvement() -> None:
    found = st.probability_of_improvement([1, 2, 3], [2, 2, 0])  # 1 + 2 + 3 of 9 pairs, ties half
    assert found.value == pytest.approx(6 / 9)
    theta = found.low  # the end solves |p - theta| = 1.96 sqrt(V(theta)) with Hanley and McNeil's V, N - 1 = 2
    spread = theta * (1 - theta) * (1 + 2 * (1 - theta) / (2 - theta) + 2 * theta / (1 + theta)) / 9
    assert found.value - theta == pytest.approx(1.959964 * math.sqrt(spread))
    apart = st.probability_of_improvement([3, 4, 5], [0, 1, 2])
    assert (apart.value, apart.high) == (1, 1)
    assert 0.4 < apart.low < 0.6  # three of three is no proof
    turned = st.probability_of_improvement([0, 1, 2], [3, 4, 5])
    assert (turned.value, turned.low, turned.high) == (0, 0, pytest.approx(1 - apart.low))
    assert st.probability_of_improvement([1], [0]).low is None


def test_holm() -> None:
    assert st.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert st.holm([0.6, 0.5]) == [1, 1]
    assert st.holm([]) == []


@pytest.mark.parametrize(("effect", "seeds"), [(0.2, 199), (0.5, 34), (0.8, 15), (1.0, 10), (2.0, 5)])
def test_seeds_needed_are_those_of_the_tables(effect: float, seeds: int) -> None:
    # paired t, two-sided 5%, power 80% (Cohen 1988; G*Power)
    assert st.seeds_needed(effect, 1.0) == seeds
    assert st.power(effect, seeds) >= 0.8 > st.power(effect, seeds - 1)
    assert st.seeds_needed(-effect, 1.0) == seeds


def test_seeds_needed_at_the_ends() -> None:
    assert st.seeds_needed(0.0, 1.0) is None
    assert st.seeds_needed(1e-4, 1.0) is None
    assert st.seeds_needed(1.0, 0.0) == 2
    assert st.power(st.detectable(2.0, 5) / 2.0, 5) == pytest.approx(0.8)
    assert st.seeds_needed(8.0, 1.0) == 3  # power 63% with 2


def test_two_seeds_tell_what_their_t_test_tells() -> None:
    told = st.detectable(1.0, 2)
    draw = np.random.default_rng(0).normal(told, 1, (100_000, 2))
    t = draw.mean(1) / np.abs(draw[:, 0] - draw[:, 1]) * 2  # mean over s / sqrt(2), s = |a - b| / sqrt(2)
    assert (np.abs(t) > 12.7062).mean() == pytest.approx(0.8, abs=0.01)


def test_spread_of_a_few_seeds() -> None:
    low, high = st.spread_range(1.0, 3)  # chi2(2): 10% at 0.2107, 90% at 4.6052
    assert (low, high) == (
        pytest.approx(math.sqrt(2 / 4.6052), rel=1e-4),
        pytest.approx(math.sqrt(2 / 0.2107), rel=1e-3),
    )


def test_reading_a_curve() -> None:
    x, y = np.array([0.0, 10.0, 20.0]), np.array([0.2, 0.6, 0.4])
    assert st.first_reach(x, y, 0.4) == pytest.approx(5)
    assert st.first_reach(x, y, 0.2) == 0
    assert st.first_reach(x, y, 0.7) is None


def test_the_t_interval_covers_where_the_bootstrap_does_not() -> None:
    """3 seeds, 400 comparisons: about 95% for the interval that decides, far fewer for the bootstrap over seeds."""
    draw = np.random.default_rng(0)
    covered = {"t": 0, "bootstrap": 0}
    for _ in range(400):
        found = draw.normal(size=(3, 1)) + draw.normal(size=(1, 40)) + draw.normal(size=(3, 40))
        t = st.paired_difference(found)
        drawn = found.mean(axis=1)[draw.integers(3, size=(400, 3))].mean(axis=1)
        low, high = np.quantile(drawn, [0.025, 0.975])
        covered["t"] += t.low <= 0 <= t.high
        covered["bootstrap"] += low <= 0 <= high
    assert 0.92 < covered["t"] / 400 < 0.99
    assert covered["bootstrap"] / 400 < 0.85
