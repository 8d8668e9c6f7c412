"""Paired differences from a baseline."""

import math

import numpy as np
import pytest

from upside.evaluation import Evaluation, compare
from upside.evaluation.metrics import t_quantile
from upside.evaluation.paired import average
from upside.evaluation.table import verdict


@pytest.fixture
def of(row):
    def make(shares, tokens=4, n=4, **settings):
        """One problem a share: so many of its n responses are right."""
        rows = [row(f"p{i}", j, j < share, tokens=tokens) for i, share in enumerate(shares) for j in range(n)]
        return Evaluation(rows, settings)

    return make


def test_by_hand(of):
    found = compare(of([4, 2, 0, 3], tokens=6), of([2, 2, 1, 1]))
    differences = [0.5, 0.0, -0.25, 0.5]
    mean = sum(differences) / 4
    se = math.sqrt(sum((d - mean) ** 2 for d in differences) / 3 / 4)
    assert found.accuracy.difference == pytest.approx(mean)
    assert (found.accuracy.value, found.accuracy.baseline) == (pytest.approx(9 / 16), pytest.approx(6 / 16))
    assert found.accuracy.low == pytest.approx(mean - t_quantile(3) * se)
    assert found.accuracy.high == pytest.approx(mean + t_quantile(3) * se)
    assert (found.better, found.worse, found.equal, found.discordant) == (2, 1, 1, 3)
    assert list(found.pass_at) == [2, 4]
    assert found.pass_at[4].difference == pytest.approx((1 + 1 + 0 + 1) / 4 - 1)
    assert (found.tokens.value, found.tokens.baseline, found.tokens.difference) == (6, 4, 2)
    assert found.accuracy.within_noise
    assert not found.tokens.within_noise
    assert list(found.summary()["pass"]) == ["2", "4"]
    assert found.summary()["accuracy"]["within_noise"] is True


def test_said_plainly(of):
    found = compare(of([4, 2, 0, 3]), of([2, 2, 1, 1])).accuracy
    assert verdict(found) == "within noise: +18.8 points (95% interval -40.8 to +78.3)"
    up, down = of([4] * 9 + [3]), of([1] * 10)
    assert verdict(compare(up, down).accuracy).startswith("better than the baseline by more than noise: +72.5 points")
    assert verdict(compare(down, up).accuracy).startswith("worse than the baseline by more than noise: -72.5 points")


def test_a_difference_of_shares_ends_at_100_points(of):
    found = compare(of([4, 4, 4, 0]), of([0, 0, 0, 0])).accuracy
    assert found.difference - t_quantile(3) * 0.25 == pytest.approx(found.low)
    assert found.high == 1.0  # 0.75 + 3.18 x 0.25 = 1.55


def test_pairing_is_by_problem_not_by_place(of):
    one, two = of([4, 0, 2]), of([4, 0, 2])
    shuffled = Evaluation([r for p in ("p2", "p0", "p1") for r in two.rows if r.problem == p])
    assert compare(one, shuffled).discordant == 0


def test_no_problem_differs(of):
    # an interval of no width would claim certainty: 30 equal problems leave room for one in nine to differ
    found = compare(of([4, 0] * 15), of([4, 0] * 15)).accuracy
    assert (found.difference, found.problems) == (0, 30)
    assert found.high == -found.low == pytest.approx(1 - 0.025 ** (1 / 30))
    assert found.within_noise


def test_rows_without_a_verdict_leave_the_pair_out(of, row):
    one = of([4, 2, 1])
    two = Evaluation([row(f"p{i}", j, None if i == 1 else j < 2) for i in range(3) for j in range(4)])
    found = compare(one, two)
    assert found.accuracy.problems == 2
    assert found.tokens.problems == 3
    assert found.discordant + found.equal == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"temperature": 0.6}, "other settings than the baseline: temperature is 1.0, in the baseline 0.6"),
        ({"max_new_tokens": 8}, "max_new_tokens is 96, in the baseline 8"),
        ({"problems": 3, "problems_digest": "b"}, "problems is 2, in the baseline 3; problems_digest is 'a'"),
        ({"problems_digest": "b"}, "problems_digest is 'a', in the baseline 'b'"),
    ],
)
def test_other_settings_are_refused(of, change, message):
    settings = {
        "temperature": 1.0,
        "max_new_tokens": 96,
        "problems": 2,
        "problems_digest": "a",
        "seed": 0,
        "backend": "upside",
    }
    assert compare(of([1], **settings), of([2], **{**settings, "seed": 1, "backend": "vllm"})).worse == 1
    with pytest.raises(ValueError, match=message):
        compare(of([1], **settings), of([1], **{**settings, **change}))


def test_other_problems_are_refused(of, row):
    with pytest.raises(ValueError, match="2 against 3, of which 2 are in both; 'p2' is in the baseline only"):
        compare(of([1, 1]), of([1, 1, 1]))
    with pytest.raises(ValueError, match="3 against 2, of which 2 are in both; 'p2' is not in the baseline"):
        compare(of([1, 1, 1]), of([1, 1]))
    with pytest.raises(ValueError, match="samples is 4, in the baseline 8"):
        compare(of([1]), of([1], n=8))
    with pytest.raises(ValueError, match="problem 'p0' has another gold in the baseline"):
        compare(of([1]), Evaluation([row("p0", j, True, gold="2") for j in range(4)]))


@pytest.mark.parametrize(("n", "k"), [(30, 1), (30, 8), (200, 1), (200, 8)])
@pytest.mark.parametrize(("p", "gain"), [(0.1, 0.0), (0.5, 0.0), (0.9, 0.0), (0.5, 0.1)])
def test_interval_covers(of, n, k, p, gain):
    """Two models of problems whose pass rates vary together; the second lies `gain` of the way to 1 above."""
    rng = np.random.default_rng(2)
    scale = 1 / 0.3 - 1
    hits = 0
    runs = 2000 // n + 40
    for _ in range(runs):
        q = rng.beta(p * scale, (1 - p) * scale, n)
        one, two = (of(rng.binomial(k, rates), n=k) for rates in (q + gain * (1 - q), q))
        found = compare(one, two, [1]).accuracy
        hits += found.low <= gain * (1 - p) <= found.high
    assert hits / runs >= 0.88


def test_average_of_sets(of):
    parts = [compare(of([4, 2, 0, 3]), of([2, 2, 1, 1])).accuracy, compare(of([1, 1, 1]), of([0, 1, 0])).accuracy]
    found = average(parts)
    assert found.difference == pytest.approx((parts[0].difference + parts[1].difference) / 2)
    half = [(p.high - p.low) / 2 for p in parts]
    assert found.high - found.difference == pytest.approx(math.hypot(*half) / 2)
    assert found.value - found.baseline == pytest.approx(found.difference)
