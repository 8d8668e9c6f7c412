"""Held-out accuracy of a model, before and after training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from upside.engines.sampler import sample
from upside.evaluation.metrics import estimate_share
from upside.tasks.base import Problem, Task
from upside.training.prompts import as_prompt, token_ids
from upside.training.recipe import Recipe


def measure(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, task: Task, problems: Sequence[Problem], recipe: Recipe
) -> tuple[dict[str, Any], list[str]]:
    """{"greedy": …, "sampled": …} with accuracy, 95% interval (low, high), n, mean length; and the first responses.

    Draws from its own random stream: training continues as if nothing had been sampled.
    """
    results: dict[str, Any] = {}
    shown: list[str] = []
    with torch.random.fork_rng():
        for mode, count in (("greedy", int(recipe.eval.greedy)), ("sampled", recipe.eval.samples)):
            if not count:
                continue
            torch.manual_seed(recipe.seed)
            texts, lengths = _respond(model, tokenizer, problems, count, mode == "greedy", recipe)
            right = [
                bool(task.verify(problem, text).correct)
                for problem, group in zip(problems, texts, strict=True)
                for text in group
            ]
            shares = [sum(right[i : i + count]) / count for i in range(0, len(right), count)]
            estimate = estimate_share(shares)
            results[mode] = {
                "accuracy": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "n": len(problems),
                "samples": count,
                "length": sum(lengths) / len(lengths),
            }
            shown = shown or [group[0] for group in texts]
    return results, shown


def _respond(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    problems: Sequence[Problem],
    count: int,
    greedy: bool,
    recipe: Recipe,
) -> tuple[list[list[str]], list[int]]:
    prompts = token_ids([as_prompt(p, tokenizer, recipe.system_prompt) for p in problems], tokenizer)
    size = max(1, recipe.eval.batch_size // count)
    texts: list[str] = []
    lengths: list[int] = []
    for start in range(0, len(prompts), size):
        rows = [row for row in prompts[start : start + size] for _ in range(count)]
        samples = sample(
            model,
            rows,
            eos_ids=[tokenizer.eos_token_id],
            max_new_tokens=recipe.eval.max_new_tokens or recipe.max_new_tokens,
            temperature=recipe.temperature,
            greedy=greedy,
        )
        texts += tokenizer.batch_decode(samples.ids, skip_special_tokens=True)
        lengths += [len(ids) for ids in samples.ids]
    return [texts[i : i + count] for i in range(0, len(texts), count)], lengths
