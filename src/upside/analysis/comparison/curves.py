"""Curves over the runs of an estimator: the middle of the seeds and a band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from upside.analysis.comparison.measured import CURVES, Measured
from upside.analysis.comparison.statistics import iqm

POINTS = 60  # of a training curve


@dataclass(frozen=True)
class Curve:
    """x ascending. middle: interquartile mean over the seeds. low, high: the quartiles. NaN where not measured."""

    x: list[float]
    middle: list[float]
    low: list[float]
    high: list[float]


def of_runs(by_name: Mapping[str, Sequence[Measured]], mode: str) -> dict[str, dict[str, Curve]]:
    """Chart -> name -> curve: held_out over steps, held_out_by_tokens, and the training curves over steps."""
    found = {
        "held_out": {name: _held_out(runs, mode) for name, runs in by_name.items()},
        "held_out_by_tokens": {name: _by_tokens(runs, mode) for name, runs in by_name.items()},
    }
    return found | {f"training_{key}": {n: _training(runs, key) for n, runs in by_name.items()} for key in CURVES}


def over_seeds(x: np.ndarray, values: np.ndarray) -> Curve:
    """values: (K, n) at the points x (n,)."""
    low, high = np.quantile(values, [0.25, 0.75], axis=0)
    return Curve(x.tolist(), iqm(values).tolist(), low.tolist(), high.tolist())


def _held_out(runs: Sequence[Measured], mode: str) -> Curve:
    steps = runs[0].held_out[mode].steps
    return over_seeds(steps.astype(float), np.array([run.held_out[mode].curve for run in runs]))


def _by_tokens(runs: Sequence[Measured], mode: str) -> Curve:
    """At even distances up to the smallest total of the seeds."""
    x = [run.tokens_at(run.held_out[mode].steps) for run in runs]
    grid = np.linspace(0, min(at[-1] for at in x), len(x[0]))
    values = [np.interp(grid, at, run.held_out[mode].curve) for at, run in zip(x, runs, strict=True)]
    return over_seeds(grid, np.array(values))


def _training(runs: Sequence[Measured], key: str) -> Curve:
    """Means of consecutive steps, at most POINTS of them, at the last step of each."""
    steps = len(runs[0].tokens)
    edges = np.unique(np.linspace(0, steps, min(POINTS, steps) + 1).astype(int))
    values = [np.add.reduceat(run.curves[key], edges[:-1]) / np.diff(edges) for run in runs]
    return over_seeds(edges[1:].astype(float), np.array(values))
