"""Which runs a comparison is made of, and how far each is."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from upside.analysis.names import make, safe
from upside.training.folder import RunFolder
from upside.training.recipe import Recipe, load
from upside.training.recipe import check as check_recipe

State = Literal["new", "half", "finished"]
FREE = {"name", "output", "resume", "processes", "threads", "save_every", "keep_checkpoints", "report_to", "doctor"}
"""Keys of a recipe that may differ between a run that is there and the one that is asked for."""
TAIL = 2**16  # bytes of metrics.jsonl that hold its last line
OWN = {
    "estimator": "--estimators",
    "seed": "--seeds and --first-seed",
    "output": "--output",
    "threads": "--threads",
    "processes": "--jobs",
    "resume": "nothing: what is there is continued",
}
"""Keys that a comparison sets itself, and what sets them."""
SINGLE = {
    "loss", "epsilon", "epsilon_high", "delta", "importance", "mask_truncated", "beta", "entropy_bonus", "lr",
    "schedule", "min_lr_ratio", "warmup", "weight_decay", "max_grad_norm", "minibatches", "num_iterations", "rewards",
}  # fmt: skip
"""Keys that one estimator may have of its own: how the policy moves, never what it is shown or measured on."""


class ComparisonError(ValueError):
    """A comparison that cannot be made as asked; the message says what to change."""


@dataclass(frozen=True)
class PlannedRun:
    """One estimator with one seed. recipe: resolved, its output is the run folder."""

    name: str
    recipe: Recipe

    @property
    def key(self) -> str:
        """The name of its folder."""
        return self.recipe.folder.name

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.recipe.folder)

    @property
    def state(self) -> State:
        """new, half (`resume=true` continues it), or finished."""
        if not self.folder.recipe_file.is_file():
            return "new"
        summary = self.folder.summary()
        done = summary.get("steps") == self.recipe.steps and {"after", "seconds"} <= set(summary)
        return "finished" if done else "half"

    @property
    def step(self) -> int:
        """The last step in its metrics, 0 where there is none."""
        file = self.folder.metrics_file
        if not file.exists():
            return 0
        with file.open("rb") as lines:
            lines.seek(max(0, file.stat().st_size - TAIL))
            whole = lines.read().split(b"\n")[:-1]  # what follows the last line break was cut short
        return int(json.loads(whole[-1])["step"]) if whole else 0

    def check(self) -> None:
        """ComparisonError where its folder holds another run, or something else."""
        path = self.recipe.folder
        if self.state == "new":
            if path.exists() and (not path.is_dir() or any(item.is_file() for item in path.rglob("*"))):
                raise ComparisonError(f"output: {path} holds something else than a run; give another --output")
            return
        changed = differences(load(self.folder.recipe_file), self.recipe)
        if changed:
            key, old, new = changed[0]
            more = f" (also: {', '.join(name for name, _, _ in changed[1:])})" if changed[1:] else ""
            raise ComparisonError(
                f"output: {path} holds a run with {key}={old!r}, now it is {new!r}{more}; give another --output, or "
                "the settings that it was run with"
            )


def differences(old: Recipe, new: Recipe) -> list[tuple[str, Any, Any]]:
    """(key, old value, new value) of what differs between two recipes, apart from FREE."""
    before, after = _flat(old), _flat(new)
    return [(key, before[key], after[key]) for key in before if before[key] != after[key]]


def _flat(recipe: Recipe) -> dict[str, Any]:
    values = {k: v for k, v in dataclasses.asdict(recipe).items() if k not in FREE}
    evaluation = values.pop("eval")
    values["estimator"] = str(make(recipe.estimator))
    return {**values, **{f"eval.{key}": value for key, value in evaluation.items()}}


def plan(
    recipe: str | Path | None,
    overrides: Sequence[str],
    estimators: Mapping[str, str],
    seeds: Sequence[int],
    output: Path,
    threads: int,
    own: Sequence[str] = (),
) -> list[PlannedRun]:
    """The runs, seed by seed, so that what is there after a while compares all estimators. own: NAME:KEY=VALUE, a
    setting of one estimator alone. Raises ComparisonError for overrides that the comparison sets itself, settings that
    no estimator may have of its own, a recipe without evaluation, and folders that hold something else, and RecipeError
    for an estimator that the recipe cannot feed."""
    for override in overrides:
        key = override.partition("=")[0].strip()
        if key in OWN:
            raise ComparisonError(f"{key}: a comparison sets it itself; use {OWN[key]}")
    single = _by_name(own, estimators)
    bases = {name: load(recipe, [*overrides, *single.get(name, [])]) for name in estimators}
    if any(not base.eval.problems for base in bases.values()):
        raise ComparisonError("eval.problems: 0 leaves nothing to compare; give a number of held-out problems")
    runs = [
        PlannedRun(
            name,
            dataclasses.replace(
                bases[name],
                estimator=spec,
                seed=seed,
                threads=threads,
                processes=None,
                resume=False,
                output=str(output / "runs" / f"{safe(name)}-s{seed}"),
            ),
        )
        for seed in seeds
        for name, spec in estimators.items()
    ]
    for run in runs[: len(estimators)]:
        check_recipe(run.recipe)
    for run in runs:
        run.check()
    return runs


def _by_name(given: Sequence[str], estimators: Mapping[str, str]) -> dict[str, list[str]]:
    """NAME:KEY=VALUE -> {name: its overrides}. A name may hold colons itself, as a spec does."""
    found: dict[str, list[str]] = {}
    for text in [given] if isinstance(given, str) else given:
        fitting = [name for name in estimators if text.startswith(f"{name}:")]
        if not fitting:
            raise ComparisonError(
                f"set: {text!r} begins with none of the estimators {', '.join(map(repr, estimators))}; write "
                f"NAME:KEY=VALUE, such as {next(iter(estimators))}:lr=1e-4"
            )
        name = max(fitting, key=len)
        override = text.removeprefix(f"{name}:").strip()
        key = override.partition("=")[0].strip()
        if key.partition(".")[0] not in SINGLE:
            raise ComparisonError(
                f"set: {key!r} has to be the same for all estimators; one alone may have: {', '.join(sorted(SINGLE))}"
            )
        found.setdefault(name, []).append(override)
    return found
