"""Problems as the prompts a model reads: one renderer for training and evaluation."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from upside.tasks.base import Problem

Prompt = str | list[dict[str, str]]


def as_prompt(problem: Problem, tokenizer: PreTrainedTokenizerBase, system_prompt: str | None = None) -> Prompt:
    """Messages where the tokenizer has a chat template, else the bare text (after the system prompt, if any)."""
    if tokenizer.chat_template is None:
        return problem.prompt if system_prompt is None else f"{system_prompt}\n{problem.prompt}"
    system = [] if system_prompt is None else [{"role": "system", "content": system_prompt}]
    return [*system, {"role": "user", "content": problem.prompt}]


def token_ids(prompts: Sequence[Prompt], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """Token ids of each prompt, ready for the model to continue."""
    if not prompts:
        return []
    if isinstance(prompts[0], str):
        return tokenizer(text=list(prompts))["input_ids"]
    return tokenizer.apply_chat_template(
        list(prompts), add_generation_prompt=True, tokenize=True, return_dict=True
    )["input_ids"]  # fmt: skip


def within_limit(
    problems: Sequence[Problem], tokenizer: PreTrainedTokenizerBase, limit: int, system_prompt: str | None = None
) -> tuple[list[Problem], int]:
    """The problems whose prompt has at most `limit` tokens, and how many were dropped.

    Raises ValueError when none is left.
    """
    ids = token_ids([as_prompt(p, tokenizer, system_prompt) for p in problems], tokenizer)
    kept = [problem for problem, row in zip(problems, ids, strict=True) if len(row) <= limit]
    if not problems:
        raise ValueError("the data set is empty: there is no problem to train on")
    if not kept:
        shortest = min(len(row) for row in ids)
        raise ValueError(
            f"max_prompt_tokens: all {len(problems)} prompts are longer than {limit} tokens (the shortest has "
            f"{shortest}); raise it"
        )
    return kept, len(problems) - len(kept)


def in_order(problems: Sequence[Problem], count: int, seed: int) -> list[int]:
    """Indices of the first `count` problems to train on: pass after pass, each shuffled by seed and number.

    A longer run starts with the same prompts as a shorter one.
    """
    order: list[int] = []
    passes = 0
    while len(order) < count:
        indices = list(range(len(problems)))
        random.Random(f"{seed}/{passes}").shuffle(indices)
        order += indices
        passes += 1
    return order[:count]


def prompt_rows(
    problems: Sequence[Problem], order: Sequence[int], tokenizer: PreTrainedTokenizerBase, system_prompt: str | None
) -> list[dict[str, Any]]:
    """Rows of the training set: the prompt and the index of its problem."""
    prompts = [as_prompt(problem, tokenizer, system_prompt) for problem in problems]
    return [{"prompt": prompts[index], "problem": index} for index in order]
