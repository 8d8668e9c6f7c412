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

Singleton = Literal["zero", "reward"]


@register_stage(
    "group_mean",
    kind="baseline",
    formula="A_i = r_i - mean_G(r)",
    source="DeepSeekMath (arXiv 2402.03300) without its std; Dr.GRPO (arXiv 2503.20783)",
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


@register_stage(
    "leave_one_out",
    kind="baseline",
    formula="A_i = r_i - mean of the other responses' rewards = n/(n-1) (r_i - mean_G(r))",
    source="RLOO, Ahmadian et al. 2024 (arXiv 2402.14740)",
)
def leave_one_out(rollouts: Rollouts, advantages: Tensor) -> Tensor:
    """The mean of the *other* responses is the baseline, so that it does not depend on the response it judges.

    Differs from the released code in verl 0.9's `rloo`: a group of one gives 0 here, its raw reward there.
    """
    size = rollouts.grouping.size
    return group_mean(rollouts, advantages) * rollouts.grouping.spread(size / (size - 1).clamp(min=1))


@register_stage(
    "opo",
    kind="baseline",
    formula="A_i = r_i - sum_G(L r) / sum_G(L)",
    source="OPO, Hao et al. 2025 (arXiv 2505.23585)",
    needs=("lengths",),
)
def opo(rollouts: Rollouts, advantages: Tensor) -> Tensor:
    """The length-weighted mean: the variance-optimal baseline when gradient norms grow with length.

    A group whose responses are all empty falls back on the plain mean (its rows train no token).
    Differs from the released code in verl 0.9: a group of one gives 0 here, and all-empty groups are no NaN.
    """
    groups = rollouts.grouping
    tokens = groups.sum(rollouts.lengths)
    weighted = groups.sum(rollouts.lengths * advantages) / torch.where(tokens > 0, tokens, 1.0)
    baseline = torch.where(tokens > 0, weighted, groups.mean(advantages))
    return torch.where(groups.spread(groups.constant(advantages)), 0.0, advantages - groups.spread(baseline))


@register_stage(
    "batch_mean",
    kind="baseline",
    formula="A_i = r_i - mean_batch(r)",
    source="REINFORCE with a batch baseline, Williams 1992",
    group_relative=False,
    zero_on_constant=False,
)
def batch_mean(rollouts: Rollouts, advantages: Tensor) -> Tensor:
    """The mean reward of the whole batch is the baseline; 0 for a batch of equal rewards."""
    known = advantages[rollouts.valid]
    if known.numel() == 0 or bool(known.max() == known.min()):
        return torch.zeros_like(advantages)
    return advantages - known.mean()


@register_stage(
    "none",
    kind="baseline",
    formula="A_i = r_i",
    source="REINFORCE, Williams 1992",
    group_relative=False,
    zero_on_constant=False,
)
def no_baseline(rollouts: Rollouts, advantages: Tensor) -> Tensor:
    """No baseline: the reward itself."""
    return advantages


@register_stage(
    "given_baseline",
    kind="baseline",
    formula="A_i = r_i - b_i, b given with the batch",
    source="ReMax, Li et al. 2023 (arXiv 2310.10505), where b is the reward of the greedy response",
    needs=("baseline",),
    group_relative=False,
    zero_on_constant=False,
)
def given_baseline(rollouts: Rollouts, advantages: Tensor) -> Tensor:
    """A baseline that comes with the batch, one number per response, as `Rollouts(metrics={"baseline": …})`.

    ReMax puts the reward of the prompt's greedy response there, the same for all its sampled responses.
    """
    return advantages - rollouts.metrics["baseline"]
