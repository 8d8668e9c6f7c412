"""`upside compare`: the same training with several estimators and seeds, and what the results say."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upside.analysis.comparison.plan import ComparisonError, PlannedRun, plan
from upside.analysis.comparison.scheduler import Stopped
from upside.analysis.names import EstimatorListError, read_estimators

if TYPE_CHECKING:
    from upside.analysis.comparison.result import Comparison

__all__ = ["ComparisonError", "EstimatorListError", "PlannedRun", "Stopped", "compare", "plan", "read_estimators"]


def compare(
    recipe: str | Path | None = None,
    overrides: Sequence[str] = (),
    *,
    estimators: Sequence[str] | Mapping[str, str],
    own: Sequence[str] = (),
    seeds: int | Sequence[int] = 5,
    output: str | Path,
    baseline: str | None = None,
    target: float | None = None,
    jobs: int | None = None,
    threads: int = 1,
    ray: bool = False,
    ray_address: str | None = None,
    console: Any = None,
) -> Comparison:
    """Train a recipe with each estimator and seed, and compare them.

    recipe, overrides: as `upside train` takes them. estimators: specs, or {name: spec} (`read_estimators`). own:
    NAME:KEY=VALUE, a setting of one of them alone, such as "grpo:lr=1e-4". seeds: how many (0, 1, …), or which.
    output: folder; its runs that are finished are taken as they are, half ones go on. baseline: the name the others
    are compared with (default: the first). target: accuracy for "steps to reach it" (default: 95% of the baseline's).
    jobs: runs at a time (default: 1, with Ray as many as it has room for). threads: of a run. ray, ray_address: as
    tasks of Ray.

    Writes comparison.json, sections.json, table.md and curves.png into the folder. Runs that failed are named in
    `Comparison.failed`, and the comparison is made of the others. Raises ComparisonError where it cannot be made as
    asked or no run succeeded, RecipeError, and Stopped after SIGINT or SIGTERM.
    """
    from rich.console import Console

    from upside.analysis.comparison.result import from_runs

    output = Path(output).resolve()
    named = read_estimators(estimators)
    baseline = check_baseline(baseline, named)
    numbers = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not numbers or len(set(numbers)) < len(numbers):
        raise ComparisonError(f"seeds: {numbers} must be at least one, each once")
    if target is not None and not 0 < target < 1:
        raise ComparisonError(f"target: {target} is no accuracy; write a share such as 0.8")
    runs = plan(recipe, overrides, named, numbers, output, threads, own)
    with _alone(output):
        failed = _execute(runs, output, jobs, threads, ray, ray_address, console or Console(highlight=False))
        comparison = from_runs(runs, baseline, target, failed)
        comparison.write(output)
    return comparison


def check_baseline(name: str | None, estimators: Mapping[str, str]) -> str:
    """The baseline's name: the first estimator unless one is given. ComparisonError for one that is not compared."""
    if name is None:
        return next(iter(estimators))
    if name not in estimators:
        raise ComparisonError(f"baseline: {name!r} is none of the estimators {', '.join(map(repr, estimators))}")
    return name


def _execute(
    runs: Sequence[PlannedRun],
    output: Path,
    jobs: int | None,
    threads: int,
    ray: bool,
    address: str | None,
    console: Any,
) -> dict[str, str]:
    from upside.analysis.comparison.scheduler import execute, local

    if not ray or all(run.state == "finished" for run in runs):
        return execute(runs, output, jobs or 1, local(threads), console)
    from upside.analysis.comparison.cluster import Cluster

    cluster = Cluster(address, threads)
    try:
        return execute(runs, output, jobs or len(runs), lambda job, slot: cluster.start(job), console)
    finally:
        cluster.close()


@contextmanager
def _alone(output: Path) -> Iterator[None]:
    """Two comparisons at once in one folder would train the same runs twice."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        file = (output / ".lock").open("a")
    except OSError as error:
        raise ComparisonError(f"output: {output} is no folder to write to ({error.strerror}); give another") from None
    with file as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ComparisonError(f"output: another `upside compare` is at work in {output}; wait for it") from None
        yield
