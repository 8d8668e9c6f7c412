"""How much of a batch carries no signal, in closed form: what `upside plan` prints.

With binary rewards and pass rate p, G responses to one prompt are all right with p^G and all wrong with
(1-p)^G; such a dead group has zero group-relative advantage. AAPO adds the margin to a paired reference
response of pass rate p': a row stays without signal only if its group is dead and the reference response
fares the same, p^G p' + (1-p)^G (1-p'); a whole group does with (p p')^G + ((1-p)(1-p'))^G.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GroupPlan:
    """Chances for one prompt with G responses.

    all_right, all_wrong: the two ways to be dead; dead: their sum; mixed: the rest.
    aapo_row: chance that a row has neither group-relative advantage nor margin.
    aapo_group: chance that this holds for all G rows.
    expected_mixed: expected number of mixed groups among `prompts` prompts.
    """

    pass_rate: float
    group_size: int
    reference_pass_rate: float
    prompts: int
    all_right: float
    all_wrong: float
    dead: float
    mixed: float
    aapo_row: float
    aapo_group: float
    expected_mixed: float


def plan_group(
    pass_rate: float, group_size: int, reference_pass_rate: float | None = None, prompts: int = 1
) -> GroupPlan:
    """The chances for a pass rate in 0..1 and a group size >= 1. `reference_pass_rate` defaults to the pass rate
    (true at step 0, when the policy is its own reference). Raises ValueError naming the field."""
    p, g = pass_rate, group_size
    r = p if reference_pass_rate is None else reference_pass_rate
    for name, value in (("pass_rate", p), ("reference_pass_rate", r)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must be between 0 and 1, got {value}")
    for name, count in (("group_size", g), ("prompts", prompts)):
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"{name} must be a whole number and at least 1, got {count}")
    right, wrong = p**g, (1 - p) ** g
    dead = min(1.0, right + wrong)  # a group of one is always dead
    return GroupPlan(
        pass_rate=p,
        group_size=g,
        reference_pass_rate=r,
        prompts=prompts,
        all_right=right,
        all_wrong=wrong,
        dead=dead,
        mixed=1 - dead,
        aapo_row=right * r + wrong * (1 - r),
        aapo_group=(p * r) ** g + ((1 - p) * (1 - r)) ** g,
        expected_mixed=prompts * (1 - dead),
    )
