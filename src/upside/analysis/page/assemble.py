"""Which sections a page has, from the paths it is asked to show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def report(
    paths: Sequence[str | Path],
    output: str | Path = "report.html",
    *,
    title: str | None = None,
    estimators: Sequence[str] = (),
    baseline: str | Path | None = None,
) -> Path:
    """Write one HTML page about runs and other logs, comparisons and microscopes; gives its path back."""
    raise NotImplementedError
