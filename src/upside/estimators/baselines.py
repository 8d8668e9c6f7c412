"""Baselines: the first stage of a chain turns rewards into advantages, A_i = r_i - b_i.

r_i is the reward of response i, G its group, n the group's size; statistics are over valid rows, in float64.
A group whose rewards are all equal gets exactly 0 from every group baseline: r - mean(r) in floating point would
leave a rounding residue, which a division by a tiny std turns into an advantage of 60.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from upside.registry import register_stage
from upside.rollouts import Rollouts
from upside.sentences import Seen, Why, against, count, nothing_to_compare, num

Singleton = Literal["zero", "reward"]


def _against_group(seen: Seen, name: str, baseline: Tensor) -> Why:
    """baseline: (N,), of a stage that gives a constant group 0."""
    alike = nothing_to_compare(seen)
    if seen.options.get("singleton") == "reward":
        lone = (seen.groups.size == 1).tolist()
        kept = "the only response of its group keeps its reward"
        alike = [kept if single else same for single, same in zip(lone, alike, strict=True)]
    groups = [same or earned for same, earned in zip(alike, _earned(seen), strict=True)]
    return Why(against(seen, name, baseline, alike), groups)


def _earned(seen: Seen) -> list[str]:
    sizes, means = seen.groups.size.tolist(), seen.groups.mean(seen.before).tolist()
    return [f"{count(n, 'response')} earned {num(mean)} on average" for n, mean in zip(sizes, means, strict=True)]


def _why_group_mean(seen: Seen) -> Why:
    return _against_group(seen, "the group's mean", seen.groups.spread(seen.groups.mean(seen.before)))


@register_stage(
    "group_mean",
    kind="baseline",
    formula="A_i = r_i - mean_G(r)",
    source="DeepSeekMath (arXiv 2402.03300) without its std; Dr.GRPO (arXiv 2503.20783)",
    why=_why_group_mean,
    group_local=True,
)
def group_mean(rollouts: Rollouts, advantages: Tensor, *, singleton: Singleton = "zero") -> Tensor:
    """The group's mean is the baseline.

    singleton: a group of one gives 0 ("zero") or keeps its raw reward ("reward").
    Differs from the released code in verl 0.9 and in CANON's fork: there a group of one keeps its raw reward.
    """
    groups = rollouts.grouping
    centered = advantages - groups.spread(groups.mean(advantages))
    centered = torch.where(groups.spread(groups.constant(advantages)), 0.0, centered)
    if singleton == "reward":
        centered = torch.where(groups.spread(groups.size == 1), advantages, centered)
    return centered  # (N,)


def _why_leave_one_out(seen: Seen) -> Why:
    total, others = seen.groups.sum(seen.before), (seen.groups.size - 1).clamp(min=1)
    mean = (seen.groups.spread(total) - seen.before) / seen.groups.spread(others)  # (N,)
    return _against_group(seen, "the others' mean", mean)


@register_stage(
    "leave_one_out",
    kind="baseline",
    formula="A_i = r_i - mean of the other responses' rewards = n/(n-1) (r_i - mean_G(r))",
    source="RLOO, Ahmadian et al. 2024 (arXiv 2402.14740)",
    why=_why_leave_one_out,
    group_local=True,
)
def leave_one_out(rollouts: Rollouts, advantages: Tensor) -> Tensor:
    """The mean of the *other* responses is the baseline, so that it does not depend on the response it judges.

    Differs from the released code in verl 0.9's `rloo`: a group of one gives 0 here, its raw reward there.
    """
    size = rollouts.grouping.size
    return group_mean(rollouts, advantages) * rollouts.grouping.spread(size / (size - 1).clamp(min=1))


def _weighted_mean(rollouts: Rollouts, x: Tensor) -> Tensor:
    """Mean over each group with lengths as weights, the plain one where all are 0. (N,) -> (K,)"""
    groups = rollouts.grouping
    tokens = groups.sum(rollouts.lengths)
    weighted = groups.sum(rollouts.lengths * x) / torch.where(tokens > 0, tokens, 1.0)
    return torch.where(tokens > 0, weighted, groups.mean(x))


def _why_opo(seen: Seen) -> Why:
    mean = _weighted_mean(seen.rollouts, seen.before)
    return _against_group(seen, "the group's mean weighted by length", seen.groups.spread(mean))


@register_stage(
    "opo",
    kind="baseline",
    formula="A_i = r_i - sum_G(L r) / sum_G(L)",
    source="OPO, Hao et al. 2025 (arXiv 2505.23585)",
    needs=("lengths",),
    why=_why_opo,
    group_local=True,
)
def opo(rollouts: Rollouts, advantages: Tensor) -> Tensor:
    """The length-weighted mean: the variance-optimal baseline when gradient norms grow with length.

    A group whose responses are all empty falls back on the plain mean (its rows train no token).
    Differs from the released code in verl 0.9: a group of one gives 0 here, and all-empty groups are no NaN.
    """
    groups = rollouts.grouping
    baseline = groups.spread(_weighted_mean(rollouts, advantages))
    return torch.where(groups.spread(groups.constant(advantages)), 0.0, advantages - baseline)


def _why_batch_mean(seen: Seen) -> Why:
    known = seen.before[seen.rollouts.valid]
    if known.numel() == 0 or bool(known.max() == known.min()):
        return Why(["all responses of the batch earned the same, nothing to compare"] * len(seen.before))
    alike = [""] * seen.groups.count
    return Why(against(seen, "the batch's mean", known.mean().expand(len(seen.before)), alike), _earned(seen))


@register_stage(
    "batch_mean",
    kind="baseline",
    formula="A_i = r_i - mean_batch(r)",
    source="REINFORCE with a batch baseline, Williams 1992",
    group_relative=False,
    zero_on_constant=False,
    why=_why_batch_mean,
)
def batch_mean(rollouts: Rollouts, advantages: Tensor) -> Tensor:
    """The mean reward of the whole batch is the baseline; 0 for a batch of equal rewards."""
    known = advantages[rollouts.valid]
    if known.numel() == 0 or bool(known.max() == known.min()):
        return torch.zeros_like(advantages)
    return advantages - known.mean()


def _why_no_baseline(seen: Seen) -> Why:
    return Why(["the reward itself"] * len(seen.before), _earned(seen))


@register_stage(
    "none",
    kind="baseline",
    formula="A_i = r_i",
    source="REINFORCE, Williams 1992",
    group_relative=False,
    zero_on_constant=False,
    why=_why_no_baseline,
    group_local=True,
)
def no_baseline(rollouts: Rollouts, advantages: Tensor) -> Tensor:
    """No baseline: the reward itself."""
    return advantages


def _why_given_baseline(seen: Seen) -> Why:
    given = seen.rollouts.metrics["baseline"]
    return Why(against(seen, "the given baseline", given, [""] * seen.groups.count), _earned(seen))


@register_stage(
    "given_baseline",
    kind="baseline",
    formula="A_i = r_i - b_i, b given with the batch",
    source="ReMax, Li et al. 2023 (arXiv 2310.10505), where b is the reward of the greedy response",
    needs=("baseline",),
    group_relative=False,
    zero_on_constant=False,
    why=_why_given_baseline,
    group_local=True,
)
def given_baseline(rollouts: Rollouts, advantages: Tensor) -> Tensor:
    """A baseline that comes with the batch, one number per response, as `Rollouts(metrics={"baseline": …})`.

    ReMax puts the reward of the prompt's greedy response there, the same for all its sampled responses.
    """
    return advantages - rollouts.metrics["baseline"]
