"""Sections as one HTML file that needs nothing else: the data, the styles and the scripts are inside."""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

from upside.analysis.blocks import (
    Block,
    Cell,
    Chart,
    Column,
    Facts,
    Findings,
    Groups,
    Interval,
    Prose,
    Section,
    Series,
    Table,
)
from upside.analysis.page.text import clean, packed, script_json
from upside.analysis.show import cell_text, number

STYLES = ("vendor/uPlot.min.css", "assets/page.css", "assets/blocks.css", "assets/browser.css")
SCRIPTS = ("vendor/uPlot.iife.min.js", "assets/page.js", "assets/charts.js", "assets/browser.js")
COLOURS = 8  # of assets/page.css
LEVELS = {"fail": "✕", "warn": "!", "unknown": "?", "ok": "✓"}
ORDER = list(LEVELS)


def render(title: str, sections: Sequence[Section]) -> str:
    """The page."""
    styles = Styles(sections)
    charts: list[dict[str, Any]] = []
    groups: list[str] = []
    shown = [_section(section, styles, charts, groups) for section in _named_apart(sections)]
    script = "(() => {\n" + "\n".join(map(_asset, SCRIPTS)) + "\n})();"
    return _environment().get_template("page.html").render(
        title=title,
        sections=shown,
        styles="\n".join(map(_asset, STYLES)),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        charts=script_json(charts),
        groups=groups,
    )  # fmt: skip


class Styles:
    """How each series is drawn: a colour by its key, in order of appearance, a dash by its name among those of the
    key, the same on the whole page."""

    def __init__(self, sections: Sequence[Section]) -> None:
        charts = [block for section in sections for block in section.blocks if isinstance(block, Chart)]
        self.names: dict[str, list[str]] = {}  # of each key
        for series in (series for chart in charts for series in chart.series):
            names = self.names.setdefault(series.key or series.name, [])
            if series.name not in names:
                names.append(series.name)
        places = {key: index for index, key in enumerate(self.names)}
        self.colours = {name: places[key] % COLOURS for key, names in self.names.items() for name in (*names, key)}
        self.rounds = {key: index // COLOURS for key, index in places.items()}

    def of(self, series: Series) -> dict[str, int]:
        """colour: its number in assets/page.css; dash: in assets/charts.js."""
        key = series.key or series.name
        return {"colour": self.colours[key], "dash": self.rounds[key] + self.names[key].index(series.name)}


def _named_apart(sections: Sequence[Section]) -> list[Section]:
    """The sections, a number behind an id that was there before."""
    seen: dict[str, int] = {}
    found = []
    for section in sections:
        count = seen[section.id] = seen.get(section.id, 0) + 1
        id = section.id if count == 1 else f"{section.id}-{count}"
        found.append(replace(section, id=id))
    return found


def _section(section: Section, styles: Styles, charts: list[dict[str, Any]], groups: list[str]) -> dict[str, Any]:
    """What the template reads; charts and groups get what is drawn by script, in order."""
    runs = itertools.groupby(section.blocks, key=lambda block: type(block))
    return {
        "id": section.id,
        "title": section.title,
        "intro": section.intro,
        "folded": section.folded,
        "blocks": [
            each for kind, blocks in runs for each in _blocks(kind, list(blocks), styles, charts, groups)
        ],
    }  # fmt: skip


def _blocks(
    kind: type, blocks: list[Any], styles: Styles, charts: list[dict[str, Any]], groups: list[str]
) -> list[dict[str, Any]]:
    """Neighbours of one kind: charts stand side by side, groups share one browser, the rest is one below the other."""
    if kind is Chart:
        first = len(charts)
        charts.extend(_chart(chart, styles) for chart in blocks)
        figures = [{"index": first + i, **_figure(chart)} for i, chart in enumerate(blocks)]
        return [{"kind": "charts", "figures": figures}]
    if kind is Groups:
        first = len(groups)
        groups.extend(packed(_groups(block)) for block in blocks)
        return [{"kind": "groups", "indices": range(first, len(groups)), "sources": [b.source for b in blocks]}]
    shown = [_one(block, styles) for block in blocks]
    return [{"kind": "tables", "tables": shown}] if kind is Table else shown


def _one(block: Block, styles: Styles) -> dict[str, Any]:
    if isinstance(block, Table):
        return {"table": block, "rows": [_row(row, block.columns, styles) for row in block.rows]}
    if isinstance(block, Facts):
        return {"kind": "facts", "headline": block.items[: block.headline], "items": block.items[block.headline :]}
    if isinstance(block, Prose):
        return {"kind": "prose", "prose": block}
    if isinstance(block, Findings):
        found = sorted(block.findings, key=lambda finding: ORDER.index(_level(finding)))
        blank = dict.fromkeys(("check", "title", "evidence", "threshold", "remedy", "steps"), "")
        shown = [{**blank, **f, "level": _level(f), "mark": LEVELS[_level(f)]} for f in found]
        return {"kind": "findings", "loud": [f for f in shown if f["level"] in ("fail", "warn")],
                "quiet": [f for f in shown if f["level"] not in ("fail", "warn")]}  # fmt: skip
    raise TypeError(f"no way to show a {type(block).__name__}")


def _level(finding: dict[str, Any]) -> str:
    return finding["level"] if finding.get("level") in LEVELS else "unknown"


def _row(row: Sequence[Cell], columns: Sequence[Column], styles: Styles) -> list[dict[str, Any]]:
    """The cells; the first that names a series has its colour."""
    cells = [_cell(cell, column) for cell, column in zip(row, columns, strict=True)]
    named = next((i for i, cell in enumerate(row) if isinstance(cell, str) and cell in styles.colours), None)
    if named is not None:
        cells[named]["colour"] = styles.colours[str(row[named])]
    return cells


def _cell(cell: Cell, column: Column) -> dict[str, Any]:
    """Text, the interval apart from the value, and what to sort by."""
    found: dict[str, Any] = {"text": cell_text(cell, column), "sort": None, "interval": "", "colour": None}
    if isinstance(cell, Interval):
        text = cell_text(cell, column)
        found |= {"text": number(cell.value, column.kind, column.digits), "sort": cell.value}
        found["interval"] = text[len(found["text"]) :].strip()
    elif cell is not None and not isinstance(cell, str):
        found["sort"] = float(cell)
    return found


def _chart(chart: Chart, styles: Styles) -> dict[str, Any]:
    """What assets/charts.js draws."""
    series = [
        {"name": one.name, "x": one.x, "y": one.y, "low": one.low, "high": one.high, **styles.of(one)}
        for one in chart.series
    ]
    named = {name: getattr(chart, name) for name in ("kind", "x_label", "y_label", "percent", "log_x", "smooth")}
    return {**named, "title": chart.title, "series": series}


def _figure(chart: Chart) -> dict[str, Any]:
    """The words of a chart, and its text alternative: each series' first, last, lowest and highest value."""
    column = Column("", "percent" if chart.percent else "number", 1 if chart.percent else 4)
    rows = []
    for one in chart.series:
        known = [(x, y) for x, y in zip(one.x, one.y, strict=True) if y is not None]
        if known:
            values = [known[0][1], known[-1][1], min(y for _, y in known), max(y for _, y in known)]
            span = f"{known[0][0]:g}" if len(known) == 1 else f"{known[0][0]:g} to {known[-1][0]:g}"
            rows.append([one.name, span, *(cell_text(value, column) for value in values)])
    said = "; ".join(f"{row[0]}: {row[2]} to {row[3]}" for row in rows[:6])
    label = f"Chart: {chart.title}, {chart.y_label} by {chart.x_label}. {said}"
    return {"chart": chart, "rows": rows, "label": label}


def _groups(block: Groups) -> dict[str, Any]:
    """What assets/browser.js shows; a response is [text, why, values in the columns' order], a group names its pictures
    by their number."""
    names = [column.name for column in block.columns]
    files = list(dict.fromkeys(file for group in block.groups for file in group.get("pictures", ())))
    number = {file: index for index, file in enumerate(files)}
    return {
        "source": block.source,
        "note": block.note,
        "total": block.total or len(block.groups),
        "meanings": dict(block.meanings),
        "pictures": [[file, block.pictures.get(file)] for file in files],
        "columns": [[c.name, c.kind, c.digits, c.help] for c in block.columns],
        "groups": [
            [
                group["step"], str(group["group"]), group["prompt"], group["sentence"], list(group["tags"]),
                [[r["text"], r["why"], [r["values"].get(name) for name in names]] for r in group["responses"]],
                [number[file] for file in group.get("pictures", ())],
            ]
            for group in block.groups
        ],
    }  # fmt: skip


@cache
def _asset(name: str) -> str:
    return (resources.files("upside.analysis.page") / name).read_text(encoding="utf-8")


@cache
def _environment() -> Any:
    import jinja2

    found = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined,
        finalize=lambda value: clean(value) if type(value) is str else value,
        loader=jinja2.FunctionLoader(lambda name: _asset(f"assets/{name}")),
    )  # fmt: skip
    return found
