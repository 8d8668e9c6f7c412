"""What each stage says of a response: literal sentences, and every number in them held against the formula."""

import re
import warnings

import pytest
from batches import SPECS, fields

import upside
from upside import Rollouts


def told(spec, rewards, groups=None, **more):
    batch = Rollouts(rewards, groups or [0] * len(rewards), **more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [row["why"] for row in upside.explain(spec, batch)], list(upside.why(spec, batch).values())


def test_grpo():
    responses, groups = told("grpo", [1, 0, 0, 0])
    assert responses == [
        "Reward 1 against the group's mean 0.25: +0.75; divided by the group's deviation 0.5 + 0.0001: +1.5.",
        *["Reward 0 against the group's mean 0.25: -0.25; divided by the group's deviation 0.5 + 0.0001: -0.4999."] * 3,
    ]
    assert groups == ["4 responses earned 0.25 on average; deviation 0.5; advantages -0.4999 to +1.5."]


def test_a_dead_group_a_lone_response_and_one_without_a_reward():
    responses, groups = told("grpo", [1, 1, 0, 0, 0, 1, None, None], list("aabbbcac"))
    assert responses == [
        *["Both responses earned 1, nothing to compare: 0."] * 2,
        *["All 3 responses earned 0, nothing to compare: 0."] * 3,
        "The only response of its group with a reward, nothing to compare: 0.",
        *["No reward could be computed: left out, advantage 0."] * 2,
    ]
    assert groups == [
        "Both responses earned 1, nothing to compare; 1 response without a reward left out; advantage 0.",
        "All 3 responses earned 0, nothing to compare; advantage 0.",
        "The only response of its group with a reward, nothing to compare; "
        "1 response without a reward left out; advantage 0.",
    ]
    assert told("grpo", [1, 0, 1], [0, 0, 1])[0][2] == "The only response of its group, nothing to compare: 0."
    assert told("grpo", [1, 0, None], [0, 0, 1])[1][1] == "None of its 1 responses has a reward: left out."


def test_baselines():
    rewards, lengths = [1, 0, 0], [1, 2, 3]
    assert told("rloo", rewards)[0][1] == "Reward 0 against the others' mean 0.5: -0.5."
    assert told("opo", rewards, lengths=lengths)[0][0] == (
        "Reward 1 against the group's mean weighted by length 0.1667: +0.8333."
    )
    assert told("reinforce", rewards)[0][0] == "The reward itself: +1."
    assert told("batch_baseline", [1, 0, 0, 0], [0, 0, 1, 1])[0][0] == "Reward 1 against the batch's mean 0.25: +0.75."
    assert told("batch_baseline", [1, 1])[0][0] == (
        "All responses of the batch earned the same, nothing to compare: 0."
    )
    assert told("remax", rewards, metrics={"baseline": [0.5] * 3})[0][2] == (
        "Reward 0 against the given baseline 0.5: -0.5."
    )
    kept = told("group_mean:singleton=reward", [0.5, 1, 0], [0, 1, 1])[0]
    assert kept[0] == "The only response of its group keeps its reward: +0.5."


def test_scales():
    # rewards 1, 0 | 0, 0: the unbiased deviation of the batch is 0.5
    rewards, groups = [1, 0, 0, 0], [0, 0, 1, 1]
    assert told("lite", rewards, groups)[0][0] == (
        "Reward 1 against the group's mean 0.5: +0.5; divided by the batch's deviation 0.5 + 0.0001: +0.9998."
    )
    assert told("lite", rewards, groups)[0][2] == "Both responses earned 0, nothing to compare: 0."
    assert told("gpg", rewards, groups)[0][0] == (
        "Reward 1 against the group's mean 0.5: +0.5; "
        "times 2, as 2 of the batch's 4 responses are in groups whose rewards differ: +1."
    )
    assert told("reinforce_pp", rewards, groups)[0][0] == (
        "The reward itself: +1; less the batch's mean 0.25, divided by its deviation 0.5: +1.5."
    )
    # by tokens: values 1, 0 counted 3 and 1 times: mean 0.75, variance (3 x 0.0625 + 0.5625) / 3 = 0.25
    assert told("reinforce_pp:whitening=token", [1, 0, 0], lengths=[3, 1, 0])[0] == [
        "The reward itself: +1; less the batch's token-weighted mean 0.75, divided by its deviation 0.5: +0.5.",
        "The reward itself: 0; less the batch's token-weighted mean 0.75, divided by its deviation 0.5: -1.5.",
        "The reward itself: 0; no token, so it trains nothing: 0.",
    ]
    responses, said = told("dapo:eps=0", [1, 0], truncated=[True, False])
    assert responses[0].endswith("divided by the group's deviation 0.7071: +0.7071; "
                                 "cut off at the token limit, trains nothing: 0.")  # fmt: skip
    assert "1 cut off at the token limit" in said[0]


@pytest.mark.parametrize(
    ("case", "clause"),
    [
        (
            ([1, 0, 1, 0], [300, 200, 100, 250], "adora"),
            "longest success 300 > mean failed length 225, weight 1: +0.866",
        ),
        (
            ([1, 0, 1, 0], [100, 400, 150, 200], "adora"),
            "longest success 150 <= mean failed length 300, weight 0.1: +0.0866",
        ),
        (
            ([1, 0, 0, 0, 1], [500, 300, 200, 400, 100], "adora_amplify"),
            "longest success 500 > mean failed length 300, success rate 0.4 <= 0.5, both, weight 2: +2.191",
        ),
        (
            ([1, 1, 1, 0, 0], [500, 300, 200, 400, 100], "adora_amplify"),
            "longest success 500 > mean failed length 250, success rate 0.6 > 0.5, not both, weight 1: +0.7303",
        ),
        (
            ([1, 1, 1, 0, 0], [500, 300, 200, 400, 100], "adora_amplify:criteria=or"),
            "longest success 500 > mean failed length 250, success rate 0.6 > 0.5, one is enough, weight 2: +1.461",
        ),
        (
            ([1, 0, 1, 0], [1000, 4096, 900, 4096], "adora:compat=released_vl"),
            "no response failed in under 4094 tokens (taken as disadvantageous), weight 0.1: +0.0866",
        ),
        (([0.3, 0, 0.1, 0], [4, 3, 2, 1], "adora"), "no response succeeded (taken as advantageous), weight 1: +1.414"),
        (
            ([1, 0, 0, 0], [301, 300, 301, 301], "adora"),
            "longest success 301 > mean failed length 300.7, weight 1: +1.5",
        ),
        (
            ([1, 0, 0, 0, 0], [30000, 29999, 30000, 30000, 30000], "adora"),
            "longest success 30000 > mean failed length 29999.8, weight 1: +1.789",
        ),
        (
            ([1, 0], [3, 2], "adora:criteria=difficulty,tau=0.25"),
            "ADORA: success rate 0.5 > 0.25, weight 0.1: +0.07071",
        ),
    ],
)
def test_adora(case, clause):
    rewards, lengths, spec = case
    responses, groups = told(spec, rewards, lengths=lengths)
    assert f"{clause}." in responses[0]
    assert re.sub(": [+-][0-9.]+$", "", clause) in groups[0]


def test_adora_with_mean_weight_1():
    # weights 1 and 0.1 over four rows: mean 0.55
    batch = {"lengths": [9, 1, 1, 9], "groups": [0, 0, 1, 1]}
    responses, _ = told("adora:normalize_mean_weight=true", [1, 0, 1, 0], **batch)
    assert responses[2].endswith(
        "ADORA: longest success 1 <= mean failed length 9, weight 0.1 / mean weight 0.55: +0.1286."
    )


FIGURE_1 = {"rewards": [1, 1, 0, 1], "entropy": [0.2, 0.3, 0.4, 0.1]}  # CANON's figure 1
LOW = "In the lower-entropy half; the lower-entropy half earned 0.5 more (1 against 0.5); "
HIGH = "In the higher-entropy half; the lower-entropy half earned 0.5 more (1 against 0.5); "


def test_canon_between_and_within():
    responses, groups = told("canon_inter", **FIGURE_1)
    assert responses == [
        LOW + "reward 1 against the higher-entropy half's 0.5: +0.5.",
        HIGH + "reward 1 against the lower-entropy half's 1: 0.",
        HIGH + "reward 0 against the lower-entropy half's 1: -1.",
        LOW + "reward 1 against the higher-entropy half's 0.5: +0.5.",
    ]
    assert groups == ["The lower-entropy half earned 0.5 more (1 against 0.5), mu 1; advantages -1 to +0.5."]
    assert told("canon_intra", **FIGURE_1)[0][2] == HIGH + "reward 0 against its own half's 0.5: -0.5."


def test_canon_mixed():
    responses, _ = told("canon:mu=0.75", **FIGURE_1)
    assert responses[2] == (
        HIGH + "reward 0 against the lower-entropy half's 1 is -1, reward 0 against its own half's 0.5 is -0.5; "
        "mixed by mu: 0.75 x -1 + 0.25 x -0.5: -0.875."
    )


def test_canon_names_the_schedule_and_its_value():
    _, groups = told("canon_dynamic", **FIGURE_1, step=7)  # accuracy 3/4: mu 1/4
    assert groups[0].startswith("The lower-entropy half earned 0.5 more (1 against 0.5), ")
    assert "mu 0.25 by first_inter_later_intra at step 7; " in groups[0]


def test_canon_alpha_and_beta():
    responses, _ = told("canon_eff", [1, 1, 1, 1], lengths=[100, 400, 200, 300])
    assert responses[1] == (
        "In the longer half; both halves earned 1; reward 1 x 0.96 against the shorter half's 1 is -0.04, "
        "reward 1 against its own half's 1 is 0; mixed by mu: 0.5 x -0.04 + 0.5 x 0: -0.02."
    )
    responses, _ = told("canon:metric=length,beta=0.05", [1, 0], lengths=[1, 2])
    assert responses == [
        "In the shorter half; the shorter half earned 1 more (1 against 0); "
        "reward 1 against the longer half's 0 less 0.05: +0.95.",
        "In the longer half; the shorter half earned 1 more (1 against 0); "
        "reward 0 against the shorter half's 1 plus 0.05: -0.95.",
    ]


def test_canon_at_the_cut():
    responses, _ = told("canon_inter:metric=style", [1, 0, 0], metrics={"style": [1, 2, 3]})
    assert responses[1] == (
        "At the cut, so 0.5 of it is in the high-style half and 0.5 in the low-style one; "
        "the low-style half earned 0.6667 more (0.6667 against 0); "
        "reward 0 against the halves' 0.6667 and 0 in these parts: -0.3333."
    )
    responses, _ = told("canon_inter:metric=length", [1, 0, 0, 1], lengths=[5, 5, 5, 9])
    assert responses[1].startswith(
        "At the cut, tied with 2 others, so 0.3333 of it is in the longer half and 0.6667 in"
    )


def test_aapo():
    # example E1: 1.78, -0.5, -0.7, -0.5 up to eps
    responses, groups = told("aapo", [1, 0, 0, 0], reference_rewards=[0, 0, 1, 0])
    first, rest = (
        f"Reward {r} against the group's mean 0.25: {a}; divided by the group's deviation 0.5 + 0.0001: {b}; "
        for r, a, b in ((1, "+0.75", "+1.5"), (0, "-0.25", "-0.4999"))
    )
    assert responses == [
        first + "1 above the reference's 0, clipped to 0.28: +1.78.",
        rest + "level with the reference's 0, no margin: -0.4999.",
        rest + "1 below the reference's 1, clipped to -0.2: -0.6999.",
        rest + "level with the reference's 0, no margin: -0.4999.",
    ]
    assert "; 1 response above the reference, 1 below; advantages -0.6999 to +1.78." in groups[0]


def test_aapo_of_a_dead_group_and_without_a_reference():
    responses, _ = told("aapo", [1, 1, 1, 1], reference_rewards=[1, 0, None, 0.9])
    assert responses == [
        "All 4 responses earned 1, nothing to compare: 0; level with the reference's 1, no margin: 0.",
        "All 4 responses earned 1, nothing to compare: 0; 1 above the reference's 0, clipped to 0.28: +0.28.",
        "All 4 responses earned 1, nothing to compare: 0; no reference reward, so no margin: 0.",
        "All 4 responses earned 1, nothing to compare: 0; 0.1 above the reference's 0.9, margin +0.1: +0.1.",
    ]
    responses, _ = told("aapo:pairing=group_mean", [1, 1], reference_rewards=[1, 0.8])
    assert responses[0].endswith("0.1 above the reference's mean 0.9, margin +0.1: +0.1.")


NUMBER = r"([+-]?\d+(?:\.\d+)?(?:e-?\d+)?)"
SIGN = {"plus": 1, "less": -1, None: 0}
SUMS = [  # what a clause claims, recomputed from its own numbers and the value before
    (rf"reward {NUMBER}(?: x {NUMBER})? against (?:the (?:group's|others'|batch's) mean"
     rf"|the given baseline|the group's mean weighted by length|its own half's|the [\w-]+ half's) {NUMBER}"
     rf"(?: x {NUMBER})?(?: (plus|less) {NUMBER})?",
     lambda _, r, a, b, c, sign, beta: r * (a or 1) - b * (c or 1) + SIGN[sign] * (beta or 0)),
    (rf"divided by the (?:group|batch)'s deviation {NUMBER} \+ {NUMBER}", lambda v, d, eps: v / (d + eps)),
    (rf"divided by the (?:group|batch)'s deviation {NUMBER}", lambda v, d: v / d),
    (rf"less the batch's (?:token-weighted )?mean {NUMBER}, divided by its deviation {NUMBER}",
     lambda v, m, d: (v - m) / d),
    (rf"times {NUMBER}, as {NUMBER} of the batch's {NUMBER} responses .*", lambda v, a, m, b: v * b / m),
    (rf".*, clipped to {NUMBER}", lambda v, m: v + m),
    (rf".*, margin {NUMBER}", lambda v, m: v + m),
    (rf"ADORA: .*, weight {NUMBER} / mean weight {NUMBER}", lambda v, w, m: v * w / m),
    (rf"ADORA: .*, weight {NUMBER}", lambda v, w: v * w),
    (rf"mixed by mu: {NUMBER} x {NUMBER} \+ {NUMBER} x {NUMBER}", lambda _, a, x, b, y: a * x + b * y),
]  # fmt: skip


@pytest.mark.parametrize("spec", SPECS)
def test_every_number_is_the_one_that_was_used(spec):
    given = fields(3, [2, 3, 4, 5, 8, 8, 1], "graded", invalid=0.1)
    given["step"] = 40  # the schedules are under way
    batch = Rollouts(**given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows, groups = upside.explain(spec, batch), upside.why(spec, batch)
    recomputed = 0
    for row in rows:
        assert not re.search(r"\bnan\b|None\b(?! of)|\binf\b|\{", row["why"], flags=re.I), row["why"]
        if not row["valid"]:
            continue
        afters = [value for name, value in row.items() if name.startswith("after_")]
        assert _end(row["why"]) == pytest.approx(row["advantage"], rel=6e-4, abs=1e-8)
        value = row["reward"]
        for clause in row["why"].rstrip(".").split("; "):
            found = re.fullmatch(rf"(.*): {NUMBER}", clause)
            if found is None:  # says where it stands, not what became of it
                continue
            text, after = found[1], float(found[2])
            assert min(abs(after - a) for a in afters) <= 6e-4 * max(1, abs(after)), (clause, afters)
            for pattern, recompute in SUMS:
                if match := re.fullmatch(pattern, text, flags=re.I):
                    claimed = recompute(value, *map(_read, match.groups()))
                    assert claimed == pytest.approx(after, rel=2e-3, abs=2e-3), row["why"]
                    recomputed += 1
                    break
            else:
                assert re.search("nothing|itself|no margin|in these parts|keeps its reward", text), clause
            value = after
    assert recomputed >= (0 if spec == "reinforce" else 10)
    assert all(text.endswith(".") and "None of" not in text and "nan" not in text for text in groups.values())


def _read(text):
    return text if text in SIGN else float(text)


def _end(sentence):
    return float(re.search(rf"{NUMBER}\.$", sentence)[1])
