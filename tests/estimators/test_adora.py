"""ADORA: the worked examples of its rules, literal, and its identities. Numbers by hand from equations 4-8."""

import pytest
from batches import close, fields, values

import upside


def group(rewards, lengths, **more):
    return {"rewards": rewards, "groups": [0] * len(rewards), "lengths": lengths, **more}


E3 = ([1, 0, 0, 0, 1], [500, 300, 200, 400, 100])
E4 = ([1, 1, 1, 0, 0], [500, 300, 200, 400, 100])
E5 = ([1, 0, 1, 0], [300, 200, 100, 400])
E6 = ([1, 0, 0, 0], [1000, 4096, 500, 700])
E7 = ([1, 0, 1, 0], [1000, 4096, 900, 4096])
E8 = ([0.1, 0, 0.1, 0.1], [300, 200, 100, 250])
E9 = ([3, -0.5, -1, -3, 3, -3, -0.5, 3], [900, 700, 300, 4096, 650, 1200, 500, 400])
A9 = [1.116978, -0.242821, -0.437078, -1.214107, 1.116978, -1.214107, -0.242821, 1.116978]

EXAMPLES = {
    "E1 longest success 300 > mean failure 225": (
        "adora", ([1, 0, 1, 0], [300, 200, 100, 250]), [0.866024, -0.866024, 0.866024, -0.866024]),
    "E2 longest success 150 < mean failure 300": (
        "adora", ([1, 0, 1, 0], [100, 400, 150, 200]), [0.086602, -0.086602, 0.086602, -0.086602]),
    "E2 population std": ("adora:ddof=0", ([1, 0, 1, 0], [100, 400, 150, 200]), [0.1, -0.1, 0.1, -0.1]),
    "E3 long success, rate 0.4": ("adora_amplify", E3, [2.190886, *[-1.460591] * 3, 2.190886]),
    "E4 rate 0.6, and": ("adora_amplify", E4, [*[0.730295] * 3, *[-1.095443] * 2]),
    "E4 rate 0.6, or": ("adora_amplify:criteria=or", E4, [*[1.46059] * 3, *[-2.190886] * 2]),
    "E5 tie, rate 0.5, and": ("adora_amplify", E5, [0.866024, -0.866024, 0.866024, -0.866024]),
    "E5 tie, rate 0.5, or": ("adora_amplify:criteria=or", E5, [1.732048, -1.732048, 1.732048, -1.732048]),
    "E5 difficulty alone": ("adora_amplify:criteria=difficulty", E5, [1.732048, -1.732048, 1.732048, -1.732048]),
    "E6 released, truncated failure left out": ("adora:compat=released_vl", E6, [1.5, -0.5, -0.5, -0.5]),
    "E6 every failure counts": ("adora", E6, [0.15, -0.05, -0.05, -0.05]),
    "E7 no counted failure, VL": ("adora:compat=released_vl", E7, [0.086603, -0.086603, 0.086603, -0.086603]),
    "E7 no counted failure, LLM": (
        "adora:compat=released_llm,success_above=0.5", E7, [0.866024, -0.866024, 0.866024, -0.866024]),
    "E8 no success, VL": ("adora:compat=released_vl", E8, [0.5, -1.5, 0.5, 0.5]),
    "E8 no success, LLM": (
        "adora:compat=released_llm,success_above=0.5", E8, [0.049999, -0.149997, 0.049999, 0.049999]),
    "E9 cut at 4054: 900 > 675": ("adora:compat=released_llm", E9, A9),
    "E9 no cut: 900 < 1359.2": ("adora:success_above=1.01", E9, [a / 10 for a in A9]),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "example", "expected"), EXAMPLES.values(), ids=EXAMPLES)
def test_worked_example(spec, example, expected):
    assert close(values(spec, group(*example)), expected, 2e-6)


@pytest.mark.parametrize("spec", ["adora", "adora_amplify", "adora:compat=released_llm", "adora:compat=released_vl"])
@pytest.mark.parametrize("reward", [0.0, 0.1, 0.7, 1.0, 3.0])
def test_e10_equal_rewards_give_exactly_zero(spec, reward):
    # 0.1 in float32 with eps 1e-9 is where the released VL code gives -0.83 to all eight
    assert values(spec, group([reward] * 8, [300, 10, 7, 4000, 5000, 1, 2, 3])) == [0.0] * 8


@pytest.mark.filterwarnings("ignore:.*single response")
@pytest.mark.parametrize(
    ("spec", "expected"),
    [("adora", 0.0), ("adora:compat=released_llm,success_above=0.5", 1.0), ("adora:compat=released_vl", 0.0)],
)
def test_e11_group_of_one(spec, expected):
    given = {"rewards": [1, 0, 1], "groups": ["lone", "pair", "pair"], "lengths": [300, 5, 5]}
    assert values(spec, given)[0] == expected


@pytest.mark.filterwarnings("ignore:.*single response")
def test_group_of_one_in_the_released_llm_code():
    given = {"rewards": [3, -3, 1, 3], "groups": [0, 1, 2, 2], "lengths": [9, 9, 9, 9]}
    assert close(values("adora:compat=released_llm", given)[:2], [3.0, -0.3])


def test_length_advantage_is_strict_and_the_weights_are_options():
    equal = group([1, 0], [10, 10])
    assert close(values("adora", equal), [0.0707106, -0.0707106], 1e-5)
    assert close(values("adora:weight_tds=0.5", equal), [0.3535530, -0.3535530], 1e-5)
    longer = group([1, 0], [11, 10])
    assert close(values("adora:weight_tas=0.25", longer), [0.1767765, -0.1767765], 1e-5)


@pytest.mark.parametrize(
    ("tau", "solved", "size"),
    [(0.5, 4, 8), (0.5, 2, 5), (0.25, 2, 8), (0.29, 29, 100), (0.57, 57, 100), (0.0, 0, 4), (1.0, 3, 3)],
)
def test_difficulty_advantage_is_inclusive(tau, solved, size):
    # 0.29 * 100 is 28.999999999999996 in floating point; 29 of 100 is a rate of 0.29 all the same
    def share(count):
        rewards = [1.0] * count + [0.0] * (size - count)
        weigh = upside.estimator("adora_amplify", criteria="difficulty", tau=tau)
        return weigh(upside.Rollouts(rewards, [0] * size)).metrics["adora_tas_share"]

    assert share(solved) == 1.0
    if solved < size:
        assert share(solved + 1) == 0.0


def test_a_cut_below_one_token():
    with pytest.raises(ValueError, match=r"truncation_length=0 must be at least 1 token"):
        upside.estimator("adora:truncation_length=0")


def test_no_success_and_no_failure_by_default():
    all_wrong = group([0.1, 0.0], [3, 4])
    assert values("adora", all_wrong) == values("grpo:eps=1e-6", all_wrong)  # attenuate leaves it alone
    assert close(values("adora:no_success=tds", all_wrong), [0.0707, -0.0707], 1e-4)
    all_right = group([1.0, 0.8], [3, 4])
    assert close(values("adora", all_right), [0.0707, -0.0707], 1e-4)
    assert close(values("adora:no_failure=tas", all_right), [0.7071, -0.7071], 1e-4)
    assert values("adora_amplify", all_wrong) == values("grpo:eps=1e-6", all_wrong)


def test_success_is_correct_where_the_batch_has_it():
    given = group([0.9, 0.2], [20, 10], correct=[False, True])
    assert close(values("adora", given), [0.0707, -0.0707], 1e-4)  # the short one is the success
    assert close(values("adora:success_above=0.5", given), [0.7071, -0.7071], 1e-4)


@pytest.mark.parametrize("spec", ["adora", "adora_amplify", "adora:normalize_mean_weight=true"])
def test_the_sum_of_a_group_stays_zero(spec):
    given = fields(3, [4, 7, 2, 5])
    total = [0.0] * 4
    for g, a in zip(given["groups"], values(spec, given), strict=True):
        total[g] += a
    assert close(total, [0.0] * 4, 1e-6)


def test_weights_of_one_are_grpo_to_the_bit():
    given = fields(5, [4, 7, 3, 5], "graded")
    assert values("adora:weight_tds=1", given) == values("grpo:eps=1e-6", given)


def test_scaling_all_lengths_changes_nothing():
    given = fields(8, [4, 7, 3, 5])
    assert values("adora", given) == values("adora", given, lengths=[7 * n for n in given["lengths"]])


def test_a_weight_before_the_normalisation_would_cancel():
    given = group(*E5)
    halved = group([0.1 * r for r in E5[0]], E5[1])
    assert close(values("grpo:eps=0", halved), values("grpo:eps=0", given))  # why equation 4 stands last


def test_normalized_weights_have_mean_one():
    given = group([1, 0, 1, 0, 1, 1], [9, 4, 2, 8, 1, 1]) | {"groups": [0, 0, 1, 1, 1, 1]}
    estimator = upside.estimator("adora", normalize_mean_weight=True)
    weights = [row["weight"] for row in upside.explain(estimator, upside.Rollouts(**given))]
    assert sum(weights) / len(weights) == pytest.approx(1.0)
    assert len(set(weights)) == 2


def test_metrics():
    rewards, lengths = [1, 0, 1, 0, 0, 0], [9, 4, 2, 8, 5, 5]  # TAS, TDS, no success
    batch = upside.Rollouts(rewards, [0, 0, 1, 1, 2, 2], lengths=lengths)
    metrics = upside.estimator("adora")(batch).metrics
    assert metrics["adora_tas_share"] == pytest.approx(2 / 3)
    assert metrics["adora_mean_weight"] == pytest.approx((1 + 1 + 0.1 + 0.1 + 1 + 1) / 6)


def test_metrics_and_mean_weight_leave_invalid_rows_out():
    given = {"rewards": [1, 0, 1, 0, None], "groups": list("aabbb"), "lengths": [5, 3, 1, 9, 9]}
    rollouts = upside.Rollouts(**given)
    assert upside.estimator("adora")(rollouts).metrics["adora_mean_weight"] == pytest.approx((1 + 1 + 0.1 + 0.1) / 4)
    weights = [row["weight"] for row in upside.explain("adora:normalize_mean_weight=true", rollouts)]
    assert sum(weights[:4]) == pytest.approx(4)
