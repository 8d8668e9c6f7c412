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
from upside.sentences import count

SYMPTOMS = (  # what a log shows whatever broke: a collapse, a limit that is too short, a reward that never pays
    "too_hard_groups", "dead_groups", "reward_spread", "equal_lengths", "concentrated_signal", "vanishing_advantages",
    "no_update",
)  # fmt: skip


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
        """How many findings there are of each level."""
        return ", ".join(f"{len(self.at(level))} {level}" for level in ("fail", "warn", "ok", "unknown"))

    def sections(self, everything: bool = True) -> list[Section]:
        """For the console and the page. everything: also the checks that found nothing."""
        shown = self.findings if everything else [*self.at("fail"), *self.at("warn")]
        unknown = "" if everything else ", ".join(finding["check"] for finding in self.at("unknown"))
        rest = f" (too few steps, or not in the log: {unknown})" if unknown else ""
        return [
            Section(
                id="doctor",
                title="Diagnosis",
                intro=f"{count(len(self.findings), 'named check')} on {self.source}. {self.summary}{rest}.",
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
    if not wanted:
        raise DoctorError("only, skip: no check is left")
    findings = [CHECKS[name].finding(view, changed.get(name)) for name in wanted]
    return Diagnosis(log.source, sorted(findings, key=_place), fail_on)


def _place(finding: Mapping[str, Any]) -> tuple[int, int]:
    """The worst first; of one level what follows from other faults last."""
    order: tuple[Level, ...] = ("fail", "warn", "ok", "unknown")
    check = finding["check"]
    return order.index(finding["level"]), SYMPTOMS.index(check) + 1 if check in SYMPTOMS else 0


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
