"""Why does a run not learn? Named checks on a log, each with evidence, threshold and remedy.

A check is a function of a `View` of the log, in the file of its theme; `diagnose` runs all of them.
"""

from __future__ import annotations

from importlib import import_module

from upside.analysis.doctor.checks import CHECKS, Check, DoctorError, Level
from upside.analysis.doctor.diagnosis import Diagnosis, diagnose

THEMES = ("groups", "rewards", "heldout", "lengths", "optimisation", "estimator")
for theme in THEMES:  # fills CHECKS
    import_module(f"{__name__}.{theme}")

__all__ = ["CHECKS", "THEMES", "Check", "Diagnosis", "DoctorError", "Level", "diagnose"]
