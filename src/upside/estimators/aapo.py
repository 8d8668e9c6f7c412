"""AAPO: Advantage-Augmented Policy Optimization (ACL 2026, arXiv 2505.14264).

For each prompt the policy samples G responses with rewards r_i, and a frozen reference model (the initial
checkpoint) samples G more with rewards r^ref_i, scored alike and paired by index.

    (5)  A_i = (r_i - mean_G(r)) / std_G(r)  +  clip(r_i - r^ref_i, delta_low, delta_high)
               \\__ group_mean > group_std __/     \\______ reference_margin: this file ______/

A group of equal rewards has no first term but keeps its margin, so the batch still has a signal. The margin is in
raw reward units and is not normalised. The loss beside it is the plain policy gradient, without ratio, clip or KL:

    L = - sum_i sum_t A_i log pi(o_it | q, o_i<t) / sum_i |o_i|      (the engine's `cross_entropy` loss)

The equation's number is the one reviews of version 2 give. The bounds -0.2 and 0.28 stand in the released code;
the readable parts of the paper give none. Earlier versions call the margin "advantage momentum"; it is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from upside.chains import StageOutput
from upside.registry import register_stage
from upside.rollouts import Rollouts
from upside.sentences import Seen, Why, count, num, signed


@register_stage(
    "reference_margin",
    kind="augment",
    formula="A_i + clip(r_i - r_ref_i, low, high)",
    source="AAPO equation 5 (arXiv 2505.14264)",
    group_local=True,
)
@dataclass(frozen=True)
class ReferenceMargin:
    """Add the clipped gap between a response's reward and the reference policy's.

    low, high: bounds of the margin in reward units; None leaves that side open (the paper's "w/o clip").
    missing: a row without a reference reward gets margin 0 ("zero_margin"), counts it as reward 0 ("zero_reward"),
        or raises ("error").
    pairing: "row" compares response i with reference response i, as published; "group_mean" compares it with the
        mean of the prompt's reference rewards (an extension: same expectation before the clip, less noise).
    Differs from the released code in `missing`: there a missing reference counts as reward 0, which hands a correct
    answer a free +0.28. The released 1.5B code also scored the prompt's text as the reference response; that is a
    bug no option reproduces.
    """

    low: float | None = -0.2
    high: float | None = 0.28
    missing: Literal["zero_margin", "zero_reward", "error"] = "zero_margin"
    pairing: Literal["row", "group_mean"] = "row"

    needs = frozenset({"reference_rewards"})

    def __post_init__(self) -> None:
        if self.low is not None and self.low > 0:
            raise ValueError(f"reference_margin: low={self.low} must be at most 0")
        if self.high is not None and self.high < 0:
            raise ValueError(f"reference_margin: high={self.high} must be at least 0")

    def __call__(self, rollouts: Rollouts, advantages: Tensor) -> StageOutput:
        gap = rollouts.scores - self._reference(rollouts)  # (N,) r_i - r^ref_i, NaN where there is no reference
        missing = gap.isnan() & rollouts.valid
        gap = torch.where(gap.isnan() | ~rollouts.valid, 0.0, gap)
        margin = gap.clamp(self.low, self.high) if (self.low, self.high) != (None, None) else gap
        rows = max(float(rollouts.valid.sum()), 1.0)
        metrics = {
            "margin_mean": float(margin.sum()) / rows,
            "margin_clipped_share": float((margin != gap).sum()) / rows,
            "margin_zero_share": float((rollouts.valid & (margin == 0)).sum()) / rows,
            "reference_missing_share": float(missing.sum()) / rows,
        }
        return StageOutput(advantages + margin, metrics, {"margin": margin})

    def _reference(self, rollouts: Rollouts) -> Tensor:
        """r^ref_i, NaN where missing. (N,)"""
        reference = rollouts.reference_rewards
        absent = reference.isnan() & rollouts.valid
        if self.missing == "error" and bool(absent.any()):
            row = int(absent.nonzero()[0])
            raise ValueError(
                f"reference_rewards[{row}] is missing ({int(absent.sum())} rows in all); supply it, "
                "or choose missing='zero_margin'"
            )
        if self.missing == "zero_reward":
            reference = reference.nan_to_num(0.0)
        if self.pairing == "row":
            return reference
        given = rollouts.grouping.where(~reference.isnan())
        mean = torch.where(given.size > 0, given.mean(reference), torch.nan)
        return given.spread(mean)

    def why(self, seen: Seen) -> Why:
        reference = self._reference(seen.rollouts)
        gaps, margin = (seen.rollouts.scores - reference).tolist(), seen.columns["margin"]
        rows = zip(gaps, reference.tolist(), margin.tolist(), strict=True)
        beaten, lost = seen.groups.sum(margin > 0).tolist(), seen.groups.sum(margin < 0).tolist()
        groups = [
            f"{count(up, 'response')} above the reference, {down:.0f} below" if up or down else ""
            for up, down in zip(beaten, lost, strict=True)
        ]
        return Why([self._clause(*row) for row in rows], groups)

    def _clause(self, gap: float, reference: float, margin: float) -> str:
        if reference != reference:
            return "no reference reward, so no margin"
        whose = f"the reference's {'mean ' if self.pairing == 'group_mean' else ''}{num(reference)}"
        if not gap:
            return f"level with {whose}, no margin"
        over = f"{num(abs(gap))} {'above' if gap > 0 else 'below'} {whose}"
        return f"{over}, clipped to {num(margin)}" if margin != gap else f"{over}, margin {signed(margin)}"
