"""Runs, logs, comparisons and microscopes as one self-contained web page.

`upside report` on the command line. Nothing is loaded over the network, now or when the page is opened; what a model
wrote is shown as text. docs/report.md shows it.
"""

from __future__ import annotations

from upside.analysis.page.assemble import report

__all__ = ["report"]
