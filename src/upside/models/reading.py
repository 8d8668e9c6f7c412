"""Reading before reasoning: pages of scattered digits, circles and squares, named patch by patch.

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

CIRCLE, SQUARE, NOTHING = 10, 11, 12
"""Marks after the ten digits."""

ACROSS = 4
"""Picture tokens a side; each sees SIDE / ACROSS pixels."""

ATTEMPTS = 14
"""Marks tried on a page; one without room is left out."""


def page(rng: random.Random) -> tuple[Image, list[int]]:
    """A picture and the mark at each of its 16 tokens, row by row: a digit, CIRCLE, SQUARE or NOTHING. On most pages a
    rectangle is in the way."""
    canvas, taken, marks = Canvas(), [], [NOTHING] * PICTURE_TOKENS
    if rng.random() < 0.8:
        width, height = rng.randint(8, 46), rng.randint(8, 46)
        left, top = rng.randint(0, SIDE - 1 - width), rng.randint(0, SIDE - 1 - height)
        taken.append((left, top, left + width, top + height))
        canvas.box(taken[0], fill=rng.choice((WHITE, *FILLS)), outline=rng.choice(INKS))
    shapes = rng.random() < 0.4
    for _ in range(ATTEMPTS):
        x, y, radius = rng.randint(5, SIDE - 6), rng.randint(5, SIDE - 6), rng.randint(4, 5)
        cell = y * ACROSS // SIDE * ACROSS + x * ACROSS // SIDE
        box = (x - radius, y - radius, x + radius, y + radius) if shapes else label_box("0", x, y)
        if marks[cell] != NOTHING or any(_touch(box, other) for other in taken):
            continue
        taken.append(box)
        marks[cell] = rng.choice((CIRCLE, SQUARE)) if shapes else rng.randrange(10)
        if marks[cell] == CIRCLE:
            canvas.disc(x, y, radius, rng.choice(INKS))
        elif marks[cell] == SQUARE:
            canvas.box((x - radius + 1, y - radius + 1, x + radius - 1, y + radius - 1), fill=rng.choice(INKS))
        else:
            canvas.label(str(marks[cell]), x, y)
    return canvas.picture(SIDE), marks


def _touch(one: Box, other: Box) -> bool:
    """Whether less than a pixel is between two boxes."""
    return all(one[i] - 1 <= other[i + 2] and other[i] <= one[i + 2] + 1 for i in (0, 1))


class Reader(torch.nn.Linear):
    """Names the mark of each picture token."""

    def __init__(self, width: int) -> None:
        super().__init__(width, NOTHING + 1)

    def loss(self, model: Idefics3ForConditionalGeneration, rng: random.Random, pictures: int) -> torch.Tensor:
        """Mean cross-entropy over the tokens of that many fresh pages."""
        pages = [page(rng) for _ in range(pictures)]
        seen = model.get_image_features(as_pixels([picture for picture, _ in pages])).pooler_output
        marks = torch.tensor([marks for _, marks in pages])
        return torch.nn.functional.cross_entropy(self(torch.cat(list(seen))), marks.flatten())


def as_pixels(pictures: list[Image]) -> torch.Tensor:
    """(N, 1, 3, side, side) fp32 from -1 to 1, what the processor makes of pictures of its own size."""
    stacked = torch.from_numpy(np.stack([np.asarray(picture) for picture in pictures]))
    return stacked.permute(0, 3, 1, 2).float().div_(127.5).sub_(1.0)[:, None].contiguous()
