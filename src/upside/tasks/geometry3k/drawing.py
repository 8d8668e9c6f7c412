"""A `Diagram` as a picture: lines, circles, right-angle squares, ticks, arrows, and every text where it covers least.

Texts are set in Pillow's own font, so the pixels may differ between versions of Pillow; the digest of the picture does
not, it is that of the diagram.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.Image import Image

    from upside.tasks.geometry3k.statements import Diagram, Fact

Point = tuple[float, float]

LONGEST, MARGIN = 320, 44
"""Pixels of the diagram's longer side, and around it."""
LETTER, VALUE = 17, 15
"""Font sizes of points and of values."""
ARC, SQUARE = 17, 10
"""Radius of an angle's arc, side of a right angle's square."""


def picture_of(diagram: Diagram) -> Image:
    """RGB, at most LONGEST + 2 MARGIN pixels a side."""
    return _Sheet(diagram).drawn()


class _Sheet:
    """One picture in the making. `at`: name -> pixel position."""

    def __init__(self, diagram: Diagram) -> None:
        from PIL import Image, ImageDraw, ImageFont

        self.diagram = diagram
        corners = [*diagram.at.values()]
        for centre, radius in diagram.circles:
            x, y = diagram.at[centre]
            corners += [(x - radius, y - radius), (x + radius, y + radius)]
        left, top = (min(each) for each in zip(*corners, strict=True))
        right, bottom = (max(each) for each in zip(*corners, strict=True))
        self.scale = LONGEST / max(right - left, bottom - top, 1.0)
        self.at = {
            name: (MARGIN + (x - left) * self.scale, MARGIN + (y - top) * self.scale) for name, (x, y) in diagram.points
        }
        size = tuple(round(2 * MARGIN + span * self.scale) for span in (right - left, bottom - top))
        self.image = Image.new("L", size, 255)
        self.draw = ImageDraw.Draw(self.image)
        self.fonts = {points: ImageFont.load_default(size=points) for points in (LETTER, VALUE)}
        self.middle = tuple(sum(each) / len(self.at) for each in zip(*self.at.values(), strict=True))

    def drawn(self) -> Image:
        for line in self.diagram.lines:
            points = [self.at[name] for name in self.through(*line)]
            self.draw.line(points, fill=0, width=2)
        for centre, radius in self.diagram.circles:
            (x, y), r = self.at[centre], radius * self.scale
            self.draw.ellipse((x - r, y - r, x + r, y + r), outline=0, width=2)
            self.draw.ellipse((x - 2, y - 2, x + 2, y + 2), fill=0)
        self.marks()
        values = {"length": self.length, "measure": self.measure, "arc": self.arc}
        for fact in sorted(self.diagram.facts, key=lambda fact: fact.kind):
            if fact.kind in values:
                values[fact.kind](fact)
        for name, (x, y) in self.at.items():
            if not name.startswith("point_"):
                self.letter(name, x, y)
        return self.image.convert("RGB")

    def through(self, a: str, b: str) -> list[str]:
        """The ends of a line and the points said to lie on it, in order: drawn through them, its parts coincide."""
        start, end = self.at[a], self.at[b]
        on = {f.names[0] for f in self.of("on_line") if {a, b} == set(f.names[1:])}
        inside = [name for name in on - {a, b} if math.dist(self.at[name], start) < math.dist(start, end)]
        return [a, *sorted(inside, key=lambda name: math.dist(self.at[name], start)), b]

    # ---- marks --------------------------------------------------------------------------------------------------

    def marks(self) -> None:
        """Right angles, and ticks, arcs and arrows: one for the first set of equals, two for the second, …"""
        for fact in self.of("right"):
            self.right_angle([self.at[name] for name in fact.names])
        for ticks, lines in enumerate(_sets((f.names[:2], f.names[2:]) for f in self.of("same_length")), start=1):
            for a, b in lines:
                self.across(self.at[a], self.at[b], ticks, 0.5, slant=0)
        for ticks, lines in enumerate(_sets((f.names[:2], f.names[2:]) for f in self.of("parallel")), start=1):
            for a, b in lines:
                self.across(self.at[a], self.at[b], ticks, 0.6, slant=5)
        for arcs, angles in enumerate(_sets((f.names[:3], f.names[3:]) for f in self.of("same_angle")), start=1):
            for a, b, c in angles:
                for i in range(arcs):
                    self.angle_arc(self.at[a], self.at[b], self.at[c], ARC + 5 * i)

    def of(self, kind: str) -> list[Fact]:
        return [fact for fact in self.diagram.facts if fact.kind == kind]

    def right_angle(self, ends: Sequence[Point]) -> None:
        from upside.tasks.geometry3k.statements import crossing

        meet = crossing(*ends)
        if meet is None:
            return
        u, v = (_towards(meet, max(pair, key=lambda p: math.dist(meet, p))) for pair in (ends[:2], ends[2:]))
        one, two = _along(meet, u, SQUARE), _along(meet, v, SQUARE)
        self.draw.line([one, _along(one, v, SQUARE), two], fill=0, width=1)

    def across(self, a: Point, b: Point, count: int, where: float, slant: float) -> None:
        """Ticks across the line at a share `where` of it, arrow heads with a slant, whichever end comes first."""
        u = _towards(a, b)
        if _dot(u, (1, 0.6)) < 0:
            a, b, u = b, a, (-u[0], -u[1])
        for i in range(count):
            tip = _along(a, u, where * math.dist(a, b) + 5 * (i - (count - 1) / 2))
            back = _along(tip, u, -slant)
            for side in (-6, 6):
                self.draw.line((*_along(back, (-u[1], u[0]), side), *tip), fill=0, width=1 if slant == 0 else 2)

    def angle_arc(self, a: Point, b: Point, c: Point, radius: float) -> None:
        """From ray b-a to ray b-c, the way round that is under 180 degrees."""
        start, end = (math.degrees(math.atan2(p[1] - b[1], p[0] - b[0])) for p in (a, c))
        if (end - start) % 360 > 180:
            start, end = end, start
        x, y = b
        self.draw.arc((x - radius, y - radius, x + radius, y + radius), start, end, fill=0)

    # ---- texts --------------------------------------------------------------------------------------------------

    def length(self, fact: Fact) -> None:
        a, b = (self.at[name] for name in fact.names)
        u = _towards(a, b)
        normal = (-u[1], u[0])  # away from the middle of the figure
        if _dot(normal, (a[0] - self.middle[0], a[1] - self.middle[1])) < 0:
            normal = (u[1], -u[0])
        if not self.plain_side(fact):
            a, b = _along(a, normal, 24), _along(b, normal, 24)
            self.draw.line((*a, *b), fill=128, width=1)
            for end in (a, b):
                self.draw.line((*_along(end, normal, -4), *_along(end, normal, 4)), fill=128, width=1)
        width, height = self.extent(fact.text, VALUE)
        near = abs(normal[0]) * width / 2 + abs(normal[1]) * height / 2 + 4
        places = [
            _along(_along(a, u, share * math.dist(a, b)), normal, side * (near + more))
            for side in (1, -1)
            for more in (0, 4)
            for share in (0.5, 0.42, 0.58, 0.35, 0.65, 0.27, 0.73)
        ]
        self.write(fact.text, VALUE, places)

    def plain_side(self, fact: Fact) -> bool:
        """Whether the two points are the ends of a drawn line with no other point between."""
        from upside.tasks.geometry3k.statements import off_line

        a, b = (self.at[name] for name in fact.names)
        for name, p in self.at.items():
            inside = math.dist(p, a) + math.dist(p, b) < 1.01 * math.dist(a, b) + 2
            if name not in fact.names and inside and min(math.dist(p, a), math.dist(p, b)) > 10:
                return False
        lines = [(self.at[c], self.at[d]) for c, d in self.diagram.lines]
        return any(off_line(a, *ends) + off_line(b, *ends) < 8 for ends in lines)

    def measure(self, fact: Fact) -> None:
        a, b, c = (self.at[name] for name in fact.names)
        u, v = _towards(b, a), _towards(b, c)
        way = u[0] + v[0], u[1] + v[1]
        way = _towards((0, 0), way) if math.hypot(*way) > 0.05 else (-u[1], u[0])
        half = max(math.acos(max(-1.0, min(1.0, _dot(u, v)))) / 2, 0.1)
        if fact.text.endswith("°"):
            self.angle_arc(a, b, c, ARC)
        width, height = self.extent(fact.text, VALUE)
        reach = abs(way[0]) * width / 2 + abs(way[1]) * height / 2 + 6
        clear = min(height / 2 / math.sin(half), 60) if half < 1.2 else 0
        first = max(reach + 8, clear)
        turns = (0.0, 0.25 * half, -0.25 * half)
        places = [_along(b, _turned(way, turn), first + more) for more in (0, 5, 10, 16, 24, 34) for turn in turns]
        self.write(fact.text, VALUE, places)

    def arc(self, fact: Fact) -> None:
        """Outside the circle through both ends (or inside), at the middle of the arc or through its third point."""
        for centre, radius in self.diagram.circles:
            o, r = self.at[centre], radius * self.scale
            if all(abs(math.dist(self.at[name], o) - r) < 0.15 * r for name in fact.names):
                ends = [_towards(o, self.at[name]) for name in fact.names]
                way = (
                    ends[1] if len(ends) == 3 else _towards((0, 0), (ends[0][0] + ends[1][0], ends[0][1] + ends[1][1]))
                )
                out = [_along(o, _turned(way, turn), r + more) for more in (16, 22, -16) for turn in (0, 0.15, -0.15)]
                self.write(fact.text, VALUE, out)
                return

    def letter(self, name: str, x: float, y: float) -> None:
        away = math.atan2(y - self.middle[1], x - self.middle[0])
        turns = sorted((i * math.pi / 6 for i in range(12)), key=lambda t: 1 - math.cos(t - away))
        places = [(x + r * math.cos(t), y + r * math.sin(t)) for r in (14, 18) for t in turns]
        self.write(name, LETTER, places)

    def extent(self, text: str, points: int) -> Point:
        return self.fonts[points].getlength(_shown(text)), float(points)

    def write(self, text: str, points: int, places: Sequence[Point]) -> None:
        """The text, centred at the first of the places among those that cover the least of what is drawn."""
        width, height = self.extent(text, points)
        x, y = min(places, key=lambda place: self.covered(place, width, height) + 0.01 * places.index(place))
        x = min(max(x, width / 2 + 1), self.image.width - width / 2 - 1)
        y = min(max(y, height / 2 + 1), self.image.height - height / 2 - 1)
        left, top = x - width / 2, y - height / 2
        font: Any = self.fonts[points]
        for part, root in _parts(text):
            if root:  # the font has no root sign
                end = left + 9 + font.getlength(part)
                sign = [(left, y + 1), (left + 3, y + height / 2), (left + 7, top - 1), (end, top - 1)]
                self.draw.line(sign, fill=0, width=1)
                left += 9
            self.draw.text((left, y), part, fill=0, font=font, anchor="lm")
            left += font.getlength(part)

    def covered(self, place: Point, width: float, height: float) -> int:
        """Dark pixels under a text of that extent, those outside the picture included."""
        x, y = place
        left, top, right, bottom = x - width / 2 - 1, y - height / 2 - 1, x + width / 2 + 1, y + height / 2 + 1
        outside = left < 0 or top < 0 or right > self.image.width or bottom > self.image.height
        dark = self.image.crop((round(left), round(top), round(right), round(bottom))).histogram()[:200]
        return int(sum(dark)) + (1000 if outside else 0)


def _sets(pairs: Iterable[tuple[Sequence[str], Sequence[str]]]) -> list[list[tuple[str, ...]]]:
    """Sets of things said to be alike, pair by pair."""
    found: list[list[tuple[str, ...]]] = []
    for pair in pairs:
        new = [tuple(each) for each in pair]
        touched = [group for group in found if any(each in group for each in new)]
        found = [group for group in found if group not in touched]
        found.append(list(dict.fromkeys([each for group in touched for each in group] + new)))
    return found


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """(text, whether it stands under a root)."""
    for i, part in enumerate(re.split(r"√\(([^()]*)\)", text)):
        if part:
            yield part, i % 2 == 1


def _shown(text: str) -> str:
    """As wide as what is drawn."""
    return re.sub(r"√\(([^()]*)\)", r"W\1", text)


def _towards(a: Point, b: Point) -> Point:
    length = math.dist(a, b) or 1.0
    return (b[0] - a[0]) / length, (b[1] - a[1]) / length


def _along(p: Point, u: Point, distance: float) -> Point:
    return p[0] + u[0] * distance, p[1] + u[1] * distance


def _turned(u: Point, angle: float) -> Point:
    c, s = math.cos(angle), math.sin(angle)
    return c * u[0] - s * u[1], s * u[0] + c * u[1]


def _dot(u: Point, v: Point) -> float:
    return u[0] * v[0] + u[1] * v[1]
