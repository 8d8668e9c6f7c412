"""The advantages AdvantageTrainer trains on for the batch of tests/data/rollout_batch.json, one list a preset.

Also a script for torchrun: `parity.py MODEL OUTPUT` writes each rank's own rows to OUTPUT/rank<N>.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import tiny
import torch
from datasets import Dataset

import upside
from upside.engines.trl import AdvantageTrainer

BATCH: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data" / "rollout_batch.json").read_text())["equal"]
ROWS = len(BATCH["rewards"])
FIRST_TOKEN = 100  # a response's first token says which row of the batch it stands for


def rollout(prompts: list[str], trainer: Any) -> dict[str, list]:
    """The rows of this process as `rollout_func` hands them over."""
    start = trainer.accelerator.process_index * len(prompts)
    rows = range(start, start + len(prompts))
    assert [BATCH["groups"][row] for row in rows] == prompts
    ids = [
        [FIRST_TOKEN + row, *[90] * (BATCH["lengths"][row] - 2), 90 if BATCH["truncated"][row] else 1] for row in rows
    ]
    return {
        "prompt_ids": [[5, 6 + row // 4] for row in rows],
        "completion_ids": ids,
        "logprobs": None,
        "sampled_entropy": [BATCH["entropy"][row] for row in rows],
        "reference_reward": [BATCH["reference_rewards"][row] for row in rows],
    }


def field(values: list[Any]) -> Any:
    """A function with a reward function's signature that looks the rows up."""

    def look_up(completion_ids: list[list[int]], **columns: Any) -> list[Any]:
        return [values[ids[0] - FIRST_TOKEN] for ids in completion_ids]

    return look_up


class FirstBatch(AdvantageTrainer):
    """Keeps the advantages of this process's rows in the first batch."""

    kept: list[float] | None = None

    def _generate_and_score_completions(self, inputs: Any) -> dict:
        output = super()._generate_and_score_completions(inputs)
        if self.kept is None:
            self.kept = output["advantages"].tolist()
        return output


def advantages(model: str, output: Path, processes: int = 1) -> dict[str, list[float]]:
    """{preset: advantages of this process's rows}."""
    prompts = list(dict.fromkeys(BATCH["groups"]))
    found: dict[str, list[float]] = {}
    for name in upside.presets():
        trainer = FirstBatch(
            model=model,
            args=tiny.config(
                output,
                per_device_train_batch_size=ROWS // processes,
                max_steps=BATCH["total_steps"],
                shuffle_dataset=False,
            ),
            reward_funcs=[field(BATCH["rewards"])],
            correctness=field(BATCH["correct"]),
            response_metrics={name: field(values) for name, values in BATCH["metrics"].items()},
            train_dataset=Dataset.from_list([{"prompt": prompt, "reference_reward": 0.0} for prompt in prompts]),
            estimator=name,
            rollout_func=rollout,
        )
        trainer.train()
        assert trainer.kept is not None
        found[name] = trainer.kept
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    import os

    mine = advantages(sys.argv[1], Path(sys.argv[2]), int(os.environ["WORLD_SIZE"]))
    Path(sys.argv[2], f"rank{os.environ['RANK']}.json").write_text(json.dumps(mine))
