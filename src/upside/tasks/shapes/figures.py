"""How each kind of figure is drawn. A `Shape` says which and with what numbers; its variant chooses all that does not
change the answer: place, colours, turns, where labels stand.

| kind | numbers | figure |
|---|---|---|
| `grid` | across, down | cells of a ruled grid, coloured |
| `scaled` | across, down | rectangle with written sides, 4 pixels a unit |
| `free` | across, down | rectangle with written sides, of any other shape |
| `angle` | two written, the third | triangle to scale |
| `angle_free` | two written, the third | triangle of any other shape |
| `count` | circles, squares | circles among squares |
| `corner` | width, height; width, height | two rectangles, the narrower on or under the wider one |
| `frame` | width, height; of the hole | rectangle with a rectangular hole |
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from upside.tasks.shapes.canvas import BLACK, FILLS, GREY, INKS, PALE, SIDE, WHITE, Box, Canvas, label_box

if TYPE_CHECKING:
    from PIL.Image import Image

CELLS = 7
"""Of the grid, a side."""
UNIT = 4
"""Pixels of one unit of a rectangle drawn to scale."""
PLACES = 4
"""Rows and columns of the places where circles and squares stand."""

Point = tuple[float, float]
Place = tuple[Any, ...]


@dataclass(frozen=True)
class Shape:
    """One figure, a pure function of its fields. size: pixels a side. blind: "figure" leaves all out, "digits" the
    numbers printed."""

    kind: str
    numbers: tuple[int, ...]
    variant: int
    size: int = SIDE
    blind: str | None = None

    def rng(self) -> random.Random:
        return random.Random(f"{self.kind}/{self.numbers}/{self.variant}")

    def draw(self) -> Image:
        """RGB, `size` pixels a side."""
        canvas = Canvas(digits=self.blind != "digits")
        if self.blind != "figure":
            rng = self.rng()
            layout, paint = KINDS[self.kind]
            paint(canvas, self.numbers, layout(self.numbers, rng), rng)
        return canvas.picture(self.size)

    def circles_by_row(self) -> list[int]:
        """Of a `count` figure: how many circles stand in each row of places, from the top."""
        circles = _places(self.numbers, self.rng())[: self.numbers[0]]
        return [sum(row == each for _, each in circles) for row in range(PLACES)]


# ---- rectangles -----------------------------------------------------------------------------------------------------


def _cells(numbers: Sequence[int], rng: random.Random) -> Place:
    """Column and row of the upper left cell."""
    return tuple(rng.randint(0, CELLS - n) for n in numbers)


def _two_sides(numbers: Sequence[int], rng: random.Random) -> Place:
    """Two choices, each even."""
    return rng.random() < 0.5, rng.random() < 0.5


def _grid(canvas: Canvas, numbers: Sequence[int], place: Place, rng: random.Random) -> None:
    across, down = numbers
    pitch, origin = 8, 4
    left, top = (origin + pitch * each for each in place)
    box = left, top, left + pitch * across, top + pitch * down
    canvas.box(box, fill=rng.choice(FILLS))
    end = origin + pitch * CELLS
    for at in range(origin, end + 1, pitch):
        canvas.line(at, origin, at, end, PALE)
        canvas.line(origin, at, end, at, PALE)
    canvas.box(box, outline=BLACK)


def _scaled(canvas: Canvas, numbers: Sequence[int], place: Place, rng: random.Random) -> None:
    _rectangle(canvas, numbers, place, (UNIT * numbers[0], UNIT * numbers[1]), rng)


def _free(canvas: Canvas, numbers: Sequence[int], place: Place, rng: random.Random) -> None:
    _rectangle(canvas, numbers, place, (rng.randint(14, 44), rng.randint(14, 44)), rng)


def _rectangle(
    canvas: Canvas, numbers: Sequence[int], place: Place, extent: tuple[int, int], rng: random.Random
) -> None:
    """A rectangle of that many pixels with one number above or below it and one beside it."""
    (before, below), (width, height) = place, extent
    left = rng.randint(*((10, 61 - width) if before else (2, 53 - width)))
    top = rng.randint(*((2, 51 - height) if below else (12, 61 - height)))
    box = left, top, left + width, top + height
    canvas.box(box, fill=rng.choice((WHITE, *FILLS)), outline=rng.choice(INKS))
    _beside(canvas, str(numbers[0]), box, "below" if below else "above", rng)
    _beside(canvas, str(numbers[1]), box, "left" if before else "right", rng)


def _beside(canvas: Canvas, text: str, box: Box, side: str, rng: random.Random) -> None:
    """A number at the middle of a side, outside, up to two pixels off it along the side."""
    left, top, right, bottom = box
    x, y = (left + right) // 2 + rng.randint(-2, 2), (top + bottom) // 2 + rng.randint(-2, 2)
    if side in ("above", "below"):
        y = top - 6 if side == "above" else bottom + 6
    else:
        x = left - 5 if side == "left" else right + 5
    canvas.label(text, x, y)


# ---- composite ------------------------------------------------------------------------------------------------------


def _corner(canvas: Canvas, numbers: Sequence[int], place: Place, rng: random.Random) -> None:
    """The wide rectangle and the narrow one on it, flush with one side; or all of it upside down."""
    width = rng.randint(30, 42)
    narrow = rng.randint(12, width - 12)
    high, low = rng.randint(13, 20), rng.randint(13, 20)  # of the narrow and of the wide one
    left = rng.randint(10, 53 - width)
    top = rng.randint(11, 52 - high - low)
    flip_x, flip_y = place
    turn = _mirror(flip_x, flip_y)
    wide_box = turn((left, top + high, left + width, top + high + low))
    narrow_box = turn((left, top, left + narrow, top + high))
    fill, ink = rng.choice((WHITE, *FILLS)), rng.choice(INKS)
    for box in (wide_box, narrow_box):
        canvas.box(box, fill=fill, outline=ink)
    seam = wide_box[3] if flip_y else wide_box[1]
    canvas.line(narrow_box[0] + 1, seam, narrow_box[2] - 1, seam, GREY)
    outer, inner = ("left", "right") if flip_x else ("right", "left")
    over, under = ("below", "above") if flip_y else ("above", "below")
    _beside(canvas, str(numbers[0]), wide_box, under, rng)
    _beside(canvas, str(numbers[1]), wide_box, outer, rng)
    _beside(canvas, str(numbers[2]), narrow_box, over, rng)
    _beside(canvas, str(numbers[3]), narrow_box, inner, rng)


def _mirror(flip_x: bool, flip_y: bool) -> Callable[[Box], Box]:
    last = SIDE - 1

    def turn(box: Box) -> Box:
        left, top, right, bottom = box
        if flip_x:
            left, right = last - right, last - left
        if flip_y:
            top, bottom = last - bottom, last - top
        return left, top, right, bottom

    return turn


def _frame(canvas: Canvas, numbers: Sequence[int], place: Place, rng: random.Random) -> None:
    """A coloured rectangle, its numbers outside, and a white hole, its numbers in it at the top and at the left."""
    width, height = rng.randint(38, 48), rng.randint(36, 46)
    inner_width, inner_height = rng.randint(22, width - 10), rng.randint(22, height - 10)
    before, below = place
    left = rng.randint(*((10, 61 - width) if before else (2, 53 - width)))
    top = rng.randint(*((2, 51 - height) if below else (12, 61 - height)))
    box = left, top, left + width, top + height
    x = left + rng.randint(5, width - inner_width - 5)
    y = top + rng.randint(5, height - inner_height - 5)
    ink = rng.choice(INKS)
    canvas.box(box, fill=rng.choice(FILLS), outline=ink)
    canvas.box((x, y, x + inner_width, y + inner_height), fill=WHITE, outline=ink)
    _beside(canvas, str(numbers[0]), box, "below" if below else "above", rng)
    _beside(canvas, str(numbers[1]), box, "left" if before else "right", rng)
    canvas.label(str(numbers[2]), x + inner_width // 2 + 2, y + 6)
    canvas.label(str(numbers[3]), x + 5, y + inner_height // 2 + 3)


# ---- triangles ------------------------------------------------------------------------------------------------------


def _turned(numbers: Sequence[int], rng: random.Random) -> Place:
    """Whether it is flipped, and by how many right angles it is turned, rounded down."""
    return rng.random() < 0.5, rng.randrange(4)


def _angle(canvas: Canvas, numbers: Sequence[int], place: Place, rng: random.Random) -> None:
    _triangle(canvas, numbers, place, (numbers[0], numbers[1]), rng)


def _angle_free(canvas: Canvas, numbers: Sequence[int], place: Place, rng: random.Random) -> None:
    first, second, third = (rng.randint(2, 7) for _ in range(3))
    whole = first + second + third
    _triangle(canvas, numbers, place, (180 * first // whole, 180 * second // whole), rng)


def _triangle(
    canvas: Canvas, numbers: Sequence[int], place: Place, angles: tuple[int, int], rng: random.Random
) -> None:
    """A triangle with those two drawn angles, beside which the first two numbers are written: at a turn, size and
    position where both stand clear of it."""
    texts = [str(numbers[0]), str(numbers[1])]
    while True:
        corners = _corners(angles, place, rng)
        labels = _outside(corners, texts)
        if labels is not None:
            break
    ink = rng.choice(INKS)
    for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
        canvas.line(x0, y0, x1, y1, ink)
    for text, (x, y) in zip(texts, labels, strict=True):
        canvas.label(text, x, y)


def _corners(angles: tuple[int, int], place: Place, rng: random.Random) -> list[tuple[int, int]]:
    """Whole coordinates of a triangle, the corners with the two angles first."""
    a, b = map(math.radians, angles)
    flipped, quarter = place
    reach = math.sin(b) / math.sin(a + b)
    points = [0j, 1 + 0j, complex(reach * math.cos(a), reach * math.sin(a))]
    if flipped:
        points = [p.conjugate() for p in points]
    longest = max(abs(points[i] - points[i - 1]) for i in range(3))
    turn = math.radians(90 * quarter + rng.randrange(90))
    scale = rng.randint(30, 46) / longest * complex(math.cos(turn), math.sin(turn))
    points = [p * scale for p in points]
    middle = sum(points) / 3
    shift = complex(rng.randint(24, 40), rng.randint(24, 40)) - middle
    return [(round((p + shift).real), round((p + shift).imag)) for p in points]


def _outside(corners: list[tuple[int, int]], texts: Sequence[str]) -> list[tuple[int, int]] | None:
    """Where each text stands, beyond its corner as seen from the middle; None where something is in the way."""
    if not all(2 <= each <= SIDE - 3 for corner in corners for each in corner):
        return None
    middle = sum(x for x, _ in corners) / 3, sum(y for _, y in corners) / 3
    taken = _edge_points(corners)
    found: list[tuple[int, int]] = []
    for (x, y), text in zip(corners, texts, strict=False):
        dx, dy = x - middle[0], y - middle[1]
        length = math.hypot(dx, dy)
        for distance in range(6, 15):
            place = round(x + dx / length * distance), round(y + dy / length * distance)
            left, top, right, bottom = label_box(text, *place)
            if not any(left - 2 <= px <= right + 2 and top - 2 <= py <= bottom + 2 for px, py in taken):
                break
        else:
            return None
        if left < 1 or top < 1 or right > SIDE - 2 or bottom > SIDE - 2:
            return None
        taken = [*taken, *((px, py) for px in range(left - 1, right + 2, 3) for py in range(top - 1, bottom + 2, 3))]
        found.append(place)
    return found


def _edge_points(corners: Sequence[tuple[int, int]]) -> list[Point]:
    """Points along the three sides, about two pixels apart."""
    points: list[Point] = []
    for (x0, y0), (x1, y1) in zip(corners, [*corners[1:], corners[0]], strict=True):
        steps = max(abs(x1 - x0), abs(y1 - y0)) // 2 + 1
        points += [(x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps) for i in range(steps)]
    return points


# ---- counting -------------------------------------------------------------------------------------------------------


def _places(numbers: Sequence[int], rng: random.Random) -> Place:
    """(column, row) of each circle, then of each square."""
    cells = [(column, row) for row in range(PLACES) for column in range(PLACES)]
    chosen = rng.sample(cells, sum(numbers))
    return *sorted(chosen[: numbers[0]]), *sorted(chosen[numbers[0] :])


def _count(canvas: Canvas, numbers: Sequence[int], place: Place, rng: random.Random) -> None:
    for i, (column, row) in enumerate(place):
        x, y = (10 + 14 * at + rng.randint(0, 2) for at in (column, row))
        radius, fill = rng.randint(4, 5), rng.choice((*INKS[1:], (220, 120, 0)))
        if i < numbers[0]:
            canvas.disc(x, y, radius, fill)
        else:
            canvas.box((x - radius + 1, y - radius + 1, x + radius - 1, y + radius - 1), fill=fill)


Layout = Callable[[Sequence[int], random.Random], Place]
Paint = Callable[[Canvas, Sequence[int], Place, random.Random], None]

KINDS: dict[str, tuple[Layout, Paint]] = {
    "grid": (_cells, _grid),
    "scaled": (_two_sides, _scaled),
    "free": (_two_sides, _free),
    "angle": (_turned, _angle),
    "angle_free": (_turned, _angle_free),
    "count": (_places, _count),
    "corner": (_two_sides, _corner),
    "frame": (_two_sides, _frame),
}
