"""Why does a run not learn? Named checks on a log, each with evidence, threshold and remedy.

A check is a function of a `View` of the log, in the file of its theme; `diagnose` runs all of them.
"""

from __future__ import annotations

from upside.analysis.doctor import estimator, groups, heldout, lengths, optimisation, rewards  # fill the register
from upside.analysis.doctor.checks import CHECKS, Check, DoctorError, Level
from upside.analysis.doctor.diagnosis import Diagnosis, diagnose

__all__ = [
    "CHECKS",
    "Check",
    "Diagnosis",
    "DoctorError",
    "Level",
    "diagnose",
    "estimator",
    "groups",
    "heldout",
    "lengths",
    "optimisation",
    "rewards",
]
