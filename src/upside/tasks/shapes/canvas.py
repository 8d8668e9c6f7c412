"""What figures are drawn on: 64 x 64 pixels, hard edges, whole coordinates, own digits.

Everything is made of one-pixel lines, filled boxes, rows of pixels and bitmap digits, so that the pixels depend on this
package alone and not on a font or on the version of Pillow.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 64
"""Pixels a side, before `Canvas.picture` enlarges."""

Blind = Literal["figure", "digits"]
BLIND: tuple[str, ...] = get_args(Blind)
Colour = tuple[int, int, int]
Box = tuple[int, int, int, int]
"""Left, top, right, bottom; all inside."""

WHITE, BLACK, GREY, PALE = (255, 255, 255), (0, 0, 0), (150, 150, 150), (205, 205, 205)
FILLS: tuple[Colour, ...] = (
    (120, 170, 250), (250, 160, 120), (130, 210, 130), (245, 210, 90), (200, 160, 240), (120, 215, 220),
)  # fmt: skip
INKS: tuple[Colour, ...] = ((0, 0, 0), (150, 20, 20), (20, 40, 150), (0, 100, 40), (110, 20, 120))

GLYPHS = {
    "0": (".###.", "#...#", "#...#", "#...#", "#...#", "#...#", ".###."),
    "1": ("..#..", ".##..", "..#..", "..#..", "..#..", "..#..", ".###."),
    "2": (".###.", "#...#", "....#", "..##.", ".#...", "#....", "#####"),
    "3": (".###.", "#...#", "....#", "..##.", "....#", "#...#", ".###."),
    "4": ("...#.", "..##.", ".#.#.", "#..#.", "#####", "...#.", "...#."),
    "5": ("#####", "#....", "####.", "....#", "....#", "#...#", ".###."),
    "6": (".###.", "#....", "#....", "####.", "#...#", "#...#", ".###."),
    "7": ("#####", "....#", "...#.", "..#..", "..#..", "..#..", "..#.."),
    "8": (".###.", "#...#", "#...#", ".###.", "#...#", "#...#", ".###."),
    "9": (".###.", "#...#", "#...#", ".####", "....#", "....#", ".###."),
}
HEIGHT, ADVANCE = 7, 6
"""Of a digit, and from one to the next."""


def label_box(text: str, x: int, y: int) -> Box:
    """Where a number centred at (x, y) is printed."""
    width = ADVANCE * len(text) - 1
    left, top = x - width // 2, y - HEIGHT // 2
    return left, top, left + width - 1, top + HEIGHT - 1


class Canvas:
    """A white picture to draw on. digits: whether numbers are printed."""

    def __init__(self, digits: bool = True) -> None:
        from PIL import Image, ImageDraw

        self.image = Image.new("RGB", (SIDE, SIDE), WHITE)
        self._draw = ImageDraw.Draw(self.image)
        self._digits = digits

    def line(self, x0: int, y0: int, x1: int, y1: int, colour: Colour) -> None:
        """One pixel wide, both ends drawn."""
        self._draw.line((x0, y0, x1, y1), fill=colour, width=1)

    def box(self, box: Box, fill: Colour | None = None, outline: Colour | None = None) -> None:
        self._draw.rectangle(box, fill=fill, outline=outline)

    def disc(self, x: int, y: int, radius: int, fill: Colour) -> None:
        for dy in range(-radius, radius + 1):
            half = isqrt(radius * radius + radius - dy * dy)
            self.line(x - half, y + dy, x + half, y + dy, fill)

    def label(self, text: str, x: int, y: int) -> None:
        """A number, centred at (x, y)."""
        if self._digits:
            left, top, _, _ = label_box(text, x, y)
            self.image.paste(BLACK, (left, top), _mask(text))

    def picture(self, size: int) -> Image:
        """The picture at `size` pixels a side, a multiple of SIDE; each pixel becomes a square."""
        return self.image if size == SIDE else self.image.resize((size, size), resample=0)


@lru_cache(maxsize=1024)
def _mask(text: str) -> Image:
    from PIL import Image

    mask = Image.new("1", (ADVANCE * len(text) - 1, HEIGHT))
    for i, digit in enumerate(text):
        for y, row in enumerate(GLYPHS[digit]):
            for x, dot in enumerate(row):
                mask.putpixel((ADVANCE * i + x, y), int(dot == "#"))
    return mask
