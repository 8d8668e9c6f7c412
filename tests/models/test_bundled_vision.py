"""The bundled vision-language reasoner, as shipped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

from upside.models import bundled_vision
from upside.models.pretrain_vision import Batches
from upside.models.reading import as_pixels
from upside.tasks.base import Problem
from upside.tasks.shapes import FAMILIES, Shapes

DRAWS = 16


@pytest.fixture(scope="module")
def shipped():  # type: ignore[no-untyped-def]
    return AutoModelForImageTextToText.from_pretrained(bundled_vision()).eval()


def shares(model, task: Shapes, problems: list[Problem], draws: int = DRAWS) -> Iterator[float]:  # type: ignore[no-untyped-def]
    """For each problem the share of sampled responses that are right."""
    processor = AutoProcessor.from_pretrained(bundled_vision())
    prompt = Batches(processor).prompt
    torch.manual_seed(0)
    ids = torch.tensor([prompt(problem) for problem in problems]).repeat_interleave(draws, 0)
    seen = as_pixels([problem.images[0].load() for problem in problems]).repeat_interleave(draws, 0)
    out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), pixel_values=seen, max_new_tokens=72)
    texts = processor.batch_decode(out[:, ids.shape[1] :], skip_special_tokens=True)
    for i, problem in enumerate(problems):
        yield sum(bool(task.verify(problem, text).correct) for text in texts[i * draws : (i + 1) * draws]) / draws


def test_it_is_small(shipped) -> None:  # type: ignore[no-untyped-def]
    assert sum(p.numel() for p in shipped.parameters()) <= 3_000_000
    assert sum(file.stat().st_size for file in bundled_vision().iterdir()) <= 5_000_000
    assert shipped.dtype == torch.float32
    assert (bundled_vision() / "README.md").is_file()


def test_it_solves_some_of_each_problem(shipped) -> None:  # type: ignore[no-untyped-def]
    task = Shapes()
    found = list(shares(shipped, task, task.problems("test", 64)))
    assert 0.25 < sum(found) / len(found) < 0.5
    assert sum(share > 0 for share in found) / len(found) > 0.85
    assert sum(0 < share < 1 for share in found) / len(found) > 0.8


@pytest.mark.parametrize(("blind", "families"), [("figure", tuple(FAMILIES)), ("digits", ("sides", "composite"))])
def test_it_needs_what_is_in_the_picture(shipped, blind: str, families: tuple[str, ...]) -> None:  # type: ignore[no-untyped-def]
    task = Shapes(families, blind=blind)
    found = list(shares(shipped, task, task.problems("test", 64), draws=4))
    assert sum(found) / len(found) <= task.chance("test")["all"] + 0.03
