"""The run folder of `upside train`, written from inside verl: metrics.jsonl and one Parquet file of rollouts a step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import upside
from upside.chains import Estimator
from upside.engines.verl.estimators import Estimate
from upside.training.folder import RunFolder
from upside.training.outcomes import shares

FROM_VERL = {
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
        self._kept: tuple[Estimate, list[str], list[str], list[bool | None], list[str | None]] | None = None
        self._started = 0.0

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
    ) -> None:
        """Of the rows of verl's batch: texts, correctness and how the judgement ended (None where unknown)."""
        taken = [[column[row] for row in estimate.rows] for column in (prompts, responses, correct, outcomes)]
        self._kept = (estimate, *taken)  # type: ignore[assignment]

    def write(self, metrics: dict[str, Any], timing: dict[str, float]) -> None:
        """One line of metrics.jsonl and the step's Parquet file."""
        if self._kept is None:
            return
        estimate, prompts, responses, correct, outcomes = self._kept
        batch, seconds = estimate.batch, time.perf_counter() - self._started
        rewards = batch.rewards[batch.valid]
        known = [value for value in correct if value is not None]
        row: dict[str, Any] = {
            "step": batch.step,
            "reward": float(rewards.mean()) if len(rewards) else None,
            "reward_std": float(rewards.std()) if len(rewards) > 1 else 0.0,
            "accuracy": sum(known) / len(known) if known else None,
            "length": float(batch.lengths.mean()),
            "truncated_share": float(batch.truncated.double().mean()),
            "entropy": float(metrics["actor/entropy"]) if "actor/entropy" in metrics else None,
        }
        row |= {name: float(metrics[key]) for key, name in FROM_VERL.items() if key in metrics}
        if batch.reference_rewards is not None:
            row["reference_reward"] = float(batch.reference_rewards.nanmean())
        row |= shares(outcomes) if any(outcome is not None for outcome in outcomes) else {}
        row |= {**estimate.result.metrics, "seconds": seconds}
        row |= {f"seconds_{'rollout' if name == 'gen' else name}": value for name, value in timing.items()}
        explained = upside.explain(self.estimator, replace(batch, training=False))
        n = len(batch)
        columns: dict[str, list[Any]] = {
            "step": [batch.step] * n,
            "prompt": prompts,
            "response": responses,
            "outcome": outcomes,
            "entropy": [None] * n,
            "reference_reward": [None] * n,
        }
        columns |= {name: [r[name] for r in explained] for name in explained[0] if name != "row"}
        columns |= {"correct": correct, "advantage": estimate.result.values.tolist()}
        self.folder.write_rollouts(batch.step, columns)
        self.folder.log(row)
