"""How far the runs are: bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from upside.analysis.comparison.plan import PlannedRun

PARTS = 4  # lines a run, where there is no terminal


class Display:
    """One display for all runs. console: rich's; use as a context manager."""

    def __init__(self, console: Any, runs: Sequence[PlannedRun]) -> None:
        self.console, self.runs = console, runs
        self.total = sum(run.recipe.steps for run in runs)
        self.done = {run.key: run.recipe.steps if run.state == "finished" else run.step for run in runs}
        self.ended = sum(run.state == "finished" for run in runs)
        self._told: dict[str, int] = {}
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Display:
        if self.ended:
            self.note(f"{self.ended} of {len(self.runs)} runs are finished already")
        if self.console.is_terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=20), MofNCompleteColumn())
            self._bars = Progress(*columns, TimeRemainingColumn(compact=True), console=self.console, transient=True)
            self._bars.start()
            self._all = self._bars.add_task("steps of all runs", total=self.total, completed=sum(self.done.values()))
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bars is not None:
            self._bars.stop()

    def note(self, text: str) -> None:
        """One plain line."""
        from rich.text import Text

        self.console.print(Text(text), soft_wrap=True)

    def started(self, run: PlannedRun) -> None:
        self.note(f"{run.key}: {'goes on from a checkpoint' if run.state == 'half' else 'started'}")
        if self._bars is not None:
            self._tasks[run.key] = self._bars.add_task(run.key, total=run.recipe.steps, completed=run.step)

    def update(self, run: PlannedRun) -> None:
        """Read how far a run is."""
        step = self.done[run.key] = run.step
        if self._bars is not None:
            self._bars.update(self._tasks[run.key], completed=step)
            self._bars.update(self._all, completed=sum(self.done.values()))
            return
        part = step * PARTS // run.recipe.steps
        if part > self._told.get(run.key, 0):
            self._told[run.key] = part
            self.note(f"{run.key}: step {step}/{run.recipe.steps}")

    def finished(self, run: PlannedRun, failure: str | None = None) -> None:
        if self._bars is not None:
            self._bars.remove_task(self._tasks.pop(run.key))
        self.ended += failure is None
        text = failure or f"finished, held-out accuracy {_accuracy(run)}"
        self.note(f"{run.key}: {text} ({self.ended} of {len(self.runs)} runs done)")


def _accuracy(run: PlannedRun) -> str:
    after = run.folder.summary()["after"]
    return ", ".join(f"{mode} {after[mode]['accuracy']:.1%}" for mode in ("sampled", "greedy") if mode in after)
