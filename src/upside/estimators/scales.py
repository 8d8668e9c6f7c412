"""Scales: divide advantages by a standard deviation, of the group's rewards or of the whole batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from upside.registry import register_stage
from upside.rollouts import Rollouts
from upside.sentences import Seen, Why, num


@register_stage(
    "group_std",
    kind="scale",
    formula="A_i / (std_G(r) + eps)",
    source="GRPO, DeepSeekMath (arXiv 2402.03300)",
    group_local=True,
)
@dataclass(frozen=True)
class GroupStd:
    """Divide by the standard deviation of the group's rewards.

    eps: added to the std. 1e-4 in TRL and AAPO, 1e-6 in verl and ADORA's LLM code, 1e-9 in OpenRLHF.
    ddof: 1 the unbiased std (every released code), 0 the population std.
    A group of equal rewards, or of one response, has no spread: its advantages stay as they are (0 from a group
    baseline), instead of being divided by eps.
    """

    eps: float = 1e-4
    ddof: int = 1

    def __post_init__(self) -> None:
        if self.eps < 0:
            raise ValueError(f"group_std: eps={self.eps} must not be negative")
        if self.ddof not in (0, 1):
            raise ValueError(f"group_std: ddof={self.ddof} must be 0 (population std) or 1 (unbiased std)")

    def __call__(self, rollouts: Rollouts, advantages: Tensor) -> Tensor:
        groups = rollouts.grouping
        std = groups.std(rollouts.scores, self.ddof)  # (K,)
        std = torch.where(groups.constant(rollouts.scores), 1.0, std + self.eps)
        return advantages / groups.spread(std)

    def why(self, seen: Seen) -> Why:
        stds = seen.groups.std(seen.rollouts.scores, self.ddof).tolist()
        constant = seen.groups.constant(seen.rollouts.scores).tolist()
        known = list(zip(stds, constant, strict=True))
        divided = ["" if same else f"divided by the group's {_deviation(std, self.eps)}" for std, same in known]
        return Why(seen.by_row(divided), ["" if same else f"deviation {num(std)}" for std, same in known])


def _deviation(std: float, eps: float) -> str:
    """With eps where four digits show it."""
    return f"deviation {num(std)}" + (f" + {eps:g}" if num(std + eps) != num(std) else "")


def _why_batch_std(seen: Seen) -> Why:
    known = seen.rollouts.scores[seen.rollouts.valid]
    if known.numel() < 2 or bool(known.max() == known.min()):
        return Why([""] * len(seen.before))
    text = f"divided by the batch's {_deviation(float(known.std()), seen.options['eps'])}"
    return Why(seen.by_row([text] * seen.groups.count))


@register_stage(
    "batch_std",
    kind="scale",
    formula="A_i / (std_batch(r) + eps)",
    source="Lite PPO, Liu et al. 2025 (arXiv 2508.08221); TRL scale_rewards='batch'",
    why=_why_batch_std,
)
def batch_std(rollouts: Rollouts, advantages: Tensor, *, eps: float = 1e-4) -> Tensor:
    """Divide by the unbiased standard deviation of all rewards of the batch, so that easy prompts are not inflated."""
    if eps < 0:
        raise ValueError(f"batch_std: eps={eps} must not be negative")
    known = rollouts.scores[rollouts.valid]
    if known.numel() < 2 or bool(known.max() == known.min()):
        return advantages
    return advantages / (known.std() + eps)


@register_stage(
    "whiten",
    kind="scale",
    formula="(A_i - mean_batch(A)) / sqrt(var_batch(A) + eps)",
    source="REINFORCE++, Hu et al. 2025 (arXiv 2501.03262)",
    zero_on_constant=False,
)
@dataclass(frozen=True)
class Whiten:
    """Shift and scale the batch's advantages to mean 0 and variance 1.

    level: "sequence" counts each response once; "token" counts it once per generated token, so that long
    answers dominate mean and variance (what verl does). eps: inside the root. Variance is unbiased.
    """

    level: Literal["sequence", "token"] = "sequence"
    eps: float = 1e-8

    def __post_init__(self) -> None:
        if self.eps < 0:
            raise ValueError(f"whiten: eps={self.eps} must not be negative")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"lengths"} if self.level == "token" else ())

    def __call__(self, rollouts: Rollouts, advantages: Tensor) -> Tensor:
        count = self._count(rollouts)
        known = advantages[count > 0]
        if known.numel() == 0 or bool(known.max() == known.min()):
            return torch.zeros_like(advantages)
        mean, variance = self._moments(advantages, count)
        return torch.where(count > 0, (advantages - mean) * torch.rsqrt(variance + self.eps), 0.0)

    def _count(self, rollouts: Rollouts) -> Tensor:
        """How often each row counts. (N,)"""
        weight = torch.ones_like(rollouts.scores) if self.level == "sequence" else rollouts.lengths
        return torch.where(rollouts.valid, weight, 0.0)

    def _moments(self, advantages: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and unbiased variance. (), ()"""
        total = count.sum()
        mean = (advantages * count).sum() / total
        return mean, ((advantages - mean) ** 2 * count).sum() / (total - 1).clamp(min=1)

    def why(self, seen: Seen) -> Why:
        count = self._count(seen.rollouts)
        known = seen.before[count > 0]
        if known.numel() == 0 or bool(known.max() == known.min()):
            return Why(["the whole batch is alike, so whitening leaves nothing"] * len(count))
        mean, variance = self._moments(seen.before, count)
        how = "mean" if self.level == "sequence" else "token-weighted mean"
        deviation = num(float(variance + self.eps) ** 0.5)
        text = f"less the batch's {how} {num(float(mean))}, divided by its deviation {deviation}"
        return Why([text if n > 0 else "no token, so it trains nothing" for n in count.tolist()])


def _why_mask_truncated(seen: Seen) -> Why:
    cut = seen.rollouts.truncated
    groups = [f"{n:.0f} cut off at the token limit" if n else "" for n in seen.groups.sum(cut).tolist()]
    return Why(["cut off at the token limit, trains nothing" if c else "" for c in cut.tolist()], groups)


@register_stage(
    "mask_truncated",
    kind="weight",
    formula="A_i * [response i ended by itself]",
    source="DAPO overlong filtering, Yu et al. 2025 (arXiv 2503.14476)",
    needs=("truncated",),
    why=_why_mask_truncated,
    group_local=True,
)
def mask_truncated(rollouts: Rollouts, advantages: Tensor) -> Tensor:
    """Responses that hit the token limit train nothing; their rewards stay in the group's statistics."""
    return torch.where(rollouts.truncated, 0.0, advantages)
