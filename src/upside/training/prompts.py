"""Which problems a run trains on, in which order, as the rows of TRL's data set."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from upside.tasks.base import Problem
from upside.tasks.prompts import prompt_ids, render_prompt, within_limit


def fitting(
    problems: Sequence[Problem], tokenizer: PreTrainedTokenizerBase, limit: int, prompts_per_step: int
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


def prompt_rows(
    problems: Sequence[Problem], order: Sequence[int], tokenizer: PreTrainedTokenizerBase
) -> list[dict[str, Any]]:
    """Rows of the training set: the prompt and the index of its problem."""
    prompts = [render_prompt(tokenizer, problem) for problem in problems]
    return [{"prompt": prompts[index], "problem": index} for index in order]
