"""CANON: the worked examples of equations 3-5 and 9, literal, its identities, and halves without a choice."""

import math

import pytest
from batches import close, fields, values

import upside

E1 = {"rewards": [1, 1, 0, 1], "groups": ["q"] * 4, "entropy": [0.2, 0.3, 0.4, 0.1]}
E2 = {"rewards": [0, 1, 0, 1, 1, 0, 1, 0], "groups": [3] * 8, "lengths": [10, 80, 20, 70, 60, 50, 40, 30]}
E3 = {"rewards": [1, 1, 1, 1], "groups": [0] * 4, "lengths": [100, 400, 200, 300]}
E4 = {"rewards": [1, 0, 1, 1], "groups": [0] * 4, "lengths": [100, 200, 300, 400]}
E5 = {"rewards": [1, 0, 1], "groups": [0] * 3, "entropy": [1, 2, 3]}
PAIR = {"rewards": [1, 0], "groups": [0, 0], "entropy": [0.1, 0.2]}
TIED = {"rewards": [1, 0, 0, 0], "groups": [0] * 4, "entropy": [5, 5, 5, 5]}
ODD_LONG = {"rewards": [1, 0, 1], "groups": [0] * 3, "lengths": [1, 2, 3]}

EXAMPLES = {
    "E1 inter": ("canon", E1, [0.5, 0, -1, 0.5]),
    "E1 intra": ("canon:mu=0", E1, [0, 0.5, -0.5, 0]),
    "E1 one half": ("canon:mu=0.5", E1, [0.25, 0.25, -0.75, 0.25]),
    "E1 Dr.GRPO": ("dr_grpo", E1, [0.25, 0.25, -0.75, 0.25]),
    "E1 mu 0.75": ("canon:mu=0.75", E1, [0.375, 0.125, -0.875, 0.375]),
    "E2 inter": ("canon:metric=length", E2, [-0.75, 0.75, -0.75, 0.75, 0.75, -0.25, 0.25, -0.75]),
    "E2 intra": ("canon:metric=length,mu=0", E2, [-0.25, 0.25, -0.25, 0.25, 0.25, -0.75, 0.75, -0.25]),
    "E2 mu 0.8": ("canon:metric=length,mu=0.8", E2, [-0.65, 0.65, -0.65, 0.65, 0.65, -0.35, 0.35, -0.65]),
    "E3 Eff": ("canon_eff", E3, [0.02, -0.02, 0.02, -0.02]),
    "E3 mu 1, alpha 0.9": ("canon:metric=length,mu=1,alpha=0.9", E3, [0.1, -0.1, 0.1, -0.1]),
    "E4 Eff": ("canon_eff", E4, [0.27, -0.73, 0.23, 0.23]),
    "E4 mu 1, alpha 0.9": ("canon:metric=length,mu=1,alpha=0.9", E4, [0.1, -0.9, 0.4, 0.4]),
    "E4 alpha on the low half": ("canon:metric=length,alpha=0.9,alpha_half=low", E4, [-0.1, -1.0, 0.55, 0.55]),
    "E4 beta": ("canon:metric=length,beta=0.25", E4, [-0.25, -1.25, 0.75, 0.75]),
    "E5 released inter": ("canon:compat=released", E5, [0.5, -1, 0]),
    "E5 released intra": ("canon:compat=released,mu=0", E5, [0, -0.5, 0.5]),
    "E5 released mu 0.5": ("canon:compat=released,mu=0.5", E5, [0.25, -0.75, 0.25]),
    "E5 shared mu 0.5 is Dr.GRPO": ("canon:mu=0.5", E5, [1 / 3, -2 / 3, 1 / 3]),
    # halves {1, half of 0} and {1, half of 0}: both means 1 / 1.5
    "E5 shared inter": ("canon", E5, [1 / 3, -2 / 3, 1 / 3]),
    "E5 odd low": ("canon:odd=low", E5, [1 - 1, 0 - 1, 1 - 0.5]),
    "E6 pair inter": ("canon", PAIR, [1, -1]),
    "E6 pair intra": ("canon:mu=0", PAIR, [0, 0]),
    "E6 pair mu 0.5": ("canon:mu=0.5", PAIR, [0.5, -0.5]),
    "E6 ties, row order": ("canon:ties=stable", TIED, [1, 0, -0.5, -0.5]),
    "E6 ties, shared": ("canon", TIED, [0.75, -0.25, -0.25, -0.25]),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "example", "expected"), EXAMPLES.values(), ids=EXAMPLES)
def test_worked_example(spec, example, expected):
    assert close(values(spec, example), expected, 1e-6)


def test_e4_low_half_is_the_released_entropy_rule():
    given = {"rewards": E4["rewards"], "groups": [0] * 4, "entropy": [1, 2, 3, 4]}
    assert close(values("canon:alpha=0.9,compat=released", given), [-0.1, -1.0, 0.55, 0.55])
    assert close(values("canon:metric=length,alpha=0.9,compat=released", E4), [0.1, -0.9, 0.4, 0.4])


@pytest.mark.filterwarnings("ignore:.*single response")
@pytest.mark.parametrize(
    ("spec", "expected"), [("canon", 0.0), ("canon:compat=released", 1.0), ("canon:singleton=reward", 1.0)]
)
def test_e6_group_of_one(spec, expected):
    given = {"rewards": [1, 0, 1], "groups": [0, 1, 1], "entropy": [0.1, 0.2, 0.3]}
    assert values(spec, given)[0] == expected


@pytest.mark.parametrize(
    ("mu", "expected"),
    [
        ("first_inter_later_intra", [0.1875, 0.3125, -0.6875, 0.1875, -0.375, -0.375, 0.375, 0.375]),  # mu = 3/8
        ("first_intra_later_inter", [0.3125, 0.1875, -0.8125, 0.3125, -0.625, -0.625, 0.625, 0.625]),  # mu = 5/8
    ],
)
def test_e7_two_prompts_and_accuracy(mu, expected):
    given = {
        "rewards": [1, 1, 0, 1, 0, 0, 1, 1],
        "groups": list("aaaabbbb"),
        "entropy": [0.2, 0.3, 0.4, 0.1, 0.9, 0.8, 0.7, 0.6],
    }
    assert close(values(upside.estimator("canon", mu=mu), given), expected)


def test_canon_dynamic_takes_any_schedule():
    given = E1 | {"step": 50}
    assert close(values("canon_dynamic:schedule=cosine_first_inter", given), values("canon:mu=0.7", given))
    assert close(values("canon_dynamic", given), values("canon:mu=0.25", given))


# ---- identities -------------------------------------------------------------------------------------------


def sums(given, advantages):
    total = {}
    for g, a in zip(given["groups"], advantages, strict=True):
        total[g] = total.get(g, 0.0) + a
    return list(total.values())


@pytest.mark.parametrize("mu", [0.0, 0.3, 0.8, 1.0])
def test_identity_1_a_constant_per_half_on_top_of_dr_grpo(mu):
    rows = upside.explain(upside.estimator("canon", metric="length", mu=mu), upside.Rollouts(**E2))
    expected = [
        a + (mu - 0.5) * (2 * row["half"] - 1) * 0.5 for a, row in zip(values("dr_grpo", E2), rows, strict=True)
    ]
    assert close([row["advantage"] for row in rows], expected)


@pytest.mark.filterwarnings("ignore:.*single response")
@pytest.mark.parametrize(
    "spec", ["canon", "canon:mu=0", "canon:mu=0.7,alpha=0.5", "canon:alpha=0.8,alpha_half=low,beta=0.3"]
)
@pytest.mark.parametrize("seed", range(8))
def test_identity_2_a_group_sums_to_zero(spec, seed):
    given = fields(seed, [1, 2, 3, 5, 6, 7, 9], "graded", invalid=0.15)
    assert close(sums(given, values(spec, given)), [0.0] * 7, 1e-5)


def test_identity_2_intra_sums_to_zero_in_each_half():
    rows = upside.explain("canon_intra:metric=length", upside.Rollouts(**E2))
    for half in (0.0, 1.0):
        assert sum(row["advantage"] for row in rows if row["half"] == half) == pytest.approx(0)


def test_identity_2_unequal_halves_of_the_released_code():
    given = {"rewards": [0, 1, 1], "groups": [0] * 3, "entropy": [1, 2, 3]}  # m+ = 1, m- = 0, one response more above
    assert sums(given, values("canon:compat=released", given)) == [pytest.approx(1.0)]


def test_identity_3_alpha_rescales_the_rewards_of_one_half():
    rescaled = E2 | {"rewards": [0, 0.9, 0, 0.9, 0.9, 0, 1, 0]}
    assert close(values("canon:metric=length,alpha=0.9", E2), values("canon:metric=length", rescaled))


@pytest.mark.parametrize(("mu", "alpha"), [(0.5, 0.96), (1.0, 0.9), (0.0, 0.5), (0.3, 1.2)])
def test_identity_4_a_solved_prompt_prefers_its_low_half(mu, alpha):
    spec = upside.estimator("canon", metric="length", mu=mu, alpha=alpha)
    push = mu * (1 - alpha)
    assert close(values(spec, E3), [push, -push, push, -push])
    assert values(spec, E3, rewards=[0, 0, 0, 0]) == [0, 0, 0, 0]
    assert spec.zero_on_constant is False


def test_identity_5_shift():
    moved = {k: v if k != "rewards" else [r + 2 for r in v] for k, v in E2.items()}
    assert close(values("canon:metric=length,mu=0.3", moved), values("canon:metric=length,mu=0.3", E2))
    assert not close(values("canon_eff", moved), values("canon_eff", E2))


@pytest.mark.parametrize("seed", range(5))
def test_identity_6_bounded_by_the_range_of_the_rewards(seed):
    assert max(map(abs, values("canon", fields(seed, [4, 6, 5, 8])))) <= 1


@pytest.mark.parametrize("metric", ["entropy", "length"])
def test_theorem_1_inter_doubles_the_mean_of_a_half(metric):
    name = {"entropy": "entropy", "length": "lengths"}[metric]
    given = {"rewards": E2["rewards"], "groups": [0] * 8, name: E2["lengths"]}
    rows = upside.explain(f"canon_inter:metric={metric}", upside.Rollouts(**given))
    plain = values("dr_grpo", given)
    for half in (0.0, 1.0):
        mine = [(row["advantage"], a) for row, a in zip(rows, plain, strict=True) if row["half"] == half]
        assert sum(a for a, _ in mine) == pytest.approx(2 * sum(a for _, a in mine))


# ---- halves without a choice ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_mu_one_half_is_dr_grpo_for_odd_and_tied_groups(seed):
    given = fields(seed, [2, 3, 5, 6, 7, 9], "graded", invalid=0.1)
    assert close(values("canon:metric=length,mu=0.5", given), values("dr_grpo", given), 1e-6)


@pytest.mark.parametrize("mu", [0.0, 0.4, 1.0])
def test_a_group_tied_throughout_is_dr_grpo(mu):
    given = fields(1, [5, 4, 8], "graded") | {"entropy": [2.5] * 17}
    assert close(values(upside.estimator("canon", mu=mu), given), values("dr_grpo", given), 1e-6)


def test_a_tie_at_the_cut_is_shared():
    # lengths 1 | 2 2 2 | 3: five responses, 2.5 to a half; the three in the middle stand half in each
    given = {"rewards": [1, 0, 0, 0, 0], "groups": [0] * 5, "lengths": [3, 2, 1, 2, 2]}
    rows = upside.explain("canon:metric=length", upside.Rollouts(**given))
    assert [row["half"] for row in rows] == [1, 0.5, 0, 0.5, 0.5]
    mean_high = 1 / 2.5
    assert close([row["advantage"] for row in rows], [1, -mean_high / 2, -mean_high, -mean_high / 2, -mean_high / 2])


def test_a_tie_away_from_the_cut_is_no_tie():
    given = {"rewards": [1, 0, 0, 1], "groups": [0] * 4, "lengths": [1, 1, 3, 3]}
    rows = upside.explain("canon:metric=length", upside.Rollouts(**given))
    assert [row["half"] for row in rows] == [0, 0, 1, 1]
    assert values("canon:metric=length", given) == values("canon:metric=length,compat=released", given)


def test_odd_groups_can_be_refused():
    with pytest.raises(ValueError, match="group 'b' has an odd number of valid responses"):
        values("canon:odd=error", {"rewards": [0, 1, 0, 1, 1], "groups": list("aabbb"), "entropy": [1, 2, 3, 4, 5]})


def test_an_invalid_row_stands_in_no_half():
    given = {"rewards": [1, None, 0, 1, 1], "groups": [0] * 5, "entropy": [0.2, 0.9, 0.4, 0.3, 0.1]}
    rows = upside.explain("canon", upside.Rollouts(**given))
    assert [row["half"] for row in rows] == [0, 0, 1, 1, 0]
    assert [row["advantage"] for row in rows] == pytest.approx([0.5, 0, -1, 0, 0.5])


def test_the_metric_may_be_any_named_number():
    given = {"rewards": E1["rewards"], "groups": E1["groups"], "metrics": {"reflection": E1["entropy"]}}
    assert values("canon:metric=reflection", given) == values("canon", E1)
    with pytest.raises(ValueError, match=r"canon needs Rollouts\.pauses.*Rollouts\(metrics=\{'pauses': \.\.\.\}\)"):
        values("canon:metric=pauses", given)


@pytest.mark.parametrize("metric", ["lengths", "correct", "total_steps", "rewards", "valid"])
def test_a_field_of_the_batch_is_no_metric(metric):
    # "lengths" would have been cut like the length, but with alpha on the other half under compat="released"
    with pytest.raises(
        ValueError, match=rf"canon: metric='{metric}' is no metric of a response; give 'entropy', 'length'"
    ):
        upside.estimator("canon", metric=metric)


def test_any_whole_number_is_a_seed():
    given = {"rewards": [1, 0] * 16, "groups": [0] * 32}
    assert values("canon_random:seed=99999999999999", given) != values("canon_random:seed=-1", given)


def test_random_halves_are_seeded_and_change_with_the_step():
    given = {"rewards": [1, 0] * 16, "groups": [0] * 32}
    base = values("canon_random", given, step=1)
    assert values("canon_random", given, step=1) == base
    assert values("canon_random", given, step=2) != base
    assert values("canon_random:seed=1", given, step=1) != base
    rows = upside.explain("canon_random", upside.Rollouts(**given))
    assert sum(row["half"] for row in rows) == 16


@pytest.mark.parametrize("mu", [-0.1, 1.5, math.inf, math.nan, True, "no_such_schedule"])
def test_mu_outside_its_range(mu):
    with pytest.raises(ValueError, match=r"mu=|schedule"):
        upside.estimator("canon", mu=mu)


def test_negative_alpha():
    with pytest.raises(ValueError, match=r"canon: alpha=-0\.1 must not be negative"):
        upside.estimator("canon_eff:alpha=-0.1")


def test_metrics():
    given = {
        "rewards": [1, 0, 0, 1, 1, 0, 0],
        "groups": [0, 0, 0, 0, 1, 1, 1],
        "entropy": [4, 3, 2, 1, 5, 5, 5],
    }
    metrics = upside.estimator("canon", mu=0.3)(upside.Rollouts(**given)).metrics
    assert metrics["canon_mu"] == 0.3
    assert metrics["canon_gap"] == pytest.approx(0)  # 1/2 against 1/2, and a tied group
    assert metrics["canon_tied_groups"] == 0.5
    assert metrics["canon_odd_groups"] == 0.5
    halves = upside.Rollouts([1, 1, 0, 0, 0, 1], [0, 0, 0, 0, 1, 1], entropy=[4, 3, 2, 1, 2, 1])  # gaps 1 and -1
    metrics = upside.estimator("canon")(halves).metrics
    assert metrics["canon_gap"] == pytest.approx(0)
    assert metrics["canon_abs_gap"] == pytest.approx(1)
    longer_is_right = upside.Rollouts([1, 0, 0], [0, 0, 0], lengths=[9, 2, 1])  # 1 / 1.5 against 0
    assert upside.estimator("canon_eff")(longer_is_right).metrics["canon_gap"] == pytest.approx(2 / 3)


def test_metrics_leave_out_groups_without_a_valid_row():
    given = {"rewards": [1, 0, 1, 0, 1, None, 1], "groups": list("aabbbcd"), "entropy": [1, 2, 3, 4, 5, 6, 7]}
    with pytest.warns(UserWarning, match="2 of 4 groups hold a single response"):
        found = upside.estimator("canon")(upside.Rollouts(**given)).metrics
    assert found["canon_odd_groups"] == pytest.approx(2 / 3)  # b and d; c has no valid row
    assert found["canon_tied_groups"] == 0
