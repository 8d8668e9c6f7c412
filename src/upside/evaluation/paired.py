"""Two evaluations of the same problems, compared problem by problem."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from upside.evaluation.judging import Row
from upside.evaluation.metrics import Estimate, estimate_average, estimate_mean, pass_at_k
from upside.evaluation.results import Evaluation, right

PAIRED = "95%, closed form: Student's t over the differences of the problems; exact bound where no problem differs"
COMPARED = (
    "samples",
    "greedy",
    "temperature",
    "top_p",
    "top_k",
    "max_new_tokens",
    "split",
    "problems",
    "problems_digest",
)
"""Settings that must agree. Seeds, batch sizes and backends may differ: they change the draw, not what is measured."""


@dataclass(frozen=True)
class Difference:
    """Mean over problems of (value - baseline) with its 95% interval, and the two means themselves, over the problems
    that have both."""

    value: float
    baseline: float
    difference: float
    low: float
    high: float
    problems: int

    @property
    def within_noise(self) -> bool:
        """Whether the interval holds 0 (or there is no interval)."""
        return not (self.low > 0 or self.high < 0)


@dataclass(frozen=True)
class Paired:
    """An evaluation against a baseline, paired by problem.

    accuracy: of avg@n. pass_at: k -> difference of the unbiased pass@k. tokens: of the mean tokens a response.
    better, worse, equal: problems whose avg@n is higher, lower, the same; the first two are the discordant ones.
    """

    accuracy: Difference
    pass_at: dict[int, Difference]
    tokens: Difference
    better: int
    worse: int
    equal: int

    @property
    def discordant(self) -> int:
        """Problems on which the two differ."""
        return self.better + self.worse

    def summary(self) -> dict[str, Any]:
        """Plain numbers: what evaluation.json holds."""
        return {
            "accuracy": _plain(self.accuracy),
            "pass": {str(k): _plain(d) for k, d in self.pass_at.items()},
            "tokens": _plain(self.tokens),
            "better": self.better,
            "worse": self.worse,
            "equal": self.equal,
        }


def compare(evaluation: Evaluation, baseline: Evaluation, pass_at: Sequence[int] | None = None) -> Paired:
    """Paired differences evaluation - baseline, with intervals over problems.

    Closed form: the mean of the differences of the problems ± Student's t times their standard error. By simulation
    (docs/evaluation.md) it covers 92 to 100% and is narrower than square-and-add of the two score intervals where few
    problems are right. Where no problem differs the spread says nothing; then the interval is the exact 95% bound on
    the share of problems that could differ, 1 - 0.025^(1/n). pass_at: which k (default: as `Evaluation.ks`, without
    1). Raises ValueError naming what differs when problems or settings are not the same.
    """
    check_comparable(evaluation, baseline)
    ks = [k for k in evaluation.ks(pass_at) if k > 1]
    accuracy = _shares(evaluation, baseline, 1, lambda rows: right(rows) / len(rows))
    pairs = _pairs(evaluation, baseline, 1, lambda rows: right(rows) / len(rows))
    better, worse = sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)
    lengths = [_mean_tokens(evaluation), _mean_tokens(baseline)]
    return Paired(
        accuracy=accuracy,
        pass_at={k: _shares(evaluation, baseline, k, _pass(k)) for k in ks},
        tokens=_difference([(a, lengths[1][problem]) for problem, a in lengths[0].items()]),
        better=better,
        worse=worse,
        equal=len(pairs) - better - worse,
    )


def average(parts: Sequence[Difference]) -> Difference:
    """Plain mean of the differences of independent sets (`metrics.estimate_average`)."""
    found = estimate_average([Estimate(d.difference, d.low, d.high, d.problems) for d in parts])
    means = [math.fsum(values) / len(parts) for values in zip(*((d.value, d.baseline) for d in parts), strict=True)]
    return Difference(means[0], means[1], found.value, found.low, found.high, found.problems)


def check_comparable(evaluation: Evaluation, baseline: Evaluation) -> None:
    """ValueError naming the first problem, or the settings, in which two evaluations differ."""
    here, there = ({rows[0].problem: rows[0] for rows in e.by_problem} for e in (evaluation, baseline))
    alone, missing = ([p for p in a if p not in b] for a, b in ((here, there), (there, here)))
    if alone or missing:
        example = f"{alone[0]!r} is not in the baseline" if alone else f"{missing[0]!r} is in the baseline only"
        raise ValueError(
            f"other problems than the baseline: {len(here)} against {len(there)}, of which "
            f"{len(here) - len(alone)} are in both; {example}. Evaluate both on the same data, with the same seed"
        )
    for name, row in here.items():
        for field in ("prompt", "gold"):
            if getattr(row, field) != getattr(there[name], field):
                raise ValueError(
                    f"problem {name!r} has another {field} in the baseline; evaluate both with the same data"
                )
    check_settings(
        {**evaluation.settings, "samples": evaluation.samples}, {**baseline.settings, "samples": baseline.samples}
    )


def check_settings(new: Mapping[str, Any], old: Mapping[str, Any]) -> None:
    """ValueError naming what differs between the settings of an evaluation and of its baseline."""
    differing = [
        f"{key} is {new[key]!r}, in the baseline {old[key]!r}"
        for key in COMPARED
        if key in new and key in old and new[key] != old[key]
    ]
    if differing:
        text = "; ".join(differing)
        raise ValueError(f"other settings than the baseline: {text}. Evaluate both with the same settings")


def _pass(k: int) -> Callable[[list[Row]], float]:
    return lambda rows: pass_at_k(len(rows), right(rows), k)


def _pairs(
    evaluation: Evaluation, baseline: Evaluation, k: int, value: Callable[[list[Row]], float]
) -> list[tuple[float, float]]:
    """(value, baseline) of the problems with at least k judged rows in both."""
    there = {rows[0].problem: rows for rows in baseline.with_samples(k, "pass@")}
    mine = [rows for rows in evaluation.with_samples(k, "pass@") if rows[0].problem in there]
    return [(value(rows), value(there[rows[0].problem])) for rows in mine]


def _shares(evaluation: Evaluation, baseline: Evaluation, k: int, value: Callable[[list[Row]], float]) -> Difference:
    return of_shares(_pairs(evaluation, baseline, k, value))


def of_shares(pairs: Sequence[tuple[float, float]]) -> Difference:
    """The difference of (value, baseline) pairs of shares, one a problem, with the interval of `compare`."""
    found = _difference(pairs)
    if not pairs or any(a != b for a, b in pairs):
        return replace(found, low=max(found.low, -1.0), high=min(found.high, 1.0))  # in this order NaN stays
    bound = 1 - 0.025 ** (1 / len(pairs))
    return Difference(found.value, found.baseline, 0.0, -bound, bound, len(pairs))


def _mean_tokens(evaluation: Evaluation) -> dict[str, float]:
    return {rows[0].problem: sum(row.tokens for row in rows) / len(rows) for rows in evaluation.by_problem}


def _difference(pairs: Sequence[tuple[float, float]]) -> Difference:
    found = estimate_mean([a - b for a, b in pairs])
    means = [estimate_mean([pair[side] for pair in pairs]).value for side in (0, 1)]
    return Difference(means[0], means[1], found.value, found.low, found.high, found.problems)


def _plain(difference: Difference) -> dict[str, Any]:
    return {**asdict(difference), "within_noise": difference.within_noise}
