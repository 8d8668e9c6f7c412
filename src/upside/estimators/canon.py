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

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from upside.chains import StageOutput
from upside.groups import Groups
from upside.metrics import ZERO
from upside.registry import register_stage
from upside.rollouts import RESERVED, Rollouts
from upside.schedules import Schedule, schedule
from upside.sentences import Seen, Why, apart, count, nothing_to_compare, num, signed

FIELDS = {"length": "lengths", "entropy": "entropy"}
HALVES = {
    "length": ("longer", "shorter"),
    "entropy": ("higher-entropy", "lower-entropy"),
    "random": ("first", "second"),
}


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

    @property
    def group_local(self) -> bool:
        return self.metric != "random" and not callable(self._mu)

    def __call__(self, rollouts: Rollouts, advantages: Tensor) -> StageOutput:
        groups, r = rollouts.grouping, advantages
        metric = self._metric(rollouts)
        h = self._high_share(rollouts, metric)  # (N,) share of G+
        mu = self._check_mu(float(self._mu(rollouts) if callable(self._mu) else self._mu))
        m_high, m_low = self._half_means(groups, r, h)
        inter, intra = self._terms(groups.spread(m_high), groups.spread(m_low), r, h)
        values = mu * inter + (1 - mu) * intra  # (5)
        values = torch.where(groups.spread(self._zero(groups, r)), 0.0, values)
        return StageOutput(values, self._metrics(rollouts, metric, mu, m_high - m_low), {"metric": metric, "half": h})

    @property
    def _alphas(self) -> tuple[float, float]:
        """Factors of the high and of the low half's rewards in the inter term."""
        return (self.alpha, 1.0) if self.alpha_half == "high" else (1.0, self.alpha)

    def _half_means(self, groups: Groups, r: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """m+ and m-. (K,), (K,)"""
        high_size, low_size = groups.sum(h), groups.sum(1 - h)
        m_high = groups.sum(h * r) / torch.where(high_size > 0, high_size, 1.0)
        m_low = groups.sum((1 - h) * r) / torch.where(low_size > 0, low_size, 1.0)
        if self.singleton == "reward":  # the released code gives both halves of a lone response the mean 0
            m_high, m_low = (torch.where(groups.size == 1, 0.0, m) for m in (m_high, m_low))
        return m_high, m_low

    def _terms(self, mp: Tensor, mm: Tensor, r: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Inter and intra term, from m+ and m- of each row's group. (N,), (N,)"""
        a_high, a_low = self._alphas
        inter_high, inter_low = a_high * r - a_low * mm + self.beta, a_low * r - a_high * mp - self.beta  # (3), (9)
        intra_high, intra_low = r - mp, r - mm  # (4)
        return h * inter_high + (1 - h) * inter_low, h * intra_high + (1 - h) * intra_low

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

    def _zero(self, groups: Groups, r: Tensor) -> Tensor:
        """A group of one, and at alpha = 1 a group of equal rewards, is 0 to the last bit. (K,) bool"""
        lone = groups.size == 1
        zero = groups.constant(r) & ~lone if self.zero_on_constant else torch.zeros_like(lone)
        return zero | (lone if self.singleton == "zero" else torch.zeros_like(lone))

    def why(self, seen: Seen) -> Why:
        groups, r, h, mu = seen.groups, seen.before, seen.columns["half"], seen.metrics["canon_mu"]
        means = self._half_means(groups, r, h)
        inter, intra = self._terms(groups.spread(means[0]), groups.spread(means[1]), r, h)
        zero = self._zero(groups, r).tolist()
        idle = [text if is_zero else "" for text, is_zero in zip(nothing_to_compare(seen), zero, strict=True)]
        halves = list(zip(*(m.tolist() for m in means), strict=True))  # (K,) of (m+, m-)
        gaps = [self._gap_clause(*pair) for pair in halves]
        blocks = list(zip(seen.index, seen.columns["metric"].tolist(), strict=True))
        alike = Counter(block for block, valid in zip(blocks, seen.rollouts.valid.tolist(), strict=True) if valid)
        tied = [alike[block] - 1 for block in blocks]  # (N,) others of its group with the same metric
        both = list(zip(inter.tolist(), intra.tolist(), strict=True))  # (N,) of (inter, intra)
        rows = zip(seen.index, r.tolist(), h.tolist(), both, tied, strict=True)
        step = f" by {self._mu} at step {seen.rollouts.step}" if isinstance(self._mu, Schedule) else ""
        return Why(
            [
                idle[k] or f"{self._place(half, tied)}; {gaps[k]}; {self._sum(mu, reward, half, halves[k], terms)}"
                for k, reward, half, terms, tied in rows
            ],
            [text or f"{gap}, mu {num(mu)}{step}" for text, gap in zip(idle, gaps, strict=True)],
        )

    @property
    def _halves(self) -> tuple[str, str]:
        return HALVES.get(self.metric, (f"high-{self.metric}", f"low-{self.metric}"))

    def _place(self, h: float, tied: int) -> str:
        high, low = self._halves
        if h in (0, 1):
            return f"in the {high if h else low} half"
        why = f", tied with {count(tied, 'other')}" if tied else ""
        return f"at the cut{why}, so {num(h)} of it is in the {high} half and {num(1 - h)} in the {low} one"

    def _gap_clause(self, m_high: float, m_low: float) -> str:
        high, low = self._halves
        if abs(m_high - m_low) <= ZERO:
            return f"both halves earned {num(m_high)}"
        name, more, less = (high, m_high, m_low) if m_high > m_low else (low, m_low, m_high)
        return "the {} half earned {} more ({} against {})".format(name, num(more - less), *apart(more, less))

    def _sum(self, mu: float, r: float, h: float, halves: tuple[float, float], terms: tuple[float, float]) -> str:
        """Equation (5) with its numbers."""
        (mp, mm), (inter, intra) = halves, terms
        between = self._between(r, h, mp, mm)
        own = f"half's {num(mp if h else mm)}" if h in (0, 1) else f"halves' {num(mp)} and {num(mm)} in these parts"
        within = f"reward {num(r)} against its own {own}"
        if mu in (0, 1):
            return between if mu else within
        total = f"{num(mu)} x {signed(inter)} + {num(1 - mu)} x {signed(intra)}"
        return f"{between} is {signed(inter)}, {within} is {signed(intra)}; mixed by mu: {total}"

    def _between(self, r: float, h: float, mp: float, mm: float) -> str:
        (high, low), (a_high, a_low) = self._halves, self._alphas
        beta = f" {'plus' if h else 'less'} {num(self.beta)}" if self.beta else ""
        if h == 1:
            return f"reward {_times(r, a_high)} against the {low} half's {_times(mm, a_low)}{beta}"
        if h == 0:
            return f"reward {_times(r, a_low)} against the {high} half's {_times(mp, a_high)}{beta}"
        return f"reward {num(r)} against the halves' {num(mm)} and {num(mp)} in these parts"

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


def _times(value: float, alpha: float) -> str:
    return num(value) if alpha == 1 else f"{num(value)} x {num(alpha)}"


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
