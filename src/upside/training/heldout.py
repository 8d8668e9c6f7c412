"""Held-out accuracy of a model, before and after training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from transformers import PreTrainedModel

from upside.evaluation import Evaluation, evaluate, style_of
from upside.evaluation.paired import of_shares
from upside.tasks.base import Problem, Task
from upside.tasks.prompts import Reader
from upside.training.recipe import Recipe
from upside.verifiers.base import Outcome


def measure(
    model: PreTrainedModel,
    tokenizer: Reader,
    task: Task,
    problems: Sequence[Problem],
    recipe: Recipe,
    sampler: str | None = None,
) -> dict[str, Evaluation]:
    """{"greedy": …, "sampled": …}, as the recipe asks. sampler: instead of the recipe's. The caller's random state is
    left as it is."""
    found = {}
    for mode, samples in (("greedy", int(recipe.eval.greedy)), ("sampled", recipe.eval.samples)):
        if samples:
            found[mode] = evaluate(
                model,
                tokenizer,
                problems,
                task,
                samples=samples,
                greedy=mode == "greedy",
                temperature=recipe.temperature,
                top_p=recipe.top_p,
                top_k=recipe.top_k,
                max_new_tokens=recipe.eval.max_new_tokens or recipe.max_new_tokens,
                batch_size=recipe.eval.batch_size,
                seed=recipe.seed,
                style=style_of(recipe.task),
                backend="upside" if (sampler or recipe.sampler) == "upside" else "transformers",
            )
    return found


def add_gains(results: Mapping[str, dict[str, Any]], lines: Sequence[Mapping[str, Any]]) -> None:
    """Give the results after training, by mode, what accuracy gained since step 0, paired by problem, with its 95%
    interval: "gain": {"value", "low", "high"}. lines: of held_out.jsonl. A mode stays as it is where nothing can be
    paired: no line of step 0, other problems in it (a resumed run may have another eval.problems), less than two
    judged both times."""
    for mode, result in results.items():
        there = [line for line in lines if line["mode"] == mode]
        if not there or there[0]["step"] or len(there[0]["right"]) != len(there[-1]["right"]):
            continue
        after, before = ([*zip(line["right"], line["judged"], strict=True)] for line in (there[-1], there[0]))
        judged = [(a / n, b / m) for (a, n), (b, m) in zip(after, before, strict=True) if n and m]
        found = of_shares(judged)
        if math.isnan(found.low):
            continue
        result["gain"] = {"value": found.difference, "low": found.low, "high": found.high}


def facts(evaluation: Evaluation) -> dict[str, Any]:
    """What summary.json keeps of an evaluation. low, high: 95% interval; n: problems."""
    accuracy = evaluation.accuracy
    return {
        "accuracy": accuracy.value,
        "low": accuracy.low,
        "high": accuracy.high,
        "n": accuracy.problems,
        "samples": evaluation.samples,
        "length": evaluation.tokens.value,
        "truncated_share": evaluation.truncated.value,
        "outcomes": {name: evaluation.outcome(name).value for name in get_args(Outcome)},
        "by_level": {str(level): estimate.value for level, estimate in evaluation.by_level().items()},
        "by_family": {family: estimate.value for family, estimate in evaluation.by_family().items()},
    }
