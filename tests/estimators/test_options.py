"""verl#6803: an option that is read and then ignored. Here each option of each stage and preset changes a value."""

import pytest
from batches import fields, values

import upside
from upside import registry, spec

pytestmark = pytest.mark.filterwarnings("ignore:.*single response")

# Odd and even groups, a lone response, ties, missing references, an all-wrong and an all-right group of graded
# rewards, a group with one failure of more than 12 tokens.
BATCH = fields(11, [5, 4, 7, 1, 6, 3, 3, 4], "tenths") | {"step": 12}
SPECIAL = {  # group -> rewards, lengths
    5: ([0.1, 0.2, 0.3], [5, 9, 2]),
    6: ([0.7, 1.05, 0.7], [4, 8, 3]),
    7: ([1.05, 0.1, 0.2, 0.7], [9, 15, 4, 3]),
}
for special, (rewards, lengths) in SPECIAL.items():
    for row, r, n in zip([i for i, g in enumerate(BATCH["groups"]) if g == special], rewards, lengths, strict=True):
        BATCH["rewards"][row], BATCH["lengths"][row], BATCH["correct"][row] = r, n, r > 0.5

# option -> (other options it stands beside, the value that differs from the default)
OTHER = {
    "eps": ({}, 0.3),
    "ddof": ({}, 0),
    "singleton": ({}, "reward"),
    "level": ({}, "token"),
    "whitening": ({}, "token"),
    "idle": ({}, "zero_rewards"),
    "low": ({}, -0.05),
    "high": ({}, 0.05),
    "missing": ({}, "zero_reward"),
    "pairing": ({}, "group_mean"),
    "scale_by_std": ({}, False),
    "mode": ({}, "amplify"),
    "criteria": ({}, "difficulty"),
    "tau": ({"criteria": "difficulty"}, 0.8),
    "weight_tas": ({}, 3.0),
    "weight_tds": ({}, 0.3),
    "success_above": ({"criteria": "difficulty"}, 0.15),
    "truncation_length": ({}, 12),
    "no_success": ({}, "tds"),
    "no_failure": ({}, "tas"),
    "normalize_mean_weight": ({}, True),
    "metric": ({}, "length"),
    "mu": ({}, 0.2),
    "alpha": ({}, 0.7),
    "alpha_half": ({"alpha": 0.7}, "low"),
    "beta": ({}, 0.1),
    "ties": ({}, "stable"),
    "odd": ({}, "high"),
    "seed": ({"metric": "random"}, 1),
    "schedule": ({}, "cosine_first_inter"),
}
COMPAT = {"adora": "released_llm", "adora_weight": "released_llm", "canon": "released"}
OWN = {("canon_random", "seed"): ({}, 1)}


def cases():
    for name, found in {**registry.STAGES, **registry.PRESETS}.items():
        for option in registry.options(found.options_of):
            beside, value = ({}, COMPAT[name]) if option == "compat" else OWN.get((name, option), OTHER.get(option))
            yield pytest.param(name, beside, option, value, id=f"{name}-{option}")


def build(name, options):
    part = spec.format_call(name, options)
    baseline = name in registry.PRESETS or registry.STAGES[name].kind == "baseline"
    return upside.estimator(part if baseline else f"group_mean > {part}")


@pytest.mark.parametrize(("name", "beside", "option", "value"), cases())
def test_the_option_changes_the_result(name, beside, option, value):
    batch = BATCH
    if name.startswith("gpg"):
        batch = BATCH | {"rewards": [0.0 if r == 0.1 else r for r in BATCH["rewards"]]}
    changed = build(name, beside | {option: value})
    assert values(changed, batch) != values(build(name, beside), batch)


@pytest.mark.parametrize(
    ("option", "one", "other"),
    [
        ("idle", "equal_rewards", "zero_advantages"),
        ("criteria", "and", "or"),
        ("criteria", "length", "and"),
        ("ties", "stable", "share"),
        ("odd", "high", "low"),
        ("odd", "low", "share"),
        ("mu", "cosine_first_inter", "cosine_first_intra"),
        ("mu", "first_inter_later_intra", "first_intra_later_inter"),
        ("mu", "linear(over=20)", "linear(over=40)"),
        ("mu", "cosine(warmup=2)", "cosine(warmup=2,hold=true,total=11)"),
        ("mu", "cosine(scale=true)", "cosine(scale=false)"),
        ("mu", "cosine(warmup=2,cycles=3)", "cosine(warmup=2,cycles=4)"),
        ("mu", "cosine(warmup=2,low=0.2)", "cosine(warmup=2,low=0.1)"),
        ("compat", "released_llm", "released_vl"),
    ],
)
def test_values_of_one_option_differ(option, one, other):
    name = {"idle": "gpg", "criteria": "adora", "compat": "adora"}.get(option, "canon")
    batch = fields(3, [4, 5, 6, 7], "binary") | {"step": 12}
    if option == "ties":
        batch |= {"entropy": [i % 3 for i in range(22)]}
    if option == "idle":  # a group centred on one of its rewards: that response is idle, its group is not
        batch |= {"rewards": [[0.1, 0.2, 0.3][i % 3] for i in range(22)], "groups": [i // 3 for i in range(22)]}
    if option == "compat":  # an all-wrong group of graded rewards: the LLM code attenuates it
        batch |= {"rewards": [r / 4 + i / 100 for i, r in enumerate(batch["rewards"])]}
    assert values(upside.estimator(name, **{option: one}), batch) != values(
        upside.estimator(name, **{option: other}), batch
    )
