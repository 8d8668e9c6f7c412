"""Pages from which the vision-language model learns to read."""

import random

import numpy as np
import torch

from upside.models import vision
from upside.models.reading import MARKS, NOTHING, SHAPES, Reader, as_pixels, page
from upside.tasks.shapes import Shapes


def test_pixels_are_those_of_the_processor() -> None:
    pictures = [p.images[0].load() for p in Shapes().problems("train", 6)]
    made = vision.processor().image_processor([[picture] for picture in pictures], return_tensors="pt")
    torch.testing.assert_close(as_pixels(pictures), made["pixel_values"], rtol=0, atol=1e-6)


def test_pages_hold_every_mark_and_repeat_with_the_seed() -> None:
    rng = random.Random(0)
    marks = [mark for _ in range(200) for mark in page(rng)[1]]
    assert set(marks) == set(MARKS)
    assert marks.count(NOTHING) < 0.8 * len(marks)
    one, two = page(random.Random(1)), page(random.Random(1))
    assert one[1] == two[1]
    assert one[0].tobytes() == two[0].tobytes()


def test_a_mark_stands_where_it_is_said_to() -> None:
    rng = random.Random(2)
    shapes = 0
    for _ in range(100):
        picture, marks = page(rng)
        grey = np.asarray(picture.convert("L"))
        for cell, mark in enumerate(marks):
            if mark in SHAPES:
                row, column = divmod(cell, 4)
                assert grey[16 * row : 16 * row + 16, 16 * column : 16 * column + 16].min() < 90
                shapes += 1
    assert shapes > 100


def test_a_reader_learns() -> None:
    torch.manual_seed(0)
    model, reader, rng = vision.network(vision.tokenizer(), 0, 32, (1, 1)), Reader(32), random.Random(0)
    optimizer = torch.optim.AdamW([*model.parameters(), *reader.parameters()], lr=3e-3)
    losses = []
    for _ in range(40):
        loss = reader.loss(model, rng, 8)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) / 5 < 0.8 * losses[0]
