"""AAPO's reference responses inside verl: sampled from a frozen copy of the initial model, scored by verl's rewards."""

from __future__ import annotations

import asyncio
import copy
import random
from typing import Any
from uuid import uuid4

import numpy as np
import torch
import transfer_queue as tq
from omegaconf import open_dict
from tensordict import TensorDict
from verl.protocol import DataProto
from verl.workers.rollout.llm_server import LLMServerManager

from upside.engines.verl.options import Options

MADE = ("extra_fields", "agent_name", "multi_modal_inputs", "metrics", "num_turns", "uid", "session_id")
"""What verl stores of a response beside the data's own columns."""


class Reference:
    """Rollout servers of their own that keep the initial weights, and one sampled response per policy response.

    They are verl's standalone replicas of the configured rollout backend, on `reference_gpus` GPUs of each of
    `reference_nodes` machines beside the trainer's, with the policy's sampling parameters. Text only: a prompt with
    images, and agent loops with several turns, have no fresh reference; use reference=table there.
    """

    def __init__(self, config: Any, options: Options, replicas: int, reward_handles: list[Any] | None) -> None:
        if not reward_handles:
            raise ValueError(
                "reference=fresh needs reward workers, and a colocated reward model has none; use "
                "algorithm.upside.reference=table or reward.reward_model.enable_resource_pool=True"
            )
        self.reward_handles = reward_handles
        rollout = config.actor_rollout_ref.rollout
        self.sampling = {
            "temperature": rollout.temperature,
            "top_p": rollout.top_p,
            "top_k": rollout.top_k,
            "repetition_penalty": 1.0,
            "logprobs": False,
        }
        own = copy.deepcopy(config)
        with open_dict(own):
            own.actor_rollout_ref.rollout.nnodes = options.reference_nodes
            own.actor_rollout_ref.rollout.n_gpus_per_node = options.reference_gpus
            own.actor_rollout_ref.rollout.load_format = "auto"  # weights from the model's folder, never pushed
        self.manager = LLMServerManager.create(config=own, start_rank=replicas)
        self.client = self.manager.get_client()

    def rewards(self, batch: Any, padding: list[bool]) -> list[float | None]:
        """The reward of a reference response to each row's prompt, None for padding. (N,)"""
        stored = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id)
        prompts = [row.tolist() for row in stored["prompts"].unbind()]
        columns = _columns(stored)

        async def all_rows() -> list[float | None]:
            rows = [
                _nothing() if pad else self._reward(prompts[i], {name: values[i] for name, values in columns.items()})
                for i, pad in enumerate(padding)
            ]
            return list(await asyncio.gather(*rows))

        return asyncio.run(all_rows())

    async def _reward(self, prompt: list[int], row: dict[str, Any]) -> float:
        output = await self.client.generate(uuid4().hex, prompt_ids=prompt, sampling_params=dict(self.sampling))
        result = await random.choice(self.reward_handles).compute_score.remote(_scorable(prompt, output.token_ids, row))
        return float(result["reward_score"])


async def _nothing() -> None:
    return None


def _columns(stored: Any) -> dict[str, list[Any]]:
    """The data's own columns of a stored batch: name -> one value per row."""
    kept = {}
    for name in stored.keys():  # noqa: SIM118  (a TensorDict iterates over rows)
        values = stored[name]
        if name not in MADE and not isinstance(values, torch.Tensor):
            kept[name] = list(values.tolist() if hasattr(values, "tolist") else values)
    return kept


def _scorable(prompt: list[int], response: list[int], row: dict[str, Any]) -> DataProto:
    """One response in the shape in which verl hands responses to its reward workers."""
    ids = torch.tensor([prompt + response])
    tensors = {
        "prompts": torch.tensor([prompt]),
        "responses": torch.tensor([response]),
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "position_ids": torch.arange(ids.shape[1])[None],
    }
    others = {name: _object(value) for name, value in row.items()}
    others["__num_turns__"] = np.array([2])
    return DataProto(batch=TensorDict(tensors, batch_size=1), non_tensor_batch=others)


def _object(value: Any) -> np.ndarray:
    """A numpy array of objects that holds this one value, whatever it is."""
    array = np.empty(1, dtype=object)
    array[0] = value
    return array
