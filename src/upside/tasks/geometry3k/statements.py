"""InterGPS's statements about a diagram, as a `Diagram` that can be drawn, and whether the drawing says enough.

`read_diagram` takes one annotation: where the points are, which lines and circles there are, and statements such as
``Equals(LengthOf(Line(T, R)), x+21)``. `missing` names what keeps the drawing from standing in for the original:

| reason | what |
|---|---|
| `no_position` | a point that is used has no position |
| `statement` | a statement that is not drawn: an area, an equation between other things, a slip of notation |
| `circle` | a circle through no point with a position: its size is unknown |
| `side` | an angle between lines that are not in the drawing, mostly a slip of notation |
| `apart` | a point said to lie on a line or circle, or lines said to meet at right angles, that do not |
| `named` | the problem names a point, a numbered angle or a place that the drawing lacks |
| `asked` | the letter asked for stands neither in the drawing nor in the rest of the problem |
| `shaded` | the problem asks about a shaded part |
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from upside.tasks.geometry3k.drawing import picture_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from PIL.Image import Image

Point = tuple[float, float]
Names = tuple[str, ...]
Pair = tuple[str, str]

FAR = 0.04
"""How far off its line a point may be, in diagonals of the diagram."""

LONGEST = 24
"""Characters of a value that are still written."""

_NAME = r"[A-Za-z]'?|point_\d+"
_VALUE = (
    r"(?:(?:LengthOf|MeasureOf)\(\(?([a-z]|angle\d+)\)?\)|MeasureOf\(Angle\((\d+)\)\)|([^()]*(?:\([^()]*\)[^()]*)?))"
)
_LINE, _ANGLE = rf"Line\(({_NAME}),({_NAME})\)", rf"Angle\(({_NAME}),({_NAME}),({_NAME})\)"
_ARC = rf"Arc\(({_NAME}),({_NAME})(?:,({_NAME}))?\)"
_FORMS = {
    "on_line": rf"PointLiesOnLine\(({_NAME}),{_LINE}\)",
    "on_circle": rf"PointLiesOnCircle\(({_NAME}),Circle\(({_NAME})(?:,[\w.]+)?\)\)",
    "right": rf"Perpendicular\({_LINE},{_LINE}\)",
    "parallel": rf"Parallel\({_LINE},{_LINE}\)",
    "same_length": rf"Equals\(LengthOf\({_LINE}\),LengthOf\({_LINE}\)\)",
    "same_angle": rf"Equals\(MeasureOf\({_ANGLE}\),MeasureOf\({_ANGLE}\)\)",
    "length": rf"Equals\(LengthOf\({_LINE}\),{_VALUE}\)",
    "measure": rf"Equals\(MeasureOf\({_ANGLE}\),{_VALUE}\)",
    "arc": rf"Equals\(MeasureOf\({_ARC}\),{_VALUE}\)",
}
_PATTERNS = {kind: re.compile(form) for kind, form in _FORMS.items()}
_WRITABLE = re.compile(r"[\w.+\-*/=()^]+")
_TERMS = {"Pythagorean", "Triple", "Theorem", "Perpendicular", "Bisector"}
_SIMPLE = re.compile(r"\\(?:frac\{([\w.]+)\}\{([\w.]+)\}|sqrt\{?([\w.]+)\}?)")


@dataclass(frozen=True)
class Fact:
    """One statement that is drawn. kind: a key of `_FORMS`; names: its points; text: what is written, "" for a mark."""

    kind: str
    names: Names
    text: str = ""

    def lines(self) -> list[Pair]:
        """Those that a mark stands on."""
        if self.kind in ("right", "parallel", "same_length"):
            return [(self.names[0], self.names[1]), (self.names[2], self.names[3])]
        return []

    def sides(self) -> list[Pair]:
        """Those of an angle."""
        if self.kind in ("measure", "same_angle"):
            corners = [self.names[i : i + 3] for i in range(0, len(self.names), 3)]
            return [(middle, end) for first, middle, last in corners for end in (first, last)]
        return []


@dataclass(frozen=True)
class Diagram:
    """points: (name, position), y downwards. lines: between two points. circles: (centre, radius)."""

    points: tuple[tuple[str, Point], ...]
    lines: tuple[Pair, ...]
    circles: tuple[tuple[str, float], ...]
    facts: tuple[Fact, ...]

    @cached_property
    def at(self) -> dict[str, Point]:
        return dict(self.points)

    def draw(self) -> Image:
        return picture_of(self)


def read_diagram(annotation: Mapping[str, Any]) -> tuple[Diagram, list[str]]:
    """(what can be drawn, reasons why it may not be all). Raises ValueError for an annotation of another shape."""
    places = annotation.get("point_positions")
    statements = annotation.get("diagram_logic_forms", annotation.get("diagram_logic_form"))
    if not isinstance(places, Mapping) or not isinstance(statements, list):
        raise ValueError("the annotation lacks point_positions or diagram_logic_forms; take InterGPS's file as it is")
    try:
        points = {str(name): (float(x), float(y)) for name, (x, y) in places.items() if (x, y) != (-1, -1)}
    except (TypeError, ValueError, OverflowError):
        raise ValueError("point_positions must hold two numbers for each point") from None
    if not all(map(math.isfinite, (each for point in points.values() for each in point))):
        raise ValueError("point_positions must hold finite numbers")
    reasons: list[str] = []
    facts: list[Fact] = []
    for statement in dict.fromkeys("".join(str(each).split()) for each in statements):
        fact = _fact(statement)
        if fact is not None:
            facts.append(fact)
        elif statement:
            reasons.append("statement")
    lines = [tuple(re.findall(_NAME, str(line))) for line in annotation.get("line_instances") or () if line]
    if any(len(line) != 2 for line in lines):
        reasons.append("statement")
    used = {name for line in lines for name in line} | {name for fact in facts for name in fact.names}
    if not points or not used <= set(points):
        reasons.append("no_position")
    kept = [fact for fact in facts if set(fact.names) <= set(points)]
    centres = {str(centre) for centre in annotation.get("circle_instances") or () if centre}
    circles, sized = _circles(kept, points, centres | {fact.names[1] for fact in kept if fact.kind == "on_circle"})
    if not sized:
        reasons.append("circle")
    drawn = [(line[0], line[1]) for line in lines if len(line) == 2 and set(line) <= set(points)]
    diagram = Diagram(tuple(sorted(points.items())), tuple(_with_said(drawn, kept, points)), circles, tuple(kept))
    if not all(_on_a_line(side, diagram.lines, points) for fact in kept for side in fact.sides()):
        reasons.append("side")
    if any(_apart(fact, diagram) for fact in kept):
        reasons.append("apart")
    return diagram, list(dict.fromkeys(reasons))


def _fact(statement: str) -> Fact | None:
    for kind, pattern in _PATTERNS.items():
        match = pattern.fullmatch(statement)
        if match is None:
            continue
        if kind not in ("length", "measure", "arc"):
            return Fact(kind, match.groups())
        *names, symbol, number, value = match.groups()
        text = _written(value) if value else (symbol or number).replace("angle", "")
        degrees = "°" if kind != "length" and value and text else ""
        if degrees and not text.replace(".", "").isdigit() and len(text) > 1:
            text = f"({text})"
        return Fact(kind, tuple(name for name in names if name), text + degrees) if text else None
    return None


def _written(value: str) -> str:
    """LaTeX as it is written in the picture: roots stay ``√(2)``, fractions become ``(3/4)``; "" for the rest."""
    text = _SIMPLE.sub(lambda m: f"√({m[3]})" if m[3] else f"({m[1]}/{m[2]})", value)
    return text if len(text) <= LONGEST and _WRITABLE.fullmatch(text.replace("√", "")) else ""


def _with_said(lines: Sequence[Pair], facts: Sequence[Fact], points: Mapping[str, Point]) -> list[Pair]:
    """The lines, and those that a mark stands on though the annotation lists neither them nor a longer one."""
    found = list(lines)
    for fact in facts:
        found += [line for line in fact.lines() if not _on_a_line(line, found, points)]
    return found


def _on_a_line(pair: Pair, lines: Sequence[Pair], points: Mapping[str, Point]) -> bool:
    far = FAR * _diagonal(list(points.values()))
    a, b = (points[name] for name in pair)
    return any(off_line(a, points[c], points[d]) < far and off_line(b, points[c], points[d]) < far for c, d in lines)


def _circles(
    facts: Sequence[Fact], points: Mapping[str, Point], centres: set[str]
) -> tuple[tuple[tuple[str, float], ...], bool]:
    """((centre, radius), …) and whether each circle has one: the mean distance of the points on it."""
    found = []
    for centre in sorted(centres & set(points)):
        on = [fact.names[0] for fact in facts if fact.kind == "on_circle" and fact.names[1] == centre]
        if on:
            found.append((centre, sum(math.dist(points[name], points[centre]) for name in on) / len(on)))
    return tuple(found), len(found) == len(centres)


# ---- whether the drawing says enough --------------------------------------------------------------------------------


def missing(diagram: Diagram, problem: str) -> list[str]:
    """Reasons why the drawing and the problem's text do not make a whole problem."""
    reasons = []
    plain = " ".join(re.sub(r"\\[A-Za-z]+", " ", problem).replace("$", " ").split())
    named = set(re.findall(r"(?<![A-Za-z])[A-Z](?![A-Za-z])", re.sub(r"\bA (?=[a-z]{2})", "", plain)))
    lines = {name for pair in re.findall(r"(?<!\w)([a-z]) \\(?:parallel|perp) ([a-z])(?!\w)", problem) for name in pair}
    written = {fact.text for fact in diagram.facts}
    numbers = set(re.findall(r"\\angle\s*(\d+)", problem))
    places = set(re.findall(r"(?<=[a-z,\d] )[A-Z][a-z]{2,}", plain)) - _TERMS
    if places or not named <= set(diagram.at) or not (numbers | lines) <= written:
        reasons.append("named")
    asked = re.search(r"(?:[Ff]ind|value of) ([a-ln-z])(?![A-Za-z])", plain)
    if asked:
        rest = " ".join([plain[: asked.start()], plain[asked.end() :], *written])
        if not re.search(rf"(?<![A-Za-z]){asked[1]}(?![A-Za-z])|\d{asked[1]}(?![A-Za-z])", rest):
            reasons.append("asked")
    if "shaded" in problem.lower():
        reasons.append("shaded")
    return reasons


def _apart(fact: Fact, diagram: Diagram) -> bool:
    at = diagram.at
    far = FAR * _diagonal(list(at.values()))
    if fact.kind == "on_line":
        return off_line(at[fact.names[0]], at[fact.names[1]], at[fact.names[2]]) > far
    if fact.kind == "on_circle":
        radius = dict(diagram.circles)[fact.names[1]]
        return abs(math.dist(at[fact.names[0]], at[fact.names[1]]) - radius) > far
    if fact.kind == "right":
        meet = crossing(*(at[name] for name in fact.names))
        ends = (fact.names[:2], fact.names[2:])
        return meet is None or any(_beyond(meet, at[a], at[b]) > 2 * far for a, b in ends)
    return False


def _diagonal(points: Sequence[Point]) -> float:
    xs, ys = zip(*points, strict=True)
    return math.hypot(max(xs) - min(xs), max(ys) - min(ys)) or 1.0


def off_line(point: Point, start: Point, end: Point) -> float:
    """Distance of a point from the line through two others."""
    length = math.dist(start, end)
    if not length:
        return math.dist(point, start)
    return abs((end[0] - start[0]) * (point[1] - start[1]) - (end[1] - start[1]) * (point[0] - start[0])) / length


def _beyond(point: Point, start: Point, end: Point) -> float:
    """How far a point on a line lies beyond the part between two others."""
    return max(0.0, (math.dist(point, start) + math.dist(point, end) - math.dist(start, end)) / 2)


def crossing(a: Point, b: Point, c: Point, d: Point) -> Point | None:
    """Where the lines a-b and c-d meet; None for parallel ones."""
    ux, uy, vx, vy = b[0] - a[0], b[1] - a[1], d[0] - c[0], d[1] - c[1]
    cross = ux * vy - uy * vx
    if abs(cross) < 1e-9:
        return None
    t = ((c[0] - a[0]) * vy - (c[1] - a[1]) * vx) / cross
    return a[0] + t * ux, a[1] + t * uy
