"""What an analysis has to show, as plain data: tables, charts and sentences, in sections.

`analysis.show` renders them on the console, as Markdown and as a picture, `analysis.page` as a web page. Text may
come from a model: every renderer shows it as text, never as markup. `save` and `load` keep them in a file, so that a
page can show what was computed elsewhere.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

Kind = Literal["text", "number", "percent", "signed", "points", "seconds"]
"""How a column's numbers are written: number 12.3, percent 12.3% (of 0.123), signed +12.3, points +1.2 (of 0.012, a
difference of shares in percentage points), seconds 12.3 s."""


@dataclass(frozen=True)
class Interval:
    """An estimate with the ends of its interval, None where there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None


Cell = str | float | int | bool | None | Interval


@dataclass(frozen=True)
class Column:
    """A table's column. help: one sentence that says what it is, shown on demand."""

    name: str
    kind: Kind = "text"
    digits: int = 1
    help: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells, one per column; None is shown as –. note: a sentence under it."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


@dataclass(frozen=True)
class Series:
    """Points of a chart, x ascending in a line chart; y None where not measured; low, high: a band or error bars.
    key: the same key has the same colour in every chart of a page."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None
    key: str = ""


@dataclass(frozen=True)
class Chart:
    """One pair of axes. kind: lines over x, or points (a Pareto picture, each series one or more named points)."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    kind: Literal["lines", "points"] = "lines"
    percent: bool = False  # the y axis as percent of 1
    note: str = ""
    log_x: bool = False
    smooth: int = 0  # an odd number: over the points, drawn faint, the mean of so many around each


@dataclass(frozen=True)
class Facts:
    """Names and values, said once: what was run, on what; a third text is small print.

    headline: how many of the first are shown large."""

    items: Sequence[Sequence[str]]
    headline: int = 0


@dataclass(frozen=True)
class Prose:
    """Sentences, one paragraph each. emphasis: the one thing a reader must not miss."""

    paragraphs: Sequence[str]
    emphasis: bool = False


@dataclass(frozen=True)
class Findings:
    """Results of named checks: each a dict of check, level (ok, warn, fail, unknown), title, evidence, threshold,
    remedy, and steps (where it was seen, may be empty)."""

    findings: Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Groups:
    """The explanation browser: groups of responses with each one's value after every stage.

    source: which run. columns: the numbers of a response, in order. groups: each a dict of step, group, prompt,
    sentence (why, for the whole group), tags (for the filters: dead, too_easy, too_hard, mixed, flipped, …), responses,
    each a dict of text, values (by column) and why (a sentence), and where there are any, pictures (their files).
    meanings: what a tag says, by tag. pictures: by file, the picture as a PNG in base64.
    """

    source: str
    columns: Sequence[Column]
    groups: Sequence[dict[str, Any]]
    total: int = 0  # groups of the log, of which these were chosen
    note: str = ""
    meanings: Mapping[str, str] = field(default_factory=dict)
    pictures: Mapping[str, str] = field(default_factory=dict)


Block = Table | Chart | Facts | Prose | Findings | Groups


@dataclass(frozen=True)
class Section:
    """A part of a page with its heading. id: for links. folded: closed at first, and not in the list of contents."""

    id: str
    title: str
    blocks: Sequence[Block] = field(default_factory=tuple)
    intro: str = ""
    folded: bool = False


_GROUP = {"step", "group", "prompt", "sentence", "tags", "responses"}
_RESPONSE = {"text", "values", "why"}

SECTIONS_FILE = "sections.json"
"""What `upside compare` and `upside microscope` leave in their output folder for `upside report`."""
_TYPES: dict[str, type] = {
    t.__name__: t for t in (Interval, Column, Table, Series, Chart, Facts, Prose, Findings, Groups, Section)
}


def save(sections: Sequence[Section], path: Path) -> None:
    """Write sections as JSON; NaN and infinity become null, NumPy's scalars plain ones."""
    path.write_text(json.dumps([_plain(section) for section in sections], allow_nan=False) + "\n", encoding="utf-8")


def load(path: Path) -> list[Section]:
    """What `save` wrote. ValueError where the file holds something else."""
    try:
        found = [_built(item) for item in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path}: no sections of an Upside analysis ({error})") from None
    wrong = [number for number, section in enumerate(found, 1) if not _fits(section, Section)]
    if wrong:
        raise ValueError(f"{path}: no sections of an Upside analysis (section {wrong[0]} is none; was it edited?)")
    return found


_hints = cache(get_type_hints)


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is what the annotation says, all the way down; rows as wide as their table, lists of a series
    of one length."""
    origin, inside = get_origin(kind), get_args(kind)
    if kind is Any or origin is Literal:
        return kind is Any or value in inside
    if origin is UnionType:
        return any(_fits(value, each) for each in inside)
    if origin is Sequence:
        return isinstance(value, list | tuple) and all(_fits(item, inside[0]) for item in value)
    if origin in (dict, Mapping):
        return isinstance(value, dict) and all(_fits(item, inside[1]) for item in value.values())
    if not isinstance(value, int | float if kind is float else kind):
        return False
    hints = _hints(kind) if kind in _TYPES.values() else {}
    return all(_fits(getattr(value, name), hint) for name, hint in hints.items()) and _even(value)


def _even(block: Any) -> bool:
    if isinstance(block, Table):
        return all(len(row) == len(block.columns) for row in block.rows)
    if isinstance(block, Series):
        return all(len(part) == len(block.x) for part in (block.y, block.low, block.high) if part is not None)
    if isinstance(block, Groups):
        return all(
            set(group) >= _GROUP and all(set(r) >= _RESPONSE for r in group["responses"]) for group in block.groups
        )
    return True


def _plain(value: Any) -> Any:
    if type(value).__name__ in _TYPES:
        fields = {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"block": type(value).__name__, **fields}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value


def _built(value: Any) -> Any:
    if isinstance(value, list):
        return [_built(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {key: _built(item) for key, item in value.items() if key != "block"}
    return _TYPES[value["block"]](**fields) if "block" in value else fields
