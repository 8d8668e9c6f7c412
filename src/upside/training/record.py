"""What a run keeps of a step, whichever engine took it: a line of metrics.jsonl and the columns of a Parquet file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import upside
from upside.chains import Advantages, Estimator
from upside.rollouts import Rollouts
from upside.training.outcomes import shares


@dataclass(frozen=True)
class Step:
    """One batch of N responses and what the estimator made of it. prompts, responses: (N,) texts. correct, outcomes:
    (N,) per response, None where unknown; None altogether where nothing judged. images: (N,) the files of each prompt's
    pictures, relative to the run folder; None where there are none."""

    batch: Rollouts
    advantages: Advantages
    prompts: Sequence[str]
    responses: Sequence[str]
    correct: Sequence[bool | None] | None
    outcomes: Sequence[str | None] | None
    images: Sequence[Sequence[str]] | None = None

    def metrics(
        self, measured: Mapping[str, float | None], phases: Mapping[str, float], seconds: float
    ) -> dict[str, Any]:
        """The line of metrics.jsonl. measured: what the engine knows of the update (loss, grad_norm, lr, entropy, …),
        under the names that it has there; phases: seconds of parts of the step."""
        batch = self.batch
        rewards = batch.rewards[batch.valid]
        known = [c for c in self.correct or [] if c is not None]
        row: dict[str, Any] = {
            "step": batch.step,
            "reward": float(rewards.mean()) if len(rewards) else None,
            "reward_std": float(rewards.std()) if len(rewards) > 1 else 0.0,
            "accuracy": sum(known) / len(known) if known else None,
            "length": float(batch.lengths.mean()),
            "truncated_share": float(batch.truncated.double().mean()),
            "entropy": None,
            **measured,
        }
        if batch.entropy is not None:  # per token
            row["entropy"] = float((batch.entropy * batch.lengths).sum() / batch.lengths.sum().clamp(min=1))
        if batch.reference_rewards is not None:
            row["reference_reward"] = float(batch.reference_rewards.nanmean())
        if any(outcome is not None for outcome in self.outcomes or []):
            row |= shares(list(self.outcomes or []))
        row |= {**self.advantages.metrics, "seconds": seconds}
        return row | {f"seconds_{name}": value for name, value in phases.items()}

    def columns(self, estimator: Estimator) -> dict[str, list[Any]]:
        """The Parquet file's columns: texts, what the estimator read and the value after each of its stages."""
        n = len(self.batch)
        explained = upside.explain(estimator, replace(self.batch, training=False), why=False)
        columns: dict[str, list[Any]] = {
            "step": [self.batch.step] * n,
            "prompt": list(self.prompts),
            "response": list(self.responses),
            "correct": [None] * n,
            "outcome": list(self.outcomes or [None] * n),
            "entropy": [None] * n,
            "reference_reward": [None] * n,
        }
        columns |= {name: [row[name] for row in explained] for name in explained[0] if name != "row"}
        if self.images is not None:
            columns["images"] = list(self.images)
        if self.correct is not None:
            columns["correct"] = list(self.correct)
        return {**columns, "advantage": self.advantages.values.tolist()}
