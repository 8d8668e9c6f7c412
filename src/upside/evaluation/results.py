"""What an evaluation found: one row a response, and the figures drawn from them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from upside.evaluation.metrics import (
    Estimate,
    estimate_mean,
    estimate_share,
    majority_at_k,
    mixed_share,
    pass_at_k,
)


@dataclass(frozen=True)
class Row:
    """One judged response. tokens counts the end token; truncated: hit the token limit. score and correct are
    None where the task could not judge it. final: the answer read from it, None when it gives none."""

    problem: str
    level: int
    family: str
    sample: int
    prompt: str
    gold: str
    response: str
    tokens: int
    truncated: bool
    score: float | None
    correct: bool | None
    final: str | None
    style: str | None


@dataclass(frozen=True)
class Evaluation:
    """The rows of one evaluation, problems in order and samples within, with the settings that made them.

    All shares are means over problems with 95% intervals clustered by problem (`metrics.estimate_share`). A
    response the task could not judge (correct None) is left out of accuracy, pass@k, maj@k and mixed groups,
    never counted as wrong; `unjudged` is their share. A problem with too few judged responses for a k is left
    out of that figure, and `Estimate.problems` says how many remain.
    """

    rows: list[Row]
    settings: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def by_problem(self) -> list[list[Row]]:
        """Rows grouped by problem id, in order."""
        groups: dict[str, list[Row]] = {}
        for row in self.rows:
            groups.setdefault(row.problem, []).append(row)
        return list(groups.values())

    @cached_property
    def _judged(self) -> list[list[Row]]:
        judged = [[row for row in rows if row.correct is not None] for rows in self.by_problem]
        return [rows for rows in judged if rows]

    @property
    def samples(self) -> int:
        """Responses a problem (the most any has)."""
        return max((len(rows) for rows in self.by_problem), default=0)

    @property
    def accuracy(self) -> Estimate:
        """avg@n, which is pass@1: each problem's share of right responses, averaged over problems."""
        return estimate_share([_right(rows) / len(rows) for rows in self._judged])

    def pass_at(self, k: int) -> Estimate:
        """Unbiased pass@k. Raises ValueError when k exceeds the samples drawn."""
        rows = self._with(k, "pass@")
        return estimate_share([pass_at_k(len(r), _right(r), k) for r in rows])

    def majority_at(self, k: int) -> Estimate:
        """maj@k over the final answers; ties share the credit (`metrics.majority`)."""
        rows = self._with(k, "maj@")
        return estimate_share([majority_at_k([x.final for x in r], [bool(x.correct) for x in r], k) for r in rows])

    def mixed(self, size: int) -> Estimate:
        """Share of groups of `size` that hold right and wrong responses: those that teach a group estimator."""
        rows = self._with(size, "groups of ")
        return estimate_share([mixed_share(len(r), _right(r), size) for r in rows])

    @property
    def tokens(self) -> Estimate:
        """Mean generated tokens a response."""
        return estimate_mean([sum(x.tokens for x in rows) / len(rows) for rows in self.by_problem])

    @property
    def truncated(self) -> Estimate:
        """Share of responses cut at the token limit."""
        return estimate_share([sum(x.truncated for x in rows) / len(rows) for rows in self.by_problem])

    @property
    def unjudged(self) -> float:
        """Share of responses without a verdict."""
        return sum(row.correct is None for row in self.rows) / max(1, len(self.rows))

    @property
    def unanswered(self) -> float:
        """Share of responses from which no final answer could be read."""
        return sum(row.final is None for row in self.rows) / max(1, len(self.rows))

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
            out[str(style)] = (count / len(named), _right(judged) / len(judged) if judged else float("nan"))
        return out

    def summary(self) -> dict[str, Any]:
        """All figures as plain numbers: what `to_json` writes. pass@k for k = 1, 2, 4, … and the number of
        samples; maj@k for the number of samples; mixed groups of 8 where there are 8 samples."""
        n = self.samples
        powers = [k for k in (1, 2, 4, 8, 16, 32, 64, 128) if k <= n]
        figures: dict[str, Any] = {
            "problems": len(self.by_problem),
            "samples": n,
            "accuracy": asdict(self.accuracy),
            "pass": {str(k): asdict(self.pass_at(k)) for k in sorted({*powers, n}) if k},
            "majority": {str(n): asdict(self.majority_at(n))} if n else {},
            "mixed": {"8": asdict(self.mixed(8))} if n >= 8 else {},
            "tokens": asdict(self.tokens),
            "truncated": asdict(self.truncated),
            "unjudged": self.unjudged,
            "unanswered": self.unanswered,
            "levels": {str(k): asdict(v) for k, v in self.by_level().items()},
            "families": {k: asdict(v) for k, v in self.by_family().items()},
            "styles": {k: {"share": s, "accuracy": a} for k, (s, a) in self.styles().items()},
            "interval": "95%, clustered by problem: Wilson with effective sample size (shares), normal (means)",
        }
        return {"settings": self.settings, **figures}

    def to_json(self, path: str | Path) -> None:
        """Write `summary()`; NaN becomes null."""
        Path(path).write_text(json.dumps(_no_nan(self.summary()), indent=2) + "\n", encoding="utf-8")

    def to_parquet(self, path: str | Path) -> None:
        """Write every row, one column a field of Row."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        fields = {
            "problem": pa.string(),
            "level": pa.int64(),
            "family": pa.string(),
            "sample": pa.int64(),
            "prompt": pa.string(),
            "gold": pa.string(),
            "response": pa.string(),
            "tokens": pa.int64(),
            "truncated": pa.bool_(),
            "score": pa.float64(),
            "correct": pa.bool_(),
            "final": pa.string(),
            "style": pa.string(),
        }
        pq.write_table(pa.Table.from_pylist([asdict(row) for row in self.rows], pa.schema(fields.items())), path)

    @classmethod
    def from_parquet(cls, path: str | Path, settings: dict[str, Any] | None = None) -> Evaluation:
        """The evaluation whose rows `to_parquet` wrote."""
        import pyarrow.parquet as pq

        return cls([Row(**row) for row in pq.read_table(path).to_pylist()], settings or {})

    def _with(self, k: int, what: str) -> list[list[Row]]:
        if not 1 <= k <= self.samples:
            raise ValueError(f"{what}{k} needs 1..{self.samples} of the samples drawn; draw more samples or lower it")
        return [rows for rows in self._judged if len(rows) >= k]

    def _split(self, key: Callable[[Row], Hashable]) -> dict[Any, Estimate]:
        shares: dict[Any, list[float]] = {}
        for rows in self._judged:
            shares.setdefault(key(rows[0]), []).append(_right(rows) / len(rows))
        return {name: estimate_share(shares[name]) for name in sorted(shares)}


def _right(rows: Sequence[Row]) -> int:
    return sum(bool(row.correct) for row in rows)


def _no_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _no_nan(v) for k, v in value.items()}
    return None if isinstance(value, float) and value != value else value
