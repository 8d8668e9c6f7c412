"""Reading logged rollouts: run folders of Upside, TRL's completions, verl's dumps, any mapped table."""

from __future__ import annotations

from pathlib import Path

from upside.analysis.logs.log import COLUMNS, Log, LogError
from upside.analysis.logs.upside_runs import is_run, read_run


def read_log(path: str | Path) -> Log:
    """The log at a path. LogError when nothing there is known."""
    path = Path(path)
    if is_run(path):
        return read_run(path)
    raise LogError(f"{path}: no run folder of `upside train`")


__all__ = ["COLUMNS", "Log", "LogError", "is_run", "read_log", "read_run"]
