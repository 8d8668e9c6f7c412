"""Whether the runs were what a fair comparison needs: checked in what they left, not assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from upside.analysis.comparison.measured import Measured

PACKAGES = ("python", "torch", "trl", "transformers", "machine", "gpu")


@dataclass(frozen=True)
class Check:
    """One thing that must be equal. evidence: what was found, a sentence."""

    what: str
    equal: bool
    evidence: str


def check(runs: Sequence[Measured]) -> list[Check]:
    """Same problems and initial answers, prompts, steps and software, within each seed."""
    return [_start(runs), _prompts(runs), _steps(runs), _software(runs)]


def _start(runs: Sequence[Measured]) -> Check:
    what = "same initial weights and held-out problems"
    differing = []
    for run, first in _with_first(runs):
        for mode, held_out in run.held_out.items():
            if held_out.first != first.held_out[mode].first:
                differing.append(f"{_key(run)} and {_key(first)} ({mode})")
    if differing:
        return Check(what, False, f"other answers before training: {'; '.join(differing)}")
    problems = runs[0].held_out[runs[0].mode].accuracy.shape[1]
    return Check(what, True, f"within a seed all runs answer the {problems} problems alike before training, to the bit")


def _prompts(runs: Sequence[Measured]) -> Check:
    what = "same prompts in the same order"
    differing = []
    for run, first in _with_first(runs):
        steps = [at for at, (a, b) in enumerate(zip_longest(run.prompts, first.prompts), start=1) if a != b]
        if steps:
            differing.append(f"{_key(run)} and {_key(first)} from step {steps[0]}")
    if differing:
        return Check(what, False, f"other prompts: {'; '.join(differing)}")
    return Check(what, True, f"within a seed the prompts of all {len(runs[0].prompts)} steps are equal")


def _steps(runs: Sequence[Measured]) -> Check:
    counts = sorted({len(run.tokens) for run in runs})
    return Check("same steps", len(counts) == 1, f"{' or '.join(map(str, counts))} steps a run")


def _software(runs: Sequence[Measured]) -> Check:
    differing = {
        name: sorted({str(run.versions.get(name)) for run in runs})
        for name in PACKAGES
        if len({str(run.versions.get(name)) for run in runs}) > 1
    }
    text = "; ".join(f"{name} {' and '.join(found)}" for name, found in differing.items())
    first = runs[0].versions
    same = f"torch {first.get('torch')}, trl {first.get('trl')}, transformers {first.get('transformers')}"
    return Check("same software", not differing, text or f"{same}, {first.get('machine')}, in all runs")


def _with_first(runs: Sequence[Measured]) -> list[tuple[Measured, Measured]]:
    """Each run with the first one of its seed."""
    first: dict[int, Measured] = {}
    for run in runs:
        first.setdefault(run.seed, run)
    return [(run, first[run.seed]) for run in runs if first[run.seed] is not run]


def _key(run: Measured) -> str:
    return f"{run.name} (seed {run.seed})"
