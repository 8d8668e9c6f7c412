"""GRPO, Dr.GRPO, RLOO, OPO, REINFORCE++, GPG and their relatives: literal values, and what their users reported."""

import pytest
import torch
from batches import close, values

import upside

pytestmark = pytest.mark.filterwarnings("ignore:.*(single response|has a reward)")

MIXED = {"rewards": [1, 0, 0, 0, 1, 1, 1, 1], "groups": [0] * 4 + [1] * 4}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("grpo", [1.4997, -0.4999, -0.4999, -0.4999, 0, 0, 0, 0]),
        ("grpo:eps=0,ddof=0", [1.7320508, -0.5773503, -0.5773503, -0.5773503, 0, 0, 0, 0]),
        ("dr_grpo", [0.75, -0.25, -0.25, -0.25, 0, 0, 0, 0]),
        ("rloo", [1, -1 / 3, -1 / 3, -1 / 3, 0, 0, 0, 0]),
        ("reinforce", [1, 0, 0, 0, 1, 1, 1, 1]),
        ("batch_baseline", [0.375, -0.625, -0.625, -0.625, 0.375, 0.375, 0.375, 0.375]),
        ("lite:eps=0", [1.4491377, -0.4830459, -0.4830459, -0.4830459, 0, 0, 0, 0]),
        ("reinforce_pp:eps=0", [0.7245688, -1.2076147, -1.2076147, -1.2076147, *[0.7245688] * 4]),
        ("reinforce_pp_baseline:eps=0", [2.2912878, -0.7637626, -0.7637626, -0.7637626, 0, 0, 0, 0]),
        ("gpg", [1.5, -0.5, -0.5, -0.5, 0, 0, 0, 0]),  # AAPO notes E6: B = 8, M = 4, alpha = 2
        ("gpg:idle=zero_rewards", [1.2, -0.4, -0.4, -0.4, 0, 0, 0, 0]),  # verl: 8 / 5 = 1.6
    ],
)
def test_value(spec, expected):
    assert close(values(spec, MIXED), expected, 1e-5)


def test_opo_weighs_by_length():
    given = {"rewards": [1, 0, 0], "groups": [7] * 3, "lengths": [10, 20, 30]}
    assert close(values("opo", given), [1 - 1 / 6, -1 / 6, -1 / 6])


def test_opo_of_empty_responses_is_the_plain_mean():
    # verl OPO: NaN for a group of empty responses
    # verl gives NaN
    given = {"rewards": [1, 0], "groups": [0, 0], "lengths": [0, 0]}
    assert values("opo", given) == [0.5, -0.5]


def test_remax_subtracts_the_given_baseline():
    given = {"rewards": [1, 0, 1], "groups": [0, 0, 1], "metrics": {"baseline": [1, 1, 0]}}
    assert values("remax", given) == [0, -1, 1]


def test_dapo_masks_truncated_responses_but_counts_them():
    given = {"rewards": [1, 0, 0, 0], "groups": [0] * 4, "truncated": [False, True, False, False]}
    assert close(values("dapo", given), [1.4997, 0, -0.4999, -0.4999], 1e-5)


def test_token_whitening_counts_long_answers_more():
    given = {"rewards": [1, 0], "groups": [0, 1], "lengths": [3, 1]}
    # tokens 1 1 1 0: mean 3/4, unbiased variance 1/4
    assert close(values("reinforce_pp:whitening=token,eps=0", given), [0.5, -1.5])
    assert close(values("reinforce_pp:eps=0", given), [0.7071068, -0.7071068], 1e-6)


@pytest.mark.parametrize("whitening", ["sequence", "token"])
def test_whitening_a_single_token(whitening):
    # verl masked_whiten: raises for a batch of one token
    # verl's masked_whiten raises
    given = {"rewards": [1, None], "groups": [0, 0], "lengths": [1, 5]}
    assert values(upside.estimator("reinforce_pp", whitening=whitening), given) == [0, 0]


def test_whitening_leaves_empty_responses_out():
    given = {"rewards": [1, 0, 1], "groups": [0] * 3, "lengths": [1, 1, 0]}
    assert close(values("reinforce_pp:whitening=token,eps=0", given), [0.7071068, -0.7071068, 0], 1e-6)


@pytest.mark.parametrize(
    ("rewards", "alpha"),
    [
        ([1, 0, 0, 0, 1, 1, 1, 1], 2.0),
        ([1, -1, -1, -1, 1, 1, 1, 1], 2.0),  # verl's count of nonzero rewards would be 1
        ([1, 1, 1, 1, 0, 0, 0, 0], 1.0),  # nothing to rescale
        ([1, 0, 1, 0, 0, 1, 0, 1], 1.0),
        ([None, 1, 0, 0, 1, 1, 1, 1], 7 / 3),  # an unscored response is in neither count
    ],
)
def test_gpg_alpha(rewards, alpha):
    metrics = upside.estimator("gpg")(upside.Rollouts(rewards, MIXED["groups"])).metrics
    assert metrics["gpg_alpha"] == pytest.approx(alpha)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2]])
def test_gpg_alpha_of_idle_advantages_bears_rounding(order):
    # 0.2 - mean(0.1, 0.2, 0.3) is 0 or -2.8e-17 as the rows stand
    rewards = [[0.1, 0.2, 0.3][i] for i in order]
    metrics = upside.estimator("gpg:idle=zero_advantages")(upside.Rollouts(rewards, [0] * 3)).metrics
    assert metrics["gpg_alpha"] == pytest.approx(1.5)


def test_gpg_after_a_margin_counts_what_still_trains():
    # AAPO notes, ambiguity 8: a group of equal rewards that got a margin is no idle group
    given = {"rewards": [1, 1, 1, 0], "groups": [0, 0, 1, 1], "reference_rewards": [1, 0, 1, 0]}
    plain = values("group_mean > reference_margin", given)
    assert close(plain, [0, 0.28, 0.5, -0.5])
    rescaled = values("group_mean > reference_margin > gpg_rescale:idle=zero_advantages", given)
    assert close(rescaled, [a * 4 / 3 for a in plain])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("grpo:eps=-1", "group_std: eps=-1 must not be negative"),
        ("lite:eps=-1", "batch_std: eps=-1 must not be negative"),
        ("reinforce_pp:eps=-0.5", r"whiten: eps=-0\.5 must not be negative"),
        ("grpo:ddof=2", "group_std: ddof=2 must be 0 .* or 1"),
        ("adora:tau=1.5", r"adora_weight: tau=1\.5 must lie in \[0, 1\]"),
        ("adora:weight_tds=-1", "adora_weight: weight_tds=-1 must not be negative"),
        ("adora:mode=boost", "option mode='boost' must be one of 'attenuate', 'amplify'"),
        ("adora:truncation_length=4.5", "option truncation_length=4.5 must be a whole number or none"),
        ("grpo:eps=inf", "option eps=inf must be a finite number"),
        ("aapo:scale_by_std=1", "option scale_by_std=1 must be true or false"),
        ("rloo:eps=1", "rloo has no option 'eps'. It takes no options"),
    ],
)
def test_option_out_of_range(spec, message):
    with pytest.raises(ValueError, match=message):
        values(spec, MIXED)


# ---- reports: numbers are owner/repository#issue of the tool in which the fault was seen ---------------------


@pytest.mark.parametrize("value", [0.7, 1.05])
@pytest.mark.parametrize("eps", [1e-9, 1e-8, 1e-6, 1e-4])
@pytest.mark.parametrize("size", [6, 8, 10, 16])
def test_constant_rewards_at_small_eps(value, eps, size):
    # OpenRLHF group_norm, eps 1e-9: eight rewards of 0.7 give 59.6, of 1.05 give 119.2
    rewards = torch.full((size,), value, dtype=torch.float32)
    assert values(upside.estimator("grpo", eps=eps), {"rewards": rewards, "groups": [0] * size}) == [0.0] * size


def test_unequal_groups_do_not_normalise_over_the_batch():
    # slime#1414: view(-1, N) gives a constant-5 group -1.09
    given = {"rewards": [5, 5, 5, 9, 8, 9, 8, 10], "groups": [0, 0, 0, 1, 1, 1, 1, 1]}
    assert values("grpo", given)[:3] == [0, 0, 0]


def test_a_partial_group_does_not_shift_the_next():
    # AReaL#1419
    whole = values("grpo", {"rewards": [1, 0, 1, 0, 0], "groups": list("aabbb")})
    assert values("grpo", {"rewards": [1, 1, 0, 0], "groups": list("abbb")})[1:] == whole[2:]


def test_interleaved_prompts_are_told_apart():
    # R1-V#67
    assert values("dr_grpo", {"rewards": [1, 5, 0, 7], "groups": ["a", "b", "a", "b"]}) == [0.5, -1, -0.5, 1]


@pytest.mark.parametrize("spec", ["rloo", "dr_grpo", "grpo", "opo"])
def test_one_policy_for_a_group_of_one(spec):
    # verl#7793: rloo 0.7, rloo_vectorized 0.0
    given = {"rewards": [0.7, 1, 0], "groups": [0, 1, 1], "lengths": [3, 3, 3]}
    assert values(spec, given)[0] == 0.0


def test_leave_one_out_with_a_std():
    # RL#1518: the std of the others is 0 for [1,0,0,0] and gave 1e6
    got = values("rloo > group_std", {"rewards": [1, 0, 0, 0], "groups": [0] * 4})
    assert close(got, [1.9996, -0.6665, -0.6665, -0.6665], 1e-4)


@pytest.mark.parametrize("spec", ["grpo", "dr_grpo", "rloo", "gpg", "lite", "reinforce_pp_baseline", "canon", "opo"])
def test_a_missing_reward_is_not_zero(spec):
    # trl#5902, #6427, RL#2207: None counted as 0 gives unscorable text +0.26 among -1 and 1
    given = {"rewards": [None, -1, -1, 1], "groups": [0] * 4, "entropy": [4, 3, 2, 1], "lengths": [5] * 4}
    got = values(spec, given)
    assert got[0] == 0
    rest = {k: v[1:] for k, v in given.items()}
    assert close(got[1:], values(spec, rest))


@pytest.mark.parametrize("spec", ["grpo", "rloo", "reinforce_pp", "canon_inter", "adora", "aapo"])
def test_every_estimator_honours_the_mask(spec):
    # RL#3837: valid_mask honoured by one of six; verl#6362: a rejected row's reward in the baseline
    given = {
        "rewards": [1, 0, 0, 9], "groups": [0] * 4, "valid": [True, True, True, False],
        "lengths": [3, 4, 5, 99], "entropy": [1, 2, 3, 99], "reference_rewards": [0, 1, 0, 0],
    }  # fmt: skip
    got = values(spec, given)
    assert got[3] == 0
    assert close(got[:3], values(spec, {k: v[:3] for k, v in given.items()}))


def test_ids_are_opaque():
    # verl grouping: 1e9 allocates 1e9 slots, '01' and '1' merge, negative ids crash
    # verl: '01' and '1' merge, negative ids crash, 1e9 allocates a billion slots
    rewards = [1, 0, 1, 0, 1, 0]
    assert values("dr_grpo", {"rewards": rewards, "groups": ["1", "01", "1", "01", "-1", "-1"]}) == [
        0,
        0,
        0,
        0,
        0.5,
        -0.5,
    ]
    big = torch.tensor([10**9, -3, 10**9, -3, 2**62, 2**62])
    assert values("dr_grpo", {"rewards": rewards, "groups": big}) == [0, 0, 0, 0, 0.5, -0.5]
