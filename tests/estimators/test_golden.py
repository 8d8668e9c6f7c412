"""The released functions' own outputs (ADORA, CANON, AAPO, verl), from tests/data/golden.json."""

import json
from collections import Counter
from pathlib import Path

import pytest
import torch

import upside

CASES = json.loads((Path(__file__).parents[1] / "data" / "golden.json").read_text())["cases"]
CANON = {
    "dr_length_on_mean": {"metric": "length"},
    "dr_entropy_token_budget": {"metric": "entropy"},
    "dr_entropy_token_budget_annel": {"metric": "entropy", "mu": "first_intra_later_inter"},
    "dr_entropy_token_budget_cosine_restart": {"metric": "entropy", "mu": "cosine_first_intra"},
    "dr_entropy_token_budget_cosine_restart_r": {"metric": "entropy", "mu": "cosine_first_inter"},
}
VERL = {
    "grpo": lambda p: upside.estimator("grpo", eps=p["eps"]),
    "dr_grpo": lambda p: upside.estimator("dr_grpo"),
    "rloo": lambda p: upside.estimator("rloo"),
    "opo": lambda p: upside.estimator("opo"),
    "reinforce_plus_plus_baseline": lambda p: upside.estimator("reinforce_pp_baseline", whitening=p["whiten"]),
}


def estimator_of(reference, params):
    family, _, name = reference.partition(".")
    if reference == "canon.dr_grpo":
        return upside.estimator("dr_grpo", singleton="reward")
    if family == "canon":
        given = {k: params[k] for k in ("mu", "alpha", "beta") if k in params}
        return upside.estimator("canon", **CANON[name], **given, compat="released")
    if reference == "adora.llm":
        return upside.estimator(
            "adora",
            compat="released_llm",
            success_above=params["correct_score"],
            truncation_length=params["max_length_threshold"],
            weight_tds=params["lamda"],
        )
    if reference == "adora.vl_group_norm":
        return upside.estimator("adora", compat="released_vl")
    if reference == "adora.vl_rloo":
        return upside.chain("rloo", upside.stage("adora_weight", compat="released_vl"))
    return upside.estimator("aapo", **params) if family == "aapo" else VERL[name](params)


@pytest.mark.filterwarnings("ignore:.*single response")
@pytest.mark.parametrize("case", CASES, ids=[f"{c['reference']}-{i}" for i, c in enumerate(CASES)])
def test_released_value(case):
    params = case["params"]
    names = ("rewards", "groups", "lengths", "entropy", "reference_rewards")
    batch = upside.Rollouts(**{k: case[k] for k in names if k in case}, step=params.get("step", 0))
    estimator = estimator_of(case["reference"], params)
    got = estimator(batch).values
    released = torch.tensor(case["advantages"]) * params.get("max_length", 1)  # CANON's code divides by it
    assert torch.allclose(got, released, rtol=0, atol=2e-5)
    assert upside.estimator(str(estimator)) == estimator


def test_every_family_is_there():
    count = Counter(case["reference"].partition(".")[0] for case in CASES)
    assert count == {"canon": 150, "adora": 75, "aapo": 50, "verl": 125}
