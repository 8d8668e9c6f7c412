"""What a check is, and the register of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from upside.analysis.doctor.view import View

Level = Literal["ok", "warn", "fail", "unknown"]
LEVELS: tuple[Level, ...] = ("ok", "unknown", "warn", "fail")
"""From the mildest to the worst."""


class DoctorError(ValueError):
    """A check or a threshold that does not exist, or a log that no check can read; the message says what there is."""


class Missing(Exception):
    """What a check reads is not in the log, or too little of it: its finding is `unknown`."""


@dataclass(frozen=True)
class Verdict:
    """What a check found. evidence: one sentence with the numbers. steps: where it was seen, may be empty."""

    level: Level
    evidence: str
    steps: Sequence[int] = ()


@dataclass(frozen=True)
class Check:
    """A named check. limits: its thresholds by name; rule: the sentence that says them and why they are so, with
    the limits in braces; looks_at: the fields of a log; remedy: what to change."""

    name: str
    title: str
    looks_at: str
    rule: str
    remedy: str
    limits: Mapping[str, float]
    run: Callable[[View, Any], Verdict]

    def finding(self, view: View, changed: Mapping[str, float] | None = None) -> dict[str, Any]:
        """The finding as `blocks.Findings` wants it. changed: limits to use instead of the check's own."""
        limits = {**self.limits, **(changed or {})}
        try:
            verdict = self.run(view, SimpleNamespace(**limits))
        except Missing as missing:
            verdict = Verdict("unknown", str(missing))
        return {
            "check": self.name,
            "level": verdict.level,
            "title": self.title,
            "evidence": verdict.evidence,
            "threshold": self.rule.format(**limits),
            "remedy": self.remedy,
            "steps": [int(step) for step in verdict.steps],
        }


CHECKS: dict[str, Check] = {}


def check(
    *, title: str, looks_at: str, rule: str, remedy: str, **limits: float
) -> Callable[[Callable[[View, Any], Verdict]], Callable[[View, Any], Verdict]]:
    """Register a function `(view, limits) -> Verdict` under its own name."""

    def register(function: Callable[[View, Any], Verdict]) -> Callable[[View, Any], Verdict]:
        name = function.__name__
        CHECKS[name] = Check(name, title, looks_at, rule, remedy, limits, function)
        return function

    return register


def graded(value: float, limit: Any) -> Level:
    """fail from `limit.fail` on, warn from `limit.warn` on, else ok; an absent limit is never reached."""
    for level in ("fail", "warn"):
        if value >= getattr(limit, level, float("inf")):
            return level
    return "ok"


def graded_below(value: float, limit: Any) -> Level:
    """As `graded`, of a value that is bad when small."""
    for level in ("fail", "warn"):
        if value <= getattr(limit, level, float("-inf")):
            return level
    return "ok"


def worse(*levels: Level) -> Level:
    """The worst of several levels."""
    return max(levels, key=LEVELS.index)
