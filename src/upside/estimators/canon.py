"""CANON: Conditional Advantage Estimation (ICLR 2026, arXiv 2509.23962).

The responses to a prompt are sorted by a metric and cut into two halves of equal size, G+ (high) and G- (low), with
mean rewards m+ and m-.

    (3)  inter:  A_i = r_i - m-  for i in G+,     r_i - m+  for i in G-      (against the other half)
    (4)  intra:  A_i = r_i - m+  for i in G+,     r_i - m-  for i in G-      (against its own half)
    (5)  A = mu A_inter + (1 - mu) A_intra
    (9)  inter with alpha:  alpha r_i - m-  for i in G+,   r_i - alpha m+  for i in G-

mu = 1 is CANON-Inter, 0 CANON-Intra, 1/2 Dr.GRPO, a schedule CANON-Dynamic; length, mu = 1/2 and alpha < 1 are
CANON-Eff. With alpha < 1 a group of all-correct answers keeps a signal: -mu (1 - alpha) on its long half.

Halves without a choice. Membership is a share h_i in [0, 1]: 1 above the cut, 0 below, and what stands *at* the cut
(the middle response of an odd group, responses of equal metric) belongs to both halves in equal parts, so that
sum h = n/2 always. Half means are h-weighted and A_i = h_i A_i(as if in G+) + (1 - h_i) A_i(as if in G-). Where the
paper defines its halves, an even group without a tie at the cut, this is the paper. Elsewhere it keeps what the
paper proves: mu = 1/2 is Dr.GRPO, the advantages of a group sum to 0, row order never matters; a group that is
tied throughout falls back on Dr.GRPO, a group of one gives 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from upside.chains import StageOutput
from upside.registry import register_stage
from upside.rollouts import RESERVED, Rollouts
from upside.schedules import Schedule, schedule

FIELDS = {"length": "lengths", "entropy": "entropy"}


@register_stage(
    "canon",
    kind="baseline",
    formula="A_i = mu (r_i - mean of the other half) + (1 - mu) (r_i - mean of its own half)",
    source="CANON equations 3-5 and 9 (arXiv 2509.23962)",
)
@dataclass(frozen=True)
class Canon:
    """Conditional regrouping.

    metric: "entropy", "length", "random" (a seeded shuffle, the paper's ablation) or any name in Rollouts.metrics.
    mu: a number in [0, 1], or a schedule: "first_inter_later_intra", "cosine_first_inter(total=300,warmup=60)", …
    alpha: weight of one half's rewards in the inter term. alpha_half: which half, "high" (equation 9) or "low".
    beta: extra margin in the inter term, +beta for the high half and -beta for the low one (released code only).
    ties, odd: what happens at the cut. "share" (both): see above. ties="stable": equal metrics keep row order.
        odd="high" or "low": that half takes the extra response; "error" refuses odd groups.
    singleton: a group of one gives 0, or its raw reward ("reward", released code).
    seed: of metric="random"; the step is mixed in.
    compat="released": ties="stable", odd="high", singleton="reward", and alpha on the low half unless the metric
        is length. Differs from the released code in one thing: values are not divided by the maximal response
        length, which is the loss's business (loss_type="dr_grpo").
    A NaN metric is refused by Rollouts (the released code sorts it anywhere).
    """

    metric: str = "entropy"
    mu: float | str | Schedule = 1.0
    alpha: float = 1.0
    alpha_half: Literal["high", "low"] | None = None
    beta: float = 0.0
    ties: Literal["share", "stable"] | None = None
    odd: Literal["share", "high", "low", "error"] | None = None
    singleton: Literal["zero", "reward"] | None = None
    seed: int = 0
    compat: Literal["released"] | None = None

    def __post_init__(self) -> None:
        released = self.compat == "released"
        defaults = {
            "alpha_half": "low" if released and self.metric != "length" else "high",
            "ties": "stable" if released else "share",
            "odd": "high" if released else "share",
            "singleton": "reward" if released else "zero",
        }
        for name, value in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        if self.metric in RESERVED - {*FIELDS, "random"}:
            raise ValueError(
                f"canon: metric={self.metric!r} is no metric of a response; "
                "give 'entropy', 'length', 'random' or a name in Rollouts.metrics"
            )
        if self.alpha < 0:
            raise ValueError(f"canon: alpha={self.alpha} must not be negative")
        if isinstance(self._mu, int | float):
            self._check_mu(self._mu)

    def _check_mu(self, mu: float) -> float:
        if not 0 <= mu <= 1:
            said = f" (from {self.mu})" if isinstance(self._mu, Schedule) else ""
            raise ValueError(f"canon: mu={mu}{said} must lie in [0, 1]: 1 compares between halves, 0 within them")
        return mu

    @cached_property
    def _mu(self) -> float | Schedule:
        return schedule(self.mu) if isinstance(self.mu, str) else self.mu

    @property
    def needs(self) -> frozenset[str]:
        metric = frozenset(() if self.metric == "random" else {FIELDS.get(self.metric, self.metric)})
        return metric | self._mu.needs if isinstance(self._mu, Schedule) else metric

    @property
    def zero_on_constant(self) -> bool:
        return self.alpha == 1 and self.beta == 0

    def __call__(self, rollouts: Rollouts, advantages: Tensor) -> StageOutput:
        groups, r = rollouts.grouping, advantages
        metric = self._metric(rollouts)
        h = self._high_share(rollouts, metric)  # (N,) share of G+
        mu = self._check_mu(float(self._mu(rollouts) if callable(self._mu) else self._mu))
        a_high, a_low = (self.alpha, 1.0) if self.alpha_half == "high" else (1.0, self.alpha)

        high_size, low_size = groups.sum(h), groups.sum(1 - h)
        m_high = groups.sum(h * r) / torch.where(high_size > 0, high_size, 1.0)  # (K,) m+
        m_low = groups.sum((1 - h) * r) / torch.where(low_size > 0, low_size, 1.0)  # (K,) m-
        if self.singleton == "reward":  # the released code gives both halves of a lone response the mean 0
            m_high, m_low = (torch.where(groups.size == 1, 0.0, m) for m in (m_high, m_low))
        mp, mm = groups.spread(m_high), groups.spread(m_low)

        inter_high, inter_low = a_high * r - a_low * mm + self.beta, a_low * r - a_high * mp - self.beta  # (3), (9)
        intra_high, intra_low = r - mp, r - mm  # (4)
        inter = h * inter_high + (1 - h) * inter_low
        intra = h * intra_high + (1 - h) * intra_low
        values = mu * inter + (1 - mu) * intra  # (5)
        values = self._exact(rollouts, r, values)
        return StageOutput(values, self._metrics(rollouts, metric, mu, m_high - m_low), {"metric": metric, "half": h})

    def _metric(self, rollouts: Rollouts) -> Tensor:
        if self.metric != "random":
            return rollouts.require(FIELDS.get(self.metric, self.metric), "canon")
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + rollouts.step) % 2**63)
        return torch.rand(len(rollouts), generator=generator, dtype=torch.float64).to(rollouts.device)

    def _high_share(self, rollouts: Rollouts, metric: Tensor) -> Tensor:
        """h: 1 in the high half, 0 in the low half, between them at the cut. (N,) float64, 0 on invalid rows"""
        groups, valid = rollouts.grouping, rollouts.valid
        size = groups.size  # (K,)
        if self.odd == "error" and bool((size % 2 == 1).any()):
            name = rollouts.group_ids[int((size % 2 == 1).nonzero()[0])]
            raise ValueError(f"canon: group {name!r} has an odd number of valid responses; odd='share' cuts it fairly")
        low_size = {"high": (size / 2).floor(), "low": (size / 2).ceil()}.get(str(self.odd), size / 2)  # (K,)

        order = groups.order(torch.where(valid, metric, torch.inf))  # by (group, metric), invalid rows last
        start = groups.full_size.cumsum(0) - groups.full_size  # (K,) first position of each group
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order), device=order.device) - start[groups.index[order]]
        # the block of equal metrics that a row stands in: ranks [first, first + width)
        if self.ties == "stable":
            first, width = rank.double(), torch.ones_like(metric)
        else:
            first, width = _tie_blocks(groups.index[order], metric[order], valid[order], order, rank)
        below = ((groups.spread(low_size) - first) / width).clamp(0, 1)  # share of the block below the cut
        return torch.where(valid, 1 - below, 0.0)

    def _exact(self, rollouts: Rollouts, r: Tensor, values: Tensor) -> Tensor:
        """A group of one, and at alpha = 1 a group of equal rewards, is 0 to the last bit."""
        groups = rollouts.grouping
        lone = groups.size == 1
        zero = groups.constant(r) & ~lone if self.zero_on_constant else torch.zeros_like(lone)
        zero = zero | (lone if self.singleton == "zero" else torch.zeros_like(lone))
        return torch.where(groups.spread(zero), 0.0, values)

    def _metrics(self, rollouts: Rollouts, metric: Tensor, mu: float, gap: Tensor) -> dict[str, float]:
        groups = rollouts.grouping
        whole = groups.size > 1
        count = max(int(whole.sum()), 1)
        return {
            "canon_mu": mu,
            "canon_gap": float(gap[whole].sum()) / count,  # m+ - m-, mean over groups
            "canon_abs_gap": float(gap[whole].abs().sum()) / count,
            "canon_tied_groups": float((groups.constant(metric) & whole).sum()) / count,
            "canon_odd_groups": float((groups.size % 2 == 1).sum()) / max(int((groups.size > 0).sum()), 1),
        }


def _tie_blocks(group: Tensor, metric: Tensor, valid: Tensor, order: Tensor, rank: Tensor) -> tuple[Tensor, Tensor]:
    """First rank and width of each row's block of equal metric; first three arguments in sorted order. (N,), (N,)"""
    new = torch.ones_like(valid)
    new[1:] = (group[1:] != group[:-1]) | (metric[1:] != metric[:-1]) | (valid[1:] != valid[:-1])
    block = new.cumsum(0) - 1  # (N,) in sorted order
    width = torch.bincount(block)
    first = rank[order][new]  # rank at which each block starts
    row_first, row_width = torch.empty_like(rank), torch.empty_like(rank)
    row_first[order], row_width[order] = first[block], width[block]
    return row_first.double(), row_width.double()
