"""What can be said of a recipe before it runs: what `--dry-run` prints beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import upside
from upside.training.recipe import Recipe, RecipeError
from upside.training.world import check_shares


def cautions(recipe: Recipe) -> list[str]:
    """Settings that are allowed but cannot do what they seem to."""
    found = []
    if recipe.reference == "table" and "reference_rewards" not in upside.estimator(recipe.estimator).needs:
        found.append(f"reference_table is not read: the estimator {recipe.estimator} needs no reference rewards")
    for stage in upside.estimator(recipe.estimator).stages:
        cut = getattr(stage.run, "truncation_length", None)
        if cut is not None and cut > recipe.max_new_tokens:
            found.append(
                f"{stage.info.name} counts failures of {cut} tokens and more as truncated, but no response is longer "
                f"than max_new_tokens={recipe.max_new_tokens}"
            )
    return found


def outlook(recipe: Recipe) -> list[str]:
    """What `--dry-run` says beside the recipe: needs of the estimator, the size of the run, what is not here yet.

    Raises ValueError for a task, a task option or a reward that does not exist; downloads and loads no model.
    """
    from upside.rewards import load_reward
    from upside.tasks import load_task

    check_shares(recipe, recipe.processes or 1)
    needs = ", ".join(sorted(upside.estimator(recipe.estimator).needs)) or "rewards and groups only"
    responses = recipe.steps * recipe.responses
    lines = [
        f"estimator {recipe.estimator} needs {needs}",
        f"{recipe.steps} steps x {recipe.prompts_per_step} prompts x {recipe.group_size} = {responses} responses, "
        f"{recipe.steps * recipe.updates} optimiser steps; written to {recipe.folder}",
    ]
    from upside.tasks.readers import ENDINGS

    paths = [str(value) for key, value in recipe.task_options.items() if key in ("path", "test_path")]
    paths += [recipe.reference_table] if recipe.reference_table else []
    data = [recipe.task, *paths] if recipe.task.lower().endswith(ENDINGS) else paths
    absent = [name for name in data if not Path(name).exists()]
    task = None
    if absent:
        lines.append(f"not here yet: {', '.join(absent)}; a run needs it")
    else:
        with _naming("task"):
            task = load_task(recipe.task, **recipe.task_options)
        if remote := getattr(task, "remote", None):
            lines.append(f"data: a run loads {remote}; nothing is fetched now")
        lines += [f"dropped {line}" for line in getattr(task, "drop_lines", list)()]
    for index, term in enumerate(recipe.rewards):  # those of the package are checked with the recipe
        options: dict[str, Any] = {"name": term} if isinstance(term, str) else dict(term)
        name, _ = options.pop("name"), options.pop("weight", None)
        if name.startswith("python:"):
            with _naming(f"rewards[{index}]"):
                load_reward(name, **options)
    lines += [f"caution: {caution}" for caution in cautions(recipe)]
    if recipe.model not in ("bundled", "bundled_vision") and not Path(recipe.model).exists():
        if recipe.model.startswith((".", "/", "~")):
            raise RecipeError(
                f"model: there is no folder {recipe.model}; make it with: upside model import SOURCE {recipe.model}"
            )
        lines.append(f"model {recipe.model} is not a folder here; a run loads it from the hub")
    return lines


@contextmanager
def _naming(key: str) -> Iterator[None]:
    """Errors of a value say which key of the recipe it is."""
    try:
        yield
    except ValueError as error:
        raise RecipeError(f"{key}: {error}") from error
