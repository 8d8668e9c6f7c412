"""Blocks on the console, as Markdown, and as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from upside.analysis.blocks import (
    Block,
    Cell,
    Chart,
    Column,
    Facts,
    Findings,
    Groups,
    Interval,
    Kind,
    Prose,
    Section,
    Table,
)

MISSING = "–"
LEVELS = {"ok": "green", "warn": "yellow", "fail": "red", "unknown": "dim"}


def number(value: float | int | bool | None, kind: Kind = "number", digits: int = 1) -> str:
    """One number as its column's kind has it; NumPy's too."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if kind in ("percent", "points"):
        value = 100 * value
    sign = "+" if kind in ("signed", "points") else ""
    text = f"{value:{sign},d}" if isinstance(value, int) else f"{value:{sign}z,.{digits}f}"
    return text + {"percent": "%", "seconds": " s"}.get(kind, "")


def cell_text(cell: Cell, column: Column) -> str:
    """A cell as text; an interval as `value (low to high)`."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Interval):
        value = number(cell.value, column.kind, column.digits)
        if cell.value is None or cell.low is None or cell.high is None:
            return value
        low, high = (number(end, column.kind, column.digits).rstrip("% s") for end in (cell.low, cell.high))
        return f"{value} ({low} to {high})"
    return number(cell, column.kind, column.digits)


def print_sections(sections: Sequence[Section], out: Any = None) -> None:
    """On the console with rich: tables and sentences; a chart is left to the picture and the page."""
    from rich.console import Console

    out = out or Console(highlight=False, soft_wrap=False)
    for section in sections:
        out.print(_text(section.title, "bold"))
        if section.intro:
            out.print(_text(section.intro))
        for block in section.blocks:
            _print(block, out)
        out.print()


def _print(block: Block, out: Any) -> None:
    from rich.table import Table as RichTable

    if isinstance(block, Table):
        table = RichTable(title=_text(block.title), title_justify="left")
        for column in block.columns:
            justify: Literal["left", "right"] = "left" if column.kind == "text" else "right"
            table.add_column(_text(column.name), justify=justify, overflow="fold")  # cut short, a figure is lost
        for row in block.rows:
            cells = [cell_text(cell, column) for cell, column in zip(row, block.columns, strict=True)]
            table.add_row(*map(_text, cells))
        out.print(table)
        if block.note:
            out.print(_text(block.note, "dim"))
    elif isinstance(block, Facts):
        table = RichTable.grid(padding=(0, 2))
        for name, *values in block.items:
            table.add_row(_text(name, "dim"), _text("  ".join(values)))
        out.print(table)
    elif isinstance(block, Prose):
        for paragraph in block.paragraphs:
            out.print(_text(paragraph, "bold" if block.emphasis else ""))
    elif isinstance(block, Findings):
        for finding in block.findings:
            _print_finding(finding, out)


def _print_finding(finding: dict[str, Any], out: Any) -> None:
    from rich.table import Table as RichTable
    from rich.text import Text

    level = str(finding["level"])
    check, evidence = _text(f"{finding['check']}: ", "bold"), _text(str(finding["evidence"]))
    grid = RichTable.grid(padding=(0, 1))
    grid.add_column(width=7)
    grid.add_row(Text(level, LEVELS[level]), Text.assemble(check, evidence))
    if level in ("warn", "fail"):
        grid.add_row("", _text(f"threshold: {finding['threshold']}", "dim"))
        grid.add_row("", _text(f"remedy: {finding['remedy']}"))
    out.print(grid)


def _text(text: str, style: str = "") -> Any:
    """Text for rich that is never read as markup, without control characters (a response may hold escapes)."""
    from rich.text import Text

    return Text("".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text), style=style)


def markdown(table: Table) -> str:
    """The table in Markdown, a line a row; markup in a cell is text."""
    plain = lambda cell: " ".join(cell.split()).replace("|", "\\|").replace("<", "&lt;")  # noqa: E731
    line = lambda cells: "| " + " | ".join(map(plain, cells)) + " |"  # noqa: E731
    rows = [[cell_text(cell, column) for cell, column in zip(row, table.columns, strict=True)] for row in table.rows]
    marks = ["---" if column.kind == "text" else "---:" for column in table.columns]
    return "\n".join([line([column.name for column in table.columns]), line(marks), *map(line, rows)]) + "\n"


def picture(charts: Sequence[Chart], path: Path | str, title: str = "", columns: int = 3) -> None:
    """All charts in one PNG, `columns` beside each other, a series' colour by its key."""
    from matplotlib.figure import Figure

    rows = math.ceil(len(charts) / columns)
    figure = Figure(figsize=(4.6 * min(columns, len(charts)), 3.4 * rows + 0.4), layout="constrained")
    axes = list(figure.subplots(rows, min(columns, len(charts)), squeeze=False).flat)
    keys = list(dict.fromkeys(series.key or series.name for chart in charts for series in chart.series))
    for axis, chart in zip(axes, charts, strict=False):
        _draw(axis, chart, {key: f"C{index % 10}" for index, key in enumerate(keys)})
    for axis in axes[len(charts) :]:
        axis.axis("off")
    named = {text: mark for axis in axes for mark, text in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    figure.suptitle(_label(title), fontsize=11, x=0.01, ha="left")
    figure.savefig(path, dpi=110)


def _draw(axis: Any, chart: Chart, colours: dict[str, str]) -> None:
    from matplotlib.ticker import PercentFormatter

    nan = float("nan")
    for series in chart.series:
        colour = colours[series.key or series.name]
        y = [nan if value is None else value for value in series.y]
        mark = "o" if chart.kind == "points" else ""
        line = "" if chart.kind == "points" else "-"
        axis.plot(series.x, y, f"{mark}{line}", color=colour, linewidth=1.6, markersize=5, label=_label(series.name))
        if series.low is not None and series.high is not None:
            low, high = ([nan if v is None else v for v in end] for end in (series.low, series.high))
            if chart.kind == "lines":
                axis.fill_between(series.x, low, high, color=colour, alpha=0.18, linewidth=0)
            else:
                axis.vlines(series.x, low, high, color=colour, linewidth=1)
    axis.set_title(_label(chart.title), fontsize=10, loc="left")
    axis.set_xlabel(_label(chart.x_label), fontsize=9)
    axis.set_ylabel(_label(chart.y_label), fontsize=9)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    if chart.log_x:
        axis.set_xscale("log", base=2)
    if chart.percent:
        axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def _label(text: str) -> str:
    """Text in which a dollar is no formula, and which a legend does not leave out for its underscore."""
    return ("\N{ZERO WIDTH SPACE}" if text.startswith("_") else "") + text.replace("$", "\\$")


__all__ = ["Groups", "cell_text", "markdown", "number", "picture", "print_sections"]
