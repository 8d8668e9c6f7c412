"""AAPO's reference responses: sampled from the frozen initial policy, scored by the same reward functions."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from upside.engines.sampler import sample_as
from upside.engines.sharded import gathered, loads_on_one_process, zero3

if TYPE_CHECKING:
    from upside.engines.trl import AdvantageTrainer


class Reference:
    """The initial policy of a trainer, one sampled response per policy response.

    Keeps a full frozen copy of the weights on every process, under FSDP too (PEFT: none, the adapters are switched
    off). Raises ValueError where a copy cannot be taken (ZeRO-3, or FSDP that loads the weights on one process only):
    use a reference table (`upside reference build`), or give the data set a `reference_reward` column.
    """

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

    def score(self, inputs: Any, output: dict[str, Any], tap: dict[str, Any]) -> Tensor:
        """Rewards of the reference responses over all ranks, NaN where a function returned None. (N, F)"""
        trainer = self.trainer
        if "pixel_values" in output:
            raise ValueError(
                "reference responses to prompts with images are not sampled; give a `reference_reward` column"
            )
        prompts = [
            ids[mask.bool()].tolist() for ids, mask in zip(output["prompt_ids"], output["prompt_mask"], strict=True)
        ]
        ids = self._sample(prompts)
        texts = trainer.processing_class.batch_decode(ids, skip_special_tokens=True)
        if not isinstance(tap["completions"][0], str):
            texts = [[{"role": "assistant", "content": text}] for text in texts]
        rewards = trainer._calculate_rewards(inputs, tap["prompts"], texts, ids)
        trainer._pending_extra_logs.clear()  # what the reward functions logged about these is not the policy's
        trainer._pending_metrics.clear()
        return rewards

    def _sample(self, prompts: list[list[int]]) -> list[list[int]]:
        trainer = self.trainer
        policy = trainer.accelerator.unwrap_model(trainer.model)
        if self.peft:
            initial = "ref" if "ref" in policy.peft_config else None
            from trl.trainer.utils import use_adapter

            context: Any = use_adapter(policy, initial)
        else:
            context = nullcontext(self.model)
        with context as model, gathered(trainer, policy) if self.peft else nullcontext():
            return sample_as(trainer, model if model is not None else policy, prompts).ids
