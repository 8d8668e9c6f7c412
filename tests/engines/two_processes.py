"""Run by test_distributed.py under torchrun: what each rank trained on, as JSON, one file per rank."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import tiny
import torch

from upside.engines.trl import AdvantageTrainer, ScoredRollouts


class Watched(AdvantageTrainer):
    local: list[list[float]]

    def _generate_and_score_completions(self, inputs: Any) -> dict:
        output = super()._generate_and_score_completions(inputs)
        self.local = [*getattr(self, "local", []), output["advantages"].tolist()]
        return output


def main(model: str, output: str, spec: str) -> None:
    torch.set_num_threads(1)
    seen: list[ScoredRollouts] = []
    trainer = Watched(
        model=model,
        args=tiny.config(Path(output), per_device_train_batch_size=6, num_generations=4, max_steps=2),
        reward_funcs=[tiny.reward],
        train_dataset=tiny.dataset(),
        estimator=spec,
        on_rollouts=seen.append,
    )
    trainer.train()
    batches = [
        {
            name: None if value is None else value.tolist()
            for name, value in vars(rollouts.batch).items()
            if name in ("rewards", "groups", "lengths", "entropy", "truncated", "reference_rewards")
        }
        | {"step": rollouts.batch.step, "prompts": rollouts.prompts, "values": rollouts.advantages.values.tolist()}
        for rollouts in seen
    ]
    weights = sum(float(p.double().sum()) for p in trainer.accelerator.unwrap_model(trainer.model).parameters())
    rank = trainer.accelerator.process_index
    facts = {"local": trainer.local, "batches": batches, "weights": weights}
    Path(output, f"rank{rank}.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main(*sys.argv[1:4])
