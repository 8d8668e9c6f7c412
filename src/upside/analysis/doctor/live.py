"""The doctor beside a run: the same checks, every few steps, on what the run has in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from upside.analysis.doctor.checks import LEVELS
from upside.analysis.doctor.diagnosis import diagnose
from upside.analysis.logs import Log
from upside.analysis.logs.upside_runs import joined
from upside.training.folder import RunFolder

EVERY = 10  # steps between two looks
WINDOW = 20  # steps whose rollouts are kept; of the steps' numbers all are
MEMORY = 1 << 28  # bytes that they may take together; beyond it fewer steps are kept
SKIPPED = ("slow_steps", "reward_plateau")  # the first depends on the machine and not on the seed, the second asks of
# a whole run whether its end was worth its cost


class Live:
    """Looks every EVERY steps and at the last; tells each finding once, and again where it has become worse.

    folder: the run's, which may hold its earlier part. recipe: resolved settings as plain values. tell: called with a
    line of text. halt: called at the first finding of level fail, which is then in `failed`. summary.json holds what
    was told under "doctor". A check that breaks ends the looking, never the run.
    """

    def __init__(
        self,
        folder: RunFolder,
        recipe: Mapping[str, Any],
        tell: Callable[[str], None],
        halt: Callable[[], None] = lambda: None,
    ) -> None:
        self.folder, self.recipe, self.tell, self.halt = folder, recipe, tell, halt
        self.failed: dict[str, Any] | None = None
        self._broken = False
        self._rows = folder.metrics()
        done = int(self._rows[-1]["step"]) if self._rows else 0
        self._told = [found for found in folder.summary().get("doctor", []) if found["step"] <= done]
        earlier = [folder.rollouts_file(step) for step in range(max(1, done - WINDOW + 1), done + 1)]
        self._tables: deque[pa.Table] = deque(maxlen=WINDOW)
        for file in earlier:
            if file.is_file():
                self._keep(pyarrow.parquet.read_table(file))

    def step(self, row: Mapping[str, Any], rollouts: pa.Table) -> None:
        """A step is done. row: its line of metrics.jsonl. rollouts: its responses, as the run folder has them."""
        self._rows.append(dict(row))
        self._keep(rollouts)
        if self._broken or (row["step"] % EVERY and row["step"] != self.recipe.get("steps")):
            return
        try:
            self._look(int(row["step"]))
        except Exception as error:
            self._broken = True
            self.tell(f"doctor: looks no more, the run goes on ({type(error).__name__}: {error})")

    def _keep(self, rollouts: pa.Table) -> None:
        self._tables.append(rollouts)
        while len(self._tables) > 1 and sum(table.nbytes for table in self._tables) > MEMORY:
            self._tables.popleft()

    def _look(self, step: int) -> None:
        log = Log(
            source=str(self.folder.path),
            kind="upside",
            table=joined(list(self._tables)),
            metrics=self._rows,
            recipe=self.recipe,
            held_out=self.folder.held_out(),
        )
        new = [
            {"step": step, **finding}
            for finding in diagnose(log, skip=SKIPPED).findings
            if finding["level"] in ("warn", "fail") and self._worse(finding)
        ]
        for finding in new:
            self.tell(f"doctor, step {step}: {finding['level']} {finding['check']}: {finding['evidence']}")
            self.tell(f"  remedy: {finding['remedy']}")
        if new:
            self._told += new
            self.folder.update_summary(doctor=self._told)
        failures = [finding for finding in new if finding["level"] == "fail"]
        if failures and self.failed is None:
            self.failed = failures[0]
            self.halt()

    def _worse(self, finding: Mapping[str, Any]) -> bool:
        """Not told before, or told as a milder one."""
        told = [LEVELS.index(known["level"]) for known in self._told if known["check"] == finding["check"]]
        return LEVELS.index(finding["level"]) > max(told, default=-1)
