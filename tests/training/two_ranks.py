"""Run by test_scoring.py under torchrun: what each rank's reward was given and gave back, as JSON, one file a rank."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import tiny
import torch
from datasets import Dataset

from upside.engines.trl import AdvantageTrainer
from upside.rewards import load_rewards
from upside.tasks import Problem
from upside.training.scoring import TaskReward


class Watched(TaskReward):
    """Keeps every call."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.calls: list[dict[str, Any]] = []

    def _judge(self, completions: Any, completion_ids: Any, problem: Any) -> Any:
        judgement = super()._judge(completions, completion_ids, problem)
        self.calls.append(
            {
                "texts": list(completions),
                "ids": [list(ids) for ids in completion_ids],
                "problem": list(problem),
                "scores": judgement.score,
            }
        )
        return judgement


def main(model: str, output: str, specs: str) -> None:
    torch.set_num_threads(1)
    problems = [Problem(f"p{i}", f"{i}+{i}=", str(2 * i)) for i in range(10)]
    reward = Watched(load_rewards(json.loads(specs)), problems, tiny.ENDS, 4)
    rows = [{"prompt": problems[i % 10].prompt, "problem": i % 10} for i in range(40)]
    trainer = AdvantageTrainer(
        model=model,
        args=tiny.config(Path(output), per_device_train_batch_size=6, num_generations=4, max_steps=2),
        reward_funcs=[reward],
        train_dataset=Dataset.from_list(rows),
        estimator="aapo",
    )
    trainer.train()
    Path(output, f"rank{trainer.accelerator.process_index}.json").write_text(json.dumps(reward.calls))


if __name__ == "__main__":
    main(*sys.argv[1:4])
