"""AAPO's reference responses: sampled from the frozen initial policy and scored by the same reward functions, or read
from a table of such scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from upside.engines.calls import sample_number, weighted
from upside.engines.pictures import Pictures
from upside.engines.sampler import sample_as
from upside.engines.sharded import gathered, loads_on_one_process, zero3

if TYPE_CHECKING:
    from upside.engines.trl import AdvantageTrainer


class Reference:
    """The initial policy of a trainer, one sampled response per policy response.

    Keeps a full frozen copy of the weights on every process, under FSDP too (PEFT: none, the adapters are switched
    off). Raises ValueError where a copy cannot be taken (ZeRO-3, or FSDP that loads the weights on one process only):
    use a reference table (`upside reference build`), or give the data set a `reference_reward` column.
    tokens: generated for the last batch, over all processes.
    """

    tokens = 0

    def __init__(self, trainer: AdvantageTrainer) -> None:
        self.trainer = trainer
        policy = trainer.accelerator.unwrap_model(trainer.model)
        self.peft = hasattr(policy, "peft_config")
        if self.peft:
            return
        if zero3() or any(parameter.is_meta for parameter in policy.parameters()) or loads_on_one_process():
            raise ValueError(
                "reference responses need all of the initial weights on every process, which ZeRO-3 and "
                "fsdp_cpu_ram_efficient_loading do not leave; set the latter to false, or score the initial model once "
                "(upside reference build) and use reference=table"
            )
        # Built anew: TRL binds the policy's own `forward` into the instance, so a deep copy would keep training.
        with torch.random.fork_rng(devices=[]):
            self.model = type(policy)(policy.config).to(device=policy.device, dtype=policy.dtype)
        self.model.load_state_dict(policy.state_dict())
        self.model.requires_grad_(False).eval()

    def rewards(self, inputs: Any, output: dict[str, Any], tap: dict[str, Any]) -> Tensor:
        """Rewards of the reference responses over all ranks, NaN where no function returned one. (N,)"""
        return weighted(self.score(inputs, output, tap), self.trainer.reward_weights)

    def score(self, inputs: Any, output: dict[str, Any], tap: dict[str, Any]) -> Tensor:
        """The same by function, before weighting. (N, F)"""
        trainer = self.trainer
        prompts = [
            ids[mask.bool()].tolist() for ids, mask in zip(output["prompt_ids"], output["prompt_mask"], strict=True)
        ]
        seen = "pixel_values" in output
        pictures = Pictures.of_messages(trainer.processing_class, tap["prompts"]) if seen else None
        ids = self._sample(prompts, pictures)
        mine = torch.tensor([sum(map(len, ids))], device=trainer.accelerator.device)
        self.tokens = int(trainer.accelerator.gather(mine).sum())
        texts = trainer.processing_class.batch_decode(ids, skip_special_tokens=True)
        if not isinstance(tap["completions"][0], str):
            texts = [[{"role": "assistant", "content": text}] for text in texts]
        rewards = trainer._calculate_rewards(inputs, tap["prompts"], texts, ids)
        trainer._pending_extra_logs.clear()  # what the reward functions logged about these is not the policy's
        trainer._pending_metrics.clear()
        return rewards

    def _sample(self, prompts: list[list[int]], pictures: Pictures | None = None) -> list[list[int]]:
        trainer = self.trainer
        policy = trainer.accelerator.unwrap_model(trainer.model)
        if self.peft:
            initial = "ref" if "ref" in policy.peft_config else None
            from trl.trainer.utils import use_adapter

            context: Any = use_adapter(policy, initial)
        else:
            context = nullcontext(self.model)
        with context as model, gathered(trainer, policy) if self.peft else nullcontext():
            return sample_as(trainer, model if model is not None else policy, prompts, pictures).ids


Table = Mapping[Any, Sequence[float | None]]


class TabledReference:
    """Rewards of reference responses that were sampled before, by the data set's column `problem`.

    The p-th response (from 0) of a group of G in training batch t (from 1) is paired with sample (t - 1) G + p of its
    problem, counted round the samples there are: a group meets as many different ones as it can, another batch goes on
    where this one ends, and a resumed run reads the same.

    missing: for problems that the table lacks, an error ("error"), or fresh samples ("fresh"; a batch with one such
    problem samples for all its rows, and uses the others' table). tokens: generated for the last batch.
    """

    tokens = 0

    def __init__(self, trainer: AdvantageTrainer, table: Table, missing: str) -> None:
        self.trainer, self.table = trainer, table
        if missing not in ("error", "fresh"):
            raise ValueError(f"reference_missing={missing!r} is unknown; known: error, fresh")
        if not trainer._has_column("problem"):
            raise ValueError("reference_table: the data set has no column `problem` that says which row of the table")
        problems = dict.fromkeys(trainer.train_dataset["problem"])
        absent = [problem for problem in problems if not table.get(problem)]
        if absent and missing == "error":
            raise ValueError(
                f"reference_table: {len(absent)} of {len(problems)} problems have no samples there (first: "
                f"{absent[0]!r}); add them, or sample for them with reference_missing='fresh'"
            )
        self.fresh = Reference(trainer) if absent else None

    def rewards(self, inputs: Any, output: dict[str, Any], tap: dict[str, Any]) -> Tensor:
        """As `Reference.rewards`. (N,)"""
        trainer = self.trainer
        first, size = trainer.accelerator.process_index * len(inputs), trainer.num_generations
        drawn = [self._draw(row["problem"], (first + i) % size) for i, row in enumerate(inputs)]
        values = torch.tensor(drawn, device=trainer.accelerator.device)
        absent = torch.tensor([not self.table.get(row["problem"]) for row in inputs], device=values.device)
        values, absent = trainer.accelerator.gather(values), trainer.accelerator.gather(absent)
        self.tokens = 0
        if self.fresh is None or not bool(absent.any()):
            return values
        values = torch.where(absent, self.fresh.rewards(inputs, output, tap), values)
        self.tokens = self.fresh.tokens
        return values

    def _draw(self, problem: Any, place: int) -> float:
        samples, trainer = self.table.get(problem) or [None], self.trainer
        reward = samples[sample_number(trainer._batch_number(), place, trainer.num_generations, len(samples))]
        return float("nan") if reward is None else float(reward)
