"""AAPO: the worked examples of its formula, literal, and what happens without a reference reward."""

import pytest
from batches import close, values

import upside


def group(rewards, reference):
    return {"rewards": rewards, "groups": ["q"] * len(rewards), "reference_rewards": reference}


E1 = ([1, 0, 0, 0], [0, 0, 1, 0])
EXAMPLES = {
    "E1": ("aapo", E1, [1.7797001, -0.4999000, -0.6999000, -0.4999000]),
    "E1 eps 0": ("aapo:eps=0", E1, [1.78, -0.5, -0.7, -0.5]),
    "E1 ddof 0": ("aapo:eps=0,ddof=0", E1, [2.0120508, -0.5773503, -0.7773503, -0.5773503]),
    "E1 unscaled": ("aapo:scale_by_std=false", E1, [1.03, -0.25, -0.45, -0.25]),
    "E1 without clip": ("aapo:low=none,high=none", E1, [2.4997001, -0.4999, -1.4999, -0.4999]),
    "E1 clipped to nothing is GRPO": ("aapo:low=0,high=0", E1, [1.4997001, -0.4999, -0.4999, -0.4999]),
    "E1 one side open": ("aapo:high=none", E1, [2.4997001, -0.4999, -0.6999, -0.4999]),
    "E2 all correct": ("aapo", ([1, 1, 1, 1], [1, 0, 1, 0]), [0, 0.28, 0, 0.28]),
    "E3 all wrong": ("aapo", ([0, 0, 0, 0], [0, 1, 0, 0]), [0, -0.2, 0, 0]),
    "E4 all correct, reference too": ("aapo", ([1, 1, 1, 1], [1, 1, 1, 1]), [0, 0, 0, 0]),
    "E4 all wrong, reference too": ("aapo", ([0, 0, 0, 0], [0, 0, 0, 0]), [0, 0, 0, 0]),
    "E7 shaped rewards": (
        "aapo", ([2.5, 0.8535534, 1.0, 0.0], [2.4, 0.9, 1.1, 0.15]), [1.458152, -0.272388, -0.185041, -1.197170]),
    "E8 a missing reference gives no margin": ("aapo", ([1, 1], [None, 1]), [0, 0]),
    "E8 or counts as reward 0": ("aapo:missing=zero_reward", ([1, 1], [None, 1]), [0.28, 0]),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "example", "expected"), EXAMPLES.values(), ids=EXAMPLES)
def test_worked_example(spec, example, expected):
    assert close(values(spec, group(*example)), expected, 1e-6)


def test_e7_margins():
    batch = upside.Rollouts(**group([2.5, 0.8535534, 1.0, 0.0], [2.4, 0.9, 1.1, 0.15]))
    margins = [row["margin"] for row in upside.explain("aapo", batch)]
    assert margins == pytest.approx([0.1, -0.0464466, -0.1, -0.15], abs=1e-9)


@pytest.mark.filterwarnings("ignore:.*single response")
def test_e8_group_of_one_keeps_its_margin():
    given = {"rewards": [1, 1, 0], "groups": [0, 1, 1], "reference_rewards": [0, 1, 0]}
    assert close(values("aapo", given)[:1], [0.28])


@pytest.mark.parametrize(("spec", "samples", "groups"), [("aapo", 6 / 12, 1 / 3), ("grpo", 8 / 12, 2 / 3)])
def test_e10_share_of_zero_advantages(spec, samples, groups):
    rewards, reference = [1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0], [0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0]
    batch = upside.Rollouts(rewards, [0] * 4 + [1] * 4 + [2] * 4, reference_rewards=reference)
    metrics = upside.estimator(spec)(batch).metrics
    assert metrics["zero_advantage_share"] == pytest.approx(samples)
    assert metrics["zero_group_share"] == pytest.approx(groups)
    assert metrics["zero_batch"] == 0.0


def test_error_names_the_row_without_a_reference():
    with pytest.raises(ValueError, match=r"reference_rewards\[1\] is missing \(2 rows in all\).*zero_margin"):
        values("aapo:missing=error", group([1, 1, 0], [0, None, None]))


def test_pairing_by_group_mean():
    # mean of the given references 1/2: gaps +1/2 and -1/2, for the row without its own reference too
    given = group([1, 0, 1], [1, 0, None])
    base = values("dr_grpo", given)
    for bounds, margins in (("low=none,high=none", [0.5, -0.5, 0.5]), ("low=-0.2,high=0.28", [0.28, -0.2, 0.28])):
        got = values(f"aapo:scale_by_std=false,pairing=group_mean,{bounds}", given)
        assert close(got, [a + m for a, m in zip(base, margins, strict=True)])
    assert values("aapo:pairing=group_mean", group([1, 1], [None, None])) == [0, 0]


def test_shifting_both_rewards_changes_nothing():
    base = values("aapo", group([1, 0, 0.25], [0.5, 0.5, 0.5]))
    assert close(values("aapo", group([3, 2, 2.25], [2.5, 2.5, 2.5])), base)


@pytest.mark.parametrize("option", ["low=0.1", "high=-0.1"])
def test_bounds_on_the_wrong_side_of_zero(option):
    with pytest.raises(ValueError, match=f"reference_margin: {option} must be at (most|least) 0"):
        upside.estimator(f"aapo:{option}")


def test_metrics():
    metrics = upside.estimator("aapo")(upside.Rollouts(**group([1, 0, 1, 0.5], [0, 1, 1, None]))).metrics
    assert metrics["margin_mean"] == pytest.approx((0.28 - 0.2) / 4)
    assert metrics["margin_clipped_share"] == 0.5
    assert metrics["margin_zero_share"] == 0.5
    assert metrics["reference_missing_share"] == 0.25


def test_metrics_leave_invalid_rows_out():
    rollouts = upside.Rollouts([1, 0, None], [0, 0, 0], reference_rewards=[0, 0, 1])
    found = upside.estimator("aapo")(rollouts).metrics
    assert found["margin_zero_share"] == 0.5
    assert found["margin_clipped_share"] == 0.5
    assert found["margin_mean"] == pytest.approx(0.14)
