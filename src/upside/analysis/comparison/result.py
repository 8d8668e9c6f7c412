"""What a comparison found: every figure, from the run folders alone."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from upside.analysis import show
from upside.analysis.blocks import SECTIONS_FILE, Interval, Section, save
from upside.analysis.comparison import curves, fairness
from upside.analysis.comparison import statistics as st
from upside.analysis.comparison.measured import MODES, Measured, measure
from upside.analysis.comparison.plan import ComparisonError, PlannedRun, differences

Budget = Literal["steps", "tokens"]
VIEWS: tuple[tuple[str, Budget], ...] = (("sampled", "steps"), ("sampled", "tokens"), ("greedy", "steps"))
SIGNIFICANT = 0.05
TARGET_SHARE = 0.95  # of the baseline's accuracy, where no target is given
LEAST_EVALUATIONS = 3  # for reading a curve between them


@dataclass(frozen=True)
class Result:
    """One estimator. Lists have one entry a seed, in the order of `seeds`; None: not measured, or target not reached.

    own: its settings that differ from the baseline's. accuracy, iqm: mode -> mean and interquartile mean over seeds
    with bootstrap interval, after the last step. by_seed: mode -> accuracy. equal_tokens: accuracy at the
    budget of tokens. length: of held-out responses at the end. tokens: generated in training; reference_tokens: of
    these, for AAPO's reference (estimated: not logged, from the initial model's mean length). steps_to_target,
    tokens_to_target. zero_advantage_share: mean over the run.
    """

    name: str
    spec: str
    own: dict[str, Any]
    seeds: list[int]
    accuracy: dict[str, Interval]
    iqm: dict[str, Interval]
    by_seed: dict[str, list[float]]
    equal_tokens: list[float | None]
    length: list[float]
    tokens: list[float]
    reference_tokens: list[float]
    estimated: bool
    steps_to_target: list[float | None]
    tokens_to_target: list[float | None]
    zero_advantage_share: list[float]


@dataclass(frozen=True)
class Pair:
    """An estimator against the baseline, over the seeds both have. difference: of accuracy, paired by seed and problem.
    adjusted: its p after Holm's correction for the number of comparisons. improvement: P(a run is better than one of
    the baseline's). needed: seeds that would tell a difference of this size, needed_range: at the ends of what the
    spread may be; None: above 10 000. detectable: the smallest difference that these seeds tell with 80% power; None:
    none, however large."""

    name: str
    mode: str
    budget: Budget
    seeds: list[int]
    difference: st.Paired
    improvement: Interval | None
    adjusted: float | None = None
    needed: int | None = None
    needed_range: list[int | None] = field(default_factory=list)
    detectable: float | None = None

    @property
    def within_noise(self) -> bool:
        return self.adjusted is None or self.adjusted >= SIGNIFICANT


@dataclass(frozen=True)
class Comparison:
    """All figures. settings: what was compared: task, model, steps, seeds, baseline, target, mode, token budget, …
    curves: chart -> name -> x, middle, low, high. checks: what had to be equal, and whether it was. failed: run -> why.
    missing: runs that are not there. times: wall and CPU seconds a run by phase, the only part in which two comparisons
    of the same runs differ."""

    settings: dict[str, Any]
    results: list[Result]
    pairs: list[Pair]
    checks: list[fairness.Check]
    curves: dict[str, dict[str, curves.Curve]]
    failed: dict[str, str]
    missing: list[str]
    times: dict[str, dict[str, dict[str, float]]]

    def result(self, name: str) -> Result:
        """The result of an estimator by its name."""
        return next(result for result in self.results if result.name == name)

    def pair(self, name: str, mode: str | None = None, budget: Budget = "steps") -> Pair | None:
        """An estimator against the baseline; None for the baseline itself, or where it was not measured."""
        wanted = (name, mode or self.settings["mode"], budget)
        return next((pair for pair in self.pairs if (pair.name, pair.mode, pair.budget) == wanted), None)

    def sections(self) -> list[Section]:
        """Tables, sentences and charts."""
        from upside.analysis.comparison.sections import sections

        return sections(self)

    def write(self, folder: Path) -> None:
        """comparison.json, sections.json, table.md, curves.png."""
        from upside.analysis.comparison.sections import charts, table, title

        (folder / "comparison.json").write_text(json.dumps(_plain(asdict(self)), indent=1, allow_nan=False) + "\n")
        save(self.sections(), folder / SECTIONS_FILE)
        found = table(self)
        (folder / "table.md").write_text(f"{show.markdown(found)}\n{found.note}\n", encoding="utf-8")
        show.picture(charts(self), folder / "curves.png", title(self))


def from_runs(
    runs: Sequence[PlannedRun], baseline: str, target: float | None = None, failed: Mapping[str, str] | None = None
) -> Comparison:
    """Compare the runs that are finished; the others are named as missing. ComparisonError where there is none."""
    there = [measure(run) for run in runs if run.state == "finished"]
    missing = [run.key for run in runs if run.state != "finished"]
    if not there:
        reasons = "; ".join(f"{key}: {reason}" for key, reason in (failed or {}).items())
        raise ComparisonError(f"no run has finished, so there is nothing to compare. {reasons}")
    _same_evaluations(there)
    specs = {run.name: run.recipe.estimator for run in runs}
    own = _own(runs, baseline)
    by_name = {name: [run for run in there if run.name == name] for name in specs}
    by_name = {name: found for name, found in by_name.items() if found}
    judged = _judged(there)
    budget = min(float(run.tokens[-1]) for run in there)
    mode = there[0].mode
    if target is None:
        first = by_name.get(baseline) or there
        target = math.floor(100 * TARGET_SHARE * np.mean([_final(run, mode, judged).mean() for run in first])) / 100
    recipe = runs[0].recipe
    settings = {
        "task": recipe.task,
        "model": recipe.model,
        "steps": recipe.steps,
        "responses": recipe.responses,
        "seeds": sorted({run.recipe.seed for run in runs}),
        "baseline": baseline,
        "target": target,
        "mode": mode,
        "samples": recipe.eval.samples if mode == "sampled" else 1,
        "token_budget": budget,
        "problems": int(judged[mode].sum()),
        "problems_left_out": int((~judged[mode]).sum()),
        "evaluations": len(there[0].held_out[mode].steps),
    }
    return Comparison(
        settings=settings,
        results=[_result(specs[name], own[name], found, judged, budget, target) for name, found in by_name.items()],
        pairs=_pairs(by_name, baseline, judged, budget),
        checks=fairness.check(there),
        curves=curves.of_runs(by_name, mode),
        failed=dict(failed or {}),
        missing=missing,
        times={name: _times(found) for name, found in by_name.items()},
    )


def _same_evaluations(runs: Sequence[Measured]) -> None:
    """ComparisonError where a run was evaluated after other steps, or on other numbers of problems, than the first."""
    shapes = [{mode: (each.steps.tolist(), each.accuracy.shape) for mode, each in run.held_out.items()} for run in runs]
    for run, shape in zip(runs, shapes, strict=True):
        if shape != shapes[0]:
            raise ComparisonError(
                f"held_out.jsonl of {run.name}, seed {run.seed}, has other evaluations than that of {runs[0].name}, "
                f"seed {runs[0].seed}: it was changed or is damaged; delete its folder, and the run is made anew"
            )


def _judged(runs: Sequence[Measured]) -> dict[str, np.ndarray]:
    """Mode -> problems that every run judged at every evaluation. (P,) bool"""
    modes = [mode for mode in MODES if mode in runs[0].held_out]
    return {
        mode: np.all([np.isfinite(run.held_out[mode].accuracy).all(axis=0) for run in runs], axis=0) for mode in modes
    }


def _final(run: Measured, mode: str, judged: Mapping[str, np.ndarray]) -> np.ndarray:
    """Accuracy by problem after the last step. (P,)"""
    return run.held_out[mode].accuracy[-1][judged[mode]]


def _at_tokens(run: Measured, mode: str, judged: Mapping[str, np.ndarray], budget: float) -> np.ndarray | None:
    """Accuracy by problem when so many tokens were generated, on the line between two evaluations; None where there
    are too few of them. (P,)"""
    held_out = run.held_out[mode]
    x = run.tokens_at(held_out.steps)
    if budget >= x[-1]:
        return _final(run, mode, judged)
    if len(x) < LEAST_EVALUATIONS:
        return None
    after = int(np.searchsorted(x, budget, side="right"))
    share = (budget - x[after - 1]) / (x[after] - x[after - 1])
    below, above = held_out.accuracy[after - 1], held_out.accuracy[after]
    return ((1 - share) * below + share * above)[judged[mode]]


def _own(runs: Sequence[PlannedRun], baseline: str) -> dict[str, dict[str, Any]]:
    """Name -> the settings of its recipe that the baseline's has otherwise."""
    recipes = {run.name: run.recipe for run in runs}
    base = recipes.get(baseline, runs[0].recipe)
    return {
        name: {key: value for key, _, value in differences(base, recipe) if key not in ("estimator", "seed")}
        for name, recipe in recipes.items()
    }


def _result(
    spec: str,
    own: dict[str, Any],
    runs: list[Measured],
    judged: Mapping[str, np.ndarray],
    budget: float,
    target: float,
) -> Result:
    mode = runs[0].mode
    finals = {key: np.array([_final(run, key, judged) for run in runs]) for key in judged}  # (K, P)
    intervals = {key: st.bootstrap(found) for key, found in finals.items()}
    equal = [_at_tokens(run, mode, judged, budget) for run in runs]
    reached = [st.first_reach(run.held_out[mode].steps, run.held_out[mode].curve, target) for run in runs]
    x = [run.tokens_at(run.held_out[mode].steps) for run in runs]
    return Result(
        name=runs[0].name,
        spec=spec,
        own=own,
        seeds=[run.seed for run in runs],
        accuracy={key: mean for key, (mean, _) in intervals.items()},
        iqm={key: middle for key, (_, middle) in intervals.items()},
        by_seed={key: [float(row.mean()) for row in found] for key, found in finals.items()},
        equal_tokens=[None if found is None else float(found.mean()) for found in equal],
        length=[float(run.held_out[mode].tokens[-1].mean()) for run in runs],
        tokens=[float(run.tokens[-1]) for run in runs],
        reference_tokens=[run.reference_tokens for run in runs],
        estimated=any(run.estimated for run in runs),
        steps_to_target=reached,
        tokens_to_target=[
            st.first_reach(at, run.held_out[mode].curve, target) for at, run in zip(x, runs, strict=True)
        ],
        zero_advantage_share=[float(np.nanmean(run.curves["zero_advantage_share"])) for run in runs],
    )


def _pairs(
    by_name: Mapping[str, list[Measured]], baseline: str, judged: Mapping[str, np.ndarray], budget: float
) -> list[Pair]:
    """Every estimator against the baseline, in every view; p corrected within a view."""
    found: list[Pair] = []
    for mode, kind in VIEWS:
        if mode not in judged and kind == "tokens":  # greedy answers only
            mode = "greedy"
        if mode not in judged or baseline not in by_name:
            continue
        values = {
            name: {run.seed: _value(run, mode, kind, judged, budget) for run in runs} for name, runs in by_name.items()
        }
        view = [
            pair
            for name in by_name
            if name != baseline and (pair := _pair(name, mode, kind, values[name], values[baseline])) is not None
        ]
        found += _corrected(view)
    return found


def _value(
    run: Measured, mode: str, kind: Budget, judged: Mapping[str, np.ndarray], budget: float
) -> np.ndarray | None:
    return _final(run, mode, judged) if kind == "steps" else _at_tokens(run, mode, judged, budget)


def _pair(
    name: str,
    mode: str,
    kind: Budget,
    mine: Mapping[int, np.ndarray | None],
    other: Mapping[int, np.ndarray | None],
) -> Pair | None:
    pairs = {s: (a, b) for s, a in mine.items() if a is not None and (b := other.get(s)) is not None}
    if not pairs:
        return None
    difference = _bounded(st.paired_difference(np.array([a - b for a, b in pairs.values()])))
    spread, count = difference.spread, len(pairs)
    if spread is None:
        return Pair(name, mode, kind, list(pairs), difference, None)
    improvement = st.probability_of_improvement(*zip(*((a.mean(), b.mean()) for a, b in pairs.values()), strict=True))
    pair = Pair(name, mode, kind, list(pairs), difference, improvement)
    ends = [st.seeds_needed(difference.value, end) for end in st.spread_range(spread, count)]
    detectable = st.detectable(spread, count)
    return replace(
        pair,
        needed=st.seeds_needed(difference.value, spread),
        needed_range=ends,
        detectable=detectable if detectable < 1 else None,
    )


def _bounded(found: st.Paired) -> st.Paired:
    """No difference of accuracies is beyond 100 points."""
    if found.low is None or found.high is None:
        return found
    return replace(found, low=max(found.low, -1.0), high=min(found.high, 1.0))


def _corrected(pairs: list[Pair]) -> list[Pair]:
    known = [pair for pair in pairs if pair.difference.p is not None]
    adjusted = dict(zip(map(id, known), st.holm([pair.difference.p or 0.0 for pair in known]), strict=True))
    return [replace(pair, adjusted=adjusted.get(id(pair))) for pair in pairs]


def _times(runs: Sequence[Measured]) -> dict[str, dict[str, float]]:
    """Mean over the runs."""
    mean = lambda parts: {key: round(float(np.mean([part[key] for part in parts])), 2) for key in parts[0]}  # noqa: E731
    return {"seconds": mean([run.seconds for run in runs]), "cpu_seconds": mean([run.cpu_seconds for run in runs])}


def _plain(value: Any) -> Any:
    """Without NaN and numpy's numbers, for JSON."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.floating | float):
        return float(value) if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
