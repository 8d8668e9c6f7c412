"""The run folder of `upside train`, written from inside verl: metrics.jsonl and one Parquet file of rollouts a step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from upside.chains import Estimator
from upside.engines.verl.estimators import Estimate
from upside.tasks.pictures import decode
from upside.training.folder import RunFolder
from upside.training.record import Step

FROM_VERL = {
    "actor/entropy": "entropy",
    "actor/pg_loss": "loss",
    "actor/grad_norm": "grad_norm",
    "actor/lr": "lr",
    "actor/kl_loss": "kl",
    "actor/pg_clipfrac": "clip_share",
}
"""verl's metrics under the names that metrics.jsonl has for them."""


class Recorder:
    """Collects what a step was made of and writes it once verl has updated the policy."""

    def __init__(self, folder: str, estimator: Estimator) -> None:
        self.folder, self.estimator = RunFolder(Path(folder)), estimator
        self._kept: Step | None = None
        self._started = 0.0
        self._thumbnails: dict[tuple[str, ...], list[str]] = {}

    def start(self) -> None:
        """A step begins."""
        self._kept, self._started = None, time.perf_counter()

    def keep(
        self,
        estimate: Estimate,
        prompts: Sequence[str],
        responses: Sequence[str],
        correct: Sequence[bool | None],
        outcomes: Sequence[str | None],
        pictures: Sequence[Sequence[str]],
    ) -> None:
        """Of the rows of verl's batch: texts, correctness and how the judgement ended (None where unknown), the
        prompt's pictures by their files in `data/pictures` of the run folder."""
        rows = estimate.rows
        self._kept = Step(
            estimate.batch,
            estimate.result,
            [prompts[row] for row in rows],
            [responses[row] for row in rows],
            [correct[row] for row in rows],
            [outcomes[row] for row in rows],
            [self._small(tuple(pictures[row])) for row in rows] if any(pictures) else None,
        )

    def _small(self, files: tuple[str, ...]) -> list[str]:
        """The thumbnails of some pictures, made where there are none yet."""
        if files not in self._thumbnails:
            folder = self.folder.path / "data" / "pictures"
            images = [decode((folder / file).read_bytes(), file) for file in files]
            self._thumbnails[files] = self.folder.keep_pictures(images)
        return self._thumbnails[files]

    def write(self, metrics: dict[str, Any], timing: dict[str, float]) -> None:
        """One line of metrics.jsonl and the step's Parquet file."""
        if self._kept is None:
            return
        step, seconds = self._kept, time.perf_counter() - self._started
        measured = {name: float(metrics[key]) for key, name in FROM_VERL.items() if key in metrics}
        phases = {"rollout" if name == "gen" else name: value for name, value in timing.items()}
        self.folder.write_rollouts(step.batch.step, step.columns(self.estimator))
        self.folder.log(step.metrics(measured, phases, seconds))
