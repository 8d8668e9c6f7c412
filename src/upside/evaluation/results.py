"""What an evaluation found: the figures drawn from its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

from upside.evaluation.judging import Row
from upside.evaluation.metrics import (
    Estimate,
    estimate_mean,
    estimate_share,
    majority_at_k,
    mixed_share,
    pass_at_k,
)

OnFailure = Literal["exclude", "wrong"]
"""What a response without a verdict counts as: left out of every figure of accuracy, or wrong."""

FAILURES = ("unparsed", "timeout", "error")
"""Outcomes that are neither right nor wrong by the answer itself; each has its share in the figures."""


@dataclass(frozen=True)
class Evaluation:
    """The rows of one evaluation, problems in order and samples within, with the settings that made them.

    All shares are means over problems with 95% intervals clustered by problem (`metrics.estimate_share`). A response
    without a verdict (correct None: the check timed out, failed, or had nothing to go by) is left out of accuracy,
    pass@k, maj@k and mixed groups, never silently counted as wrong; with on_failure="wrong" it counts as wrong.
    `unjudged` is their share either way. A problem with too few judged responses for a k is left out of that figure,
    and `Estimate.problems` says how many remain.
    """

    rows: list[Row]
    settings: dict[str, Any] = field(default_factory=dict)
    on_failure: OnFailure = "exclude"

    @cached_property
    def by_problem(self) -> list[list[Row]]:
        """Rows grouped by problem id, in order."""
        groups: dict[str, list[Row]] = {}
        for row in self.rows:
            groups.setdefault(row.problem, []).append(row)
        return list(groups.values())

    @cached_property
    def judged(self) -> list[list[Row]]:
        """Of `by_problem` the rows that count, without the problems that have none."""
        if self.on_failure == "wrong":
            return self.by_problem
        kept = [[row for row in rows if row.correct is not None] for rows in self.by_problem]
        return [rows for rows in kept if rows]

    @property
    def samples(self) -> int:
        """Responses a problem (the most any has)."""
        return max((len(rows) for rows in self.by_problem), default=0)

    @property
    def accuracy(self) -> Estimate:
        """avg@n, which is pass@1: each problem's share of right responses, averaged over problems."""
        return estimate_share([right(rows) / len(rows) for rows in self.judged])

    def pass_at(self, k: int) -> Estimate:
        """Unbiased pass@k. Raises ValueError when k exceeds the samples drawn."""
        rows = self.with_samples(k, "pass@")
        return estimate_share([pass_at_k(len(r), right(r), k) for r in rows])

    def majority_at(self, k: int) -> Estimate:
        """maj@k over the final answers; ties share the credit (`metrics.majority`)."""
        rows = self.with_samples(k, "maj@")
        return estimate_share([majority_at_k([x.final for x in r], [bool(x.correct) for x in r], k) for r in rows])

    def mixed(self, size: int) -> Estimate:
        """Share of groups of `size` that hold right and wrong responses: those that teach a group estimator."""
        rows = self.with_samples(size, "groups of ")
        return estimate_share([mixed_share(len(r), right(r), size) for r in rows])

    @property
    def tokens(self) -> Estimate:
        """Mean generated tokens a response."""
        return self._tokens(lambda row: True)

    @property
    def tokens_right(self) -> Estimate:
        """Mean generated tokens of the right responses; problems without one have no part in it."""
        return self._tokens(lambda row: row.correct is True)

    @property
    def tokens_wrong(self) -> Estimate:
        """Mean generated tokens of the wrong responses; those without a verdict are not among them."""
        return self._tokens(lambda row: row.correct is False)

    @property
    def truncated(self) -> Estimate:
        """Share of responses cut at the token limit."""
        return self.share(lambda row: row.truncated)

    def outcome(self, name: str) -> Estimate:
        """Share of responses that ended so (`upside.verifiers.base.Outcome`), of all that were drawn."""
        return self.share(lambda row: row.outcome == name)

    def share(self, holds: Callable[[Row], bool]) -> Estimate:
        """Share of all responses for which something holds."""
        return estimate_share([sum(map(holds, rows)) / len(rows) for rows in self.by_problem])

    @property
    def unjudged(self) -> float:
        """Share of responses without a verdict."""
        return sum(row.correct is None for row in self.rows) / max(1, len(self.rows))

    def by_level(self) -> dict[int, Estimate]:
        """Accuracy at each level, ascending."""
        return self._split(lambda row: row.level)

    def by_family(self) -> dict[str, Estimate]:
        """Accuracy in each family, by name."""
        return self._split(lambda row: row.family)

    def styles(self) -> dict[str, tuple[float, float]]:
        """strategy -> (share of the responses that have one, accuracy within it), most frequent first."""
        named = [row for row in self.rows if row.style is not None]
        counts = Counter(row.style for row in named)
        out = {}
        for style, count in counts.most_common():
            judged = [row for row in named if row.style == style and row.correct is not None]
            out[str(style)] = (count / len(named), right(judged) / len(judged) if judged else float("nan"))
        return out

    def ks(self, wanted: Sequence[int] | None = None) -> list[int]:
        """The k of the pass@k figures: those wanted, else 1, 2, 4, … up to the samples, and their number."""
        if wanted:
            return sorted(set(wanted))
        n = self.samples
        return sorted({*(2**i for i in range(n.bit_length()) if 2**i <= n), *([n] if n else [])})

    def summary(self, pass_at: Sequence[int] | None = None) -> dict[str, Any]:
        """All figures as plain numbers, the settings first. pass@k as `ks` has them; maj@k for the number of samples;
        mixed groups of 8 where there are 8 samples."""
        n = self.samples
        return {
            "settings": self.settings,
            "on_failure": self.on_failure,
            "problems": len(self.by_problem),
            "samples": n,
            "accuracy": asdict(self.accuracy),
            "pass": {str(k): asdict(self.pass_at(k)) for k in self.ks(pass_at)},
            "majority": {str(n): asdict(self.majority_at(n))} if n else {},
            "mixed": {"8": asdict(self.mixed(8))} if n >= 8 else {},
            "tokens": asdict(self.tokens),
            "tokens_right": asdict(self.tokens_right),
            "tokens_wrong": asdict(self.tokens_wrong),
            "truncated": asdict(self.truncated),
            "outcomes": {name: asdict(self.outcome(name)) for name in ("correct", "wrong", *FAILURES)},
            "unjudged": self.unjudged,
            "levels": {str(k): asdict(v) for k, v in self.by_level().items()},
            "families": {k: asdict(v) for k, v in self.by_family().items()},
            "styles": {k: {"share": s, "accuracy": a} for k, (s, a) in self.styles().items()},
        }

    def with_samples(self, k: int, what: str) -> list[list[Row]]:
        """Of `judged` the problems with k rows or more. ValueError, with `what` before the k, where there is none."""
        if not 1 <= k <= self.samples:
            raise ValueError(f"{what}{k} needs 1..{self.samples} of the samples drawn; draw more samples or lower it")
        return [rows for rows in self.judged if len(rows) >= k]

    def _tokens(self, counts: Callable[[Row], bool]) -> Estimate:
        chosen = [[row.tokens for row in rows if counts(row)] for rows in self.by_problem]
        return estimate_mean([sum(tokens) for tokens in chosen], [len(tokens) for tokens in chosen])

    def _split(self, key: Callable[[Row], Hashable]) -> dict[Any, Estimate]:
        shares: dict[Any, list[float]] = {}
        for rows in self.judged:
            shares.setdefault(key(rows[0]), []).append(right(rows) / len(rows))
        return {name: estimate_share(shares[name]) for name in sorted(shares)}


def right(rows: Sequence[Row]) -> int:
    """How many are correct."""
    return sum(bool(row.correct) for row in rows)
