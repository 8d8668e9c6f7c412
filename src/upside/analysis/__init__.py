"""Looking at runs: compare estimators, replay logs, explain advantages, diagnose, and one page that shows it all.

`logs` reads what any engine left; each analysis gives a result whose `sections()` are made of `blocks`; `show` puts
these on the console, into Markdown and into a picture, `page` into one HTML file.
"""

from __future__ import annotations

import importlib
from typing import Any

EXPORTS = {
    "compare": "upside.analysis.comparison",
    "diagnose": "upside.analysis.doctor",
    "explain_groups": "upside.analysis.explaining",
    "microscope": "upside.analysis.gradients",
    "read_log": "upside.analysis.logs",
    "replay": "upside.analysis.replays",
    "report": "upside.analysis.page",
}
"""name -> where it lives; imported when first used, since most of it needs more than torch."""

__all__ = [*EXPORTS]


def __getattr__(name: str) -> Any:
    if name not in EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(EXPORTS[name]), name)
