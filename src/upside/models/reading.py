"""Reading before reasoning: pages of scattered numbers, circles and squares, named patch by patch.

A small model that has to find out from worked solutions alone what a 5 is does not get there in an hour. So its eyes
are taught first: each of the 16 picture tokens has to say which mark has its centre there, if any. The pages show no
figure of any problem; the layer that names the marks is thrown away.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import torch

from upside.models.vision import PICTURE_TOKENS, SIDE
from upside.tasks.shapes.canvas import FILLS, INKS, WHITE, Box, Canvas, label_box

if TYPE_CHECKING:
    from PIL.Image import Image
    from transformers import Idefics3ForConditionalGeneration

CIRCLE, SQUARE, NOTHING = "circle", "square", ""
LENGTHS, ANGLES, SHAPES = tuple("0123456789"), tuple(map(str, range(20, 145, 5))), (CIRCLE, SQUARE)
"""What figures are written with, and what is counted in them."""

MARKS = (*LENGTHS, *ANGLES, *SHAPES, NOTHING)

ACROSS = 4
"""Picture tokens a side; each sees SIDE / ACROSS pixels."""

ATTEMPTS = 14
"""Marks tried on a page; one without room is left out."""


def page(rng: random.Random) -> tuple[Image, list[str]]:
    """A picture and the mark at each of its 16 tokens, row by row, one of MARKS. On most pages a rectangle is in the
    way."""
    canvas, taken, marks = Canvas(), [], [NOTHING] * PICTURE_TOKENS
    if rng.random() < 0.8:
        width, height = rng.randint(8, 46), rng.randint(8, 46)
        left, top = rng.randint(0, SIDE - 1 - width), rng.randint(0, SIDE - 1 - height)
        taken.append((left, top, left + width, top + height))
        canvas.box(taken[0], fill=rng.choice((WHITE, *FILLS)), outline=rng.choice(INKS))
    (kind,) = rng.choices((LENGTHS, ANGLES, SHAPES), weights=(3, 3, 4))
    for _ in range(ATTEMPTS):
        mark, x, y, radius = rng.choice(kind), rng.randint(5, SIDE - 6), rng.randint(5, SIDE - 6), rng.randint(4, 5)
        cell = y * ACROSS // SIDE * ACROSS + x * ACROSS // SIDE
        box = (x - radius, y - radius, x + radius, y + radius) if kind is SHAPES else label_box(mark, x, y)
        inside = box[0] >= 0 and box[2] < SIDE
        if marks[cell] != NOTHING or not inside or any(_touch(box, other) for other in taken):
            continue
        taken.append(box)
        marks[cell] = mark
        if mark == CIRCLE:
            canvas.disc(x, y, radius, rng.choice(INKS))
        elif mark == SQUARE:
            canvas.box((x - radius + 1, y - radius + 1, x + radius - 1, y + radius - 1), fill=rng.choice(INKS))
        else:
            canvas.label(mark, x, y)
    return canvas.picture(SIDE), marks


def _touch(one: Box, other: Box) -> bool:
    """Whether less than a pixel is between two boxes."""
    return all(one[i] - 1 <= other[i + 2] and other[i] <= one[i + 2] + 1 for i in (0, 1))


class Reader(torch.nn.Linear):
    """Names the mark of each picture token."""

    def __init__(self, width: int) -> None:
        super().__init__(width, len(MARKS))

    def loss(self, model: Idefics3ForConditionalGeneration, rng: random.Random, pictures: int) -> torch.Tensor:
        """Mean cross-entropy over the tokens of that many fresh pages."""
        pages = [page(rng) for _ in range(pictures)]
        seen = model.get_image_features(as_pixels([picture for picture, _ in pages])).pooler_output
        marks = torch.tensor([[MARKS.index(mark) for mark in marks] for _, marks in pages])
        return torch.nn.functional.cross_entropy(self(torch.cat(list(seen))), marks.flatten())


def as_pixels(pictures: list[Image]) -> torch.Tensor:
    """(N, 1, 3, side, side) fp32 from -1 to 1, what the processor makes of pictures of its own size."""
    stacked = torch.from_numpy(np.stack([np.asarray(picture) for picture in pictures]))
    return stacked.permute(0, 3, 1, 2).float().div_(127.5).sub_(1.0)[:, None].contiguous()
