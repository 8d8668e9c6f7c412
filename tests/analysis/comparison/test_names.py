from __future__ import annotations

import pytest

from upside.analysis.comparison import EstimatorListError, read_estimators


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["grpo,canon_inter"], {"grpo": "grpo", "canon_inter": "canon_inter"}),
        (
            ["canon:metric=length,mu=0.5,grpo"],
            {"canon:metric=length,mu=0.5": "canon:metric=length,mu=0.5", "grpo": "grpo"},
        ),
        (["fast=canon:mu=0.5,alpha=0.9,mine=grpo"], {"fast": "canon:mu=0.5,alpha=0.9", "mine": "grpo"}),
        (
            ["canon:mu=linear(start=1,end=0.5),slow=grpo > adora_weight:mode=attenuate,lambda_amp=0.2", "rloo"],
            {
                "canon:mu=linear(start=1,end=0.5)": "canon:mu=linear(start=1,end=0.5)",
                "slow": "grpo > adora_weight:mode=attenuate,lambda_amp=0.2",
                "rloo": "rloo",
            },
        ),
        (["a=grpo , b = grpo"], {"a": "grpo", "b": "grpo"}),
    ],
)
def test_a_comma_parts_estimators_but_not_options(
    given: list[str], expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upside.analysis.comparison.names.make", lambda spec: None)
    assert read_estimators(given) == expected


def test_a_mapping_names_them() -> None:
    assert read_estimators({"x": "grpo > adora_weight"}) == {"x": "grpo > adora_weight"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "list is empty"),
        ([""], "list is empty"),
        (["grpo,,rloo"], "nothing between"),
        (["grpo,grpo"], "'grpo' stands twice"),
        (["=rloo"], "'=rloo'"),
        (["a>b=grpo"], "cannot read 'b=grpo'"),
        (["grpo,canom_inter"], "'canom_inter': unknown estimator or stage 'canom_inter'. Did you mean 'canon_inter'"),
        (["canon:mu=0.5,mu=2"], "stands twice"),
        (["x y=grpo,x-y=rloo", "xy=opo"], "'xy' stands twice"),  # the same folder
    ],
)
def test_what_cannot_be_read_is_named(given: list[str], message: str) -> None:
    with pytest.raises(EstimatorListError, match=message.replace("(", r"\(")):
        read_estimators(given)
