"""Advantages of logged responses under any estimator."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from upside.analysis.logs.log import Log
from upside.chains import Estimator, StageOutput
from upside.chains import estimator as build
from upside.rollouts import HOW_TO_SUPPLY, Rollouts

COLUMN_OF = {
    "lengths": "length",
    "entropy": "entropy",
    "correct": "correct",
    "truncated": "truncated",
    "reference_rewards": "reference_reward",
}
REMEDY = {
    "lengths": "map length=COLUMN, or let characters stand in: lengths=chars",
    "entropy": "map entropy=COLUMN, or condition on another metric: canon:metric=length",
    "reference_rewards": "a reference model would have to answer each prompt as often as the policy did; map "
    "reference_reward=COLUMN",
    "total_steps": "nothing says how long the run is; give the schedule its constants",
}
ENGINES_OWN = {  # what an engine computes when nobody changes it
    "trl": {"TRL's default": "grpo", "TRL's scale_rewards=none": "dr_grpo", "TRL's scale_rewards=batch": "lite"},
    "verl": {"verl's grpo": "grpo:eps=1e-6", "verl's rloo": "rloo"},
}
FIELDS = ("rewards", "lengths", "entropy", "correct", "truncated", "reference_rewards")


@dataclass(frozen=True)
class Replayed:
    """values: (N,) float32. columns: name -> (N,) float64, what stages noted (weight, tas, half, …)."""

    values: np.ndarray
    columns: dict[str, np.ndarray]


def replayed(log: Log, specs: Mapping[str, str]) -> tuple[dict[str, Replayed], dict[str, str]]:
    """{name: what the estimator gives}, and {name: what the log lacks} of those that it cannot be computed for."""
    estimators = {name: build(spec) for name, spec in specs.items()}
    named = sorted({need for e in estimators.values() for need in e.needs} - set(HOW_TO_SUPPLY))
    whole = log.rollouts(metrics=named)
    found: dict[str, Replayed] = {}
    left_out: dict[str, str] = {}
    for name, estimator in estimators.items():
        if missing := [need for need in sorted(estimator.needs) if not _has(whole, need)]:
            left_out[name] = "; ".join(_lack(log, need) for need in missing)
            continue
        try:
            found[name] = run(estimator, whole, log)
        except ValueError as error:
            left_out[name] = str(error)
    return found, left_out


def engines_own(log: Log, specs: Mapping[str, str]) -> dict[str, Replayed]:
    """What the logged advantages ought to be: of the run's recipe, else of the engine's own estimators."""
    trained = log.recipe.get("estimator")
    own = {f"{trained}, as trained": trained} if trained else ENGINES_OWN.get(log.kind, {})
    new = {name: spec for name, spec in own.items() if spec not in specs.values()}
    return replayed(log, new)[0]


def run(estimator: Estimator, whole: Rollouts, log: Log) -> Replayed:
    """The estimator over the whole log, at once where that is the same as step by step."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lone responses, once a step
        if estimator.group_local:
            return _kept([estimator.trace(whole)], [np.arange(len(whole))])
        rows = [each for _, each in log.by_step()]
        steps = [step for step, _ in log.by_step()]
        outputs = [estimator.trace(_part(whole, each, step)) for step, each in zip(steps, rows, strict=True)]
        return _kept(outputs, rows)


def _part(whole: Rollouts, rows: np.ndarray, step: int) -> Rollouts:
    at = torch.from_numpy(rows)
    fields = {name: getattr(whole, name) for name in FIELDS}
    return Rollouts(
        groups=whole.group_index[at],
        metrics={name: values[at] for name, values in whole.metrics.items()},
        step=step,
        total_steps=whole.total_steps,
        training=False,
        **{name: values[at] for name, values in fields.items() if values is not None},
    )


def _kept(outputs: list[list[StageOutput]], rows: list[np.ndarray]) -> Replayed:
    """The last stage's values and every stage's columns, each batch's in its rows; of equal names the last stays."""
    n = sum(map(len, rows))
    values = np.empty(n, np.float32)
    columns = {name: np.full(n, np.nan) for stage in outputs[0] for name in stage.columns}
    for stages, at in zip(outputs, rows, strict=True):
        values[at] = stages[-1].values.float().numpy()
        for name, column in ((name, column) for stage in stages for name, column in stage.columns.items()):
            columns[name][at] = column.double().numpy()
    return Replayed(values, columns)


def _has(batch: Rollouts, need: str) -> bool:
    return need in batch.metrics or getattr(batch, need, None) is not None


def _lack(log: Log, need: str) -> str:
    """What is missing, and what would supply it."""
    column = COLUMN_OF.get(need, need)
    scored = ~np.isnan(log.numbers("reward"))
    if log.has(column):
        holes = int(np.isnan(log.numbers(column)[scored]).sum())
        return f"{column} is missing in {holes} of {int(scored.sum())} responses that have a reward"
    means = HOW_TO_SUPPLY.get(need, "a number per response")
    return f"the log has no {column} ({means}): {REMEDY.get(need, f'map {column}=COLUMN')}"
