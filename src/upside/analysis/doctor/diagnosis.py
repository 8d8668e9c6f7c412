"""A log through every check."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from upside.analysis.blocks import Findings, Prose, Section
from upside.analysis.doctor.checks import CHECKS, LEVELS, DoctorError, Level
from upside.analysis.doctor.view import View
from upside.analysis.logs import Log


@dataclass(frozen=True)
class Diagnosis:
    """findings: one dict a check (check, level, title, evidence, threshold, remedy, steps), the worst first.
    fail_on: the level from which `exit_code` is 1."""

    source: str
    findings: list[dict[str, Any]]
    fail_on: Level = "fail"

    def at(self, level: Level) -> list[dict[str, Any]]:
        """The findings of one level."""
        return [finding for finding in self.findings if finding["level"] == level]

    @property
    def exit_code(self) -> int:
        """1 where a finding stands at or above `fail_on`, else 0."""
        return int(any(LEVELS.index(finding["level"]) >= LEVELS.index(self.fail_on) for finding in self.findings))

    @property
    def summary(self) -> str:
        """How many findings there are of each level, and which checks had nothing to read."""
        fail, warn, ok, unknown = (self.at(level) for level in ("fail", "warn", "ok", "unknown"))
        text = f"{len(fail)} fail, {len(warn)} warn, {len(ok)} ok, {len(unknown)} unknown"
        if not unknown:
            return text
        return f"{text} (the log lacks what they read: {', '.join(finding['check'] for finding in unknown)})"

    def sections(self, everything: bool = True) -> list[Section]:
        """For the console and the page. everything: also the checks that found nothing."""
        shown = self.findings if everything else [*self.at("fail"), *self.at("warn")]
        return [
            Section(
                id="doctor",
                title="Diagnosis",
                intro=f"{len(self.findings)} named checks on {self.source}. {self.summary}.",
                blocks=[Findings(shown)] if shown else [Prose(["No check found anything wrong."])],
            )
        ]


def diagnose(
    log: Log,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    limits: Mapping[str, float] | None = None,
    fail_on: Level = "fail",
) -> Diagnosis:
    """Every check on the log.

    only, skip: names of checks. limits: {"CHECK.LIMIT": value} instead of the check's own. Raises DoctorError for a
    name that does not exist, and for a log with neither rollouts nor metrics.
    """
    changed = _by_check(limits or {})
    for name in (*only, *skip):
        _known(name)
    if not len(log) and not log.metrics:
        raise DoctorError(f"{log.source}: neither rollouts nor metrics, so there is nothing to check")
    view = View(log)
    wanted = [name for name in CHECKS if (not only or name in only) and name not in skip]
    findings = [CHECKS[name].finding(view, changed.get(name)) for name in wanted]
    order: tuple[Level, ...] = ("fail", "warn", "ok", "unknown")
    return Diagnosis(log.source, sorted(findings, key=lambda finding: order.index(finding["level"])), fail_on)


def _by_check(limits: Mapping[str, float]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for key, value in limits.items():
        name, _, limit = key.partition(".")
        _known(name)
        own = CHECKS[name].limits
        if limit not in own:
            raise DoctorError(f"{key}: {name} has no threshold {limit!r}; it has {', '.join(own) or 'none'}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise DoctorError(f"{key}: {value!r} is no number")
        found.setdefault(name, {})[limit] = float(value)
    return found


def _known(name: str) -> None:
    if name not in CHECKS:
        close = difflib.get_close_matches(name, CHECKS, n=2, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(CHECKS)}"
        raise DoctorError(f"there is no check {name!r}; {hint}")
