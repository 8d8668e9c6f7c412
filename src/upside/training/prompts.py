"""Which problems a run trains on, in which order, as the rows of TRL's data set."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from upside.tasks.base import Problem
from upside.tasks.pictures import PictureError
from upside.tasks.prompts import Reader, loaded, prompt_ids, render_prompt, within_limit

if TYPE_CHECKING:
    from datasets import Dataset
    from PIL.Image import Image


def fitting(
    problems: Sequence[Problem], tokenizer: Reader, limit: int, prompts_per_step: int
) -> tuple[list[Problem], list[Problem]]:
    """The problems whose prompt has at most `limit` tokens, and those left out.

    Raises ValueError when too few are left to fill a step.
    """
    if not problems:
        raise ValueError("task: the data set is empty, there is no problem to train on")
    kept, dropped = within_limit(tokenizer, problems, limit)  # trl#4358
    if not kept:
        shortest = min(len(prompt_ids(tokenizer, problem)) for problem in problems)
        raise ValueError(
            f"max_prompt_tokens: all {dropped} prompts are longer than {limit} tokens (the shortest has "
            f"{shortest}); raise it"
        )
    if len(kept) < prompts_per_step:
        raise ValueError(
            f"prompts_per_step: {prompts_per_step} distinct prompts a step, but the task has {len(kept)} "
            f"({dropped} dropped as too long); lower it or raise train_problems"
        )
    known = {problem.id for problem in kept}
    return kept, [problem for problem in problems if problem.id not in known]


def in_order(count: int, problems: int, seed: int) -> list[int]:
    """Indices of the first `count` problems to train on: pass after pass, each shuffled by seed and number.

    A longer run starts with the same prompts as a shorter one.
    """
    order: list[int] = []
    passes = 0
    while len(order) < count:
        indices = list(range(problems))
        random.Random(f"{seed}/{passes}").shuffle(indices)
        order += indices
        passes += 1
    return order[:count]


def prompt_rows(problems: Sequence[Problem], order: Sequence[int], reader: Reader) -> Dataset:
    """TRL's training set: the prompt and the index of its problem. With pictures among the problems, also `images`,
    loaded when the row is read: the whole set is never in memory. Where that fails, the PictureError stands there in
    their place, for AdvantageTrainer to raise when the step that needs them begins: batches are read ahead of it."""
    from datasets import Dataset

    prompts = [render_prompt(reader, problem) for problem in problems]
    if not any(problem.images for problem in problems):
        return Dataset.from_list([{"prompt": prompts[index], "problem": index} for index in order])

    shown: dict[int, Any] = {}  # of the last batch, which is read once more for each of its parts

    def read(rows: Mapping[str, Sequence[int]]) -> dict[str, list[Any]]:
        indices = rows["problem"]
        now = {index: shown[index] if index in shown else _attempt(problems[index]) for index in set(indices)}
        shown.clear()
        shown.update(now)
        return {
            "prompt": [prompts[index] for index in indices],
            "problem": list(indices),
            "images": [now[index] for index in indices],
        }

    return Dataset.from_dict({"problem": list(order)}).with_transform(read)


def _attempt(problem: Problem) -> list[Image] | PictureError:
    try:
        return loaded(problem)
    except PictureError as error:
        return error
