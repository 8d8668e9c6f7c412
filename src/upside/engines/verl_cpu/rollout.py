"""A rollout backend for verl on the CPU: one Ray actor per replica that samples with Upside's own sampler."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import torch
from verl.workers.rollout.base import _ROLLOUT_REGISTRY, BaseRollout
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

NAME = "upside_cpu"
GATHER = 0.03
"""Seconds to wait for more requests before a batch is sampled."""

Request = tuple[list[int], dict[str, Any], "asyncio.Future[TokenOutput]"]


def install() -> None:
    """Make `actor_rollout_ref.rollout.name=upside_cpu` known to verl."""
    _ROLLOUT_REGISTRY[(NAME, "async")] = f"{__name__}.Adapter"
    RolloutReplicaRegistry.register(NAME, lambda: Replica)


class Server:
    """The Ray actor. It answers prompts of token ids with token ids, many requests in one batch.

    path: model folder whose weights it starts from. limit: tokens of a response.
    """

    def __init__(self, path: str, limit: int, seed: int) -> None:
        from upside.models.loading import load_model

        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self.model, tokenizer = load_model(path, dtype=torch.float32)
        ends = self.model.generation_config.eos_token_id
        self.ends = [*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id]
        self.limit, self.step = limit, 0
        self.queue: list[Request] = []
        self.worker: asyncio.Task[None] | None = None

    async def ready(self) -> None:
        """Returns once the model is loaded."""

    async def load_weights(self, weights: dict[str, torch.Tensor], step: int | None) -> None:
        """Replace the weights; a tied head may be missing. Raises RuntimeError for names the model does not have."""
        unexpected = self.model.load_state_dict(weights, strict=False).unexpected_keys
        if unexpected:
            raise RuntimeError(f"the trained model has weights that {NAME} does not know: {', '.join(unexpected[:3])}")
        self.step = self.step if step is None else step

    async def nothing(self, *args: Any, **kwargs: Any) -> None:
        """What verl asks of servers that hold GPU memory."""

    wake_up = sleep = clear_kv_cache = release_kv_cache = resume_kv_cache = nothing
    abort_all_requests = resume_generation = start_profile = stop_profile = nothing

    async def generate(
        self, request_id: str, *, prompt_ids: Sequence[int], sampling_params: dict[str, Any], **kwargs: Any
    ) -> TokenOutput:
        """One response. Images and videos are refused."""
        if any(kwargs.get(name) for name in ("image_data", "video_data", "audio_data")):
            raise ValueError(f"{NAME} reads text only")
        future: asyncio.Future[TokenOutput] = asyncio.get_running_loop().create_future()
        self.queue.append((list(prompt_ids), sampling_params, future))
        if self.worker is None or self.worker.done():
            self.worker = asyncio.create_task(self._serve())
        return await future

    async def _serve(self) -> None:
        while self.queue:
            await asyncio.sleep(GATHER)
            settings = self.queue[0][1]
            batch = [request for request in self.queue if request[1] == settings]
            self.queue = [request for request in self.queue if request[1] != settings]
            batch.sort(key=lambda request: request[0])  # equal prompts are read once
            try:
                outputs = await asyncio.to_thread(self._sample, [prompt for prompt, _, _ in batch], settings)
            except Exception as error:
                for _, _, future in batch:
                    future.set_exception(error)
                continue
            for (_, _, future), output in zip(batch, outputs, strict=True):
                future.set_result(output)

    def _sample(self, prompts: list[list[int]], settings: dict[str, Any]) -> list[TokenOutput]:
        from upside.engines.sampler import sample

        temperature = settings.get("temperature", 1.0)
        samples = sample(
            self.model,
            prompts,
            eos_ids=[token for token in self.ends if token is not None],
            max_new_tokens=settings.get("max_tokens") or settings.get("max_new_tokens") or self.limit,
            temperature=temperature or 1.0,
            top_k=max(settings.get("top_k", 0), 0),
            top_p=settings.get("top_p", 1.0),
            greedy=temperature == 0,
        )
        return [
            TokenOutput(
                token_ids=ids, log_probs=logps, stop_reason="completed", extra_fields={"global_steps": self.step}
            )
            for ids, logps in zip(samples.ids, samples.logps, strict=True)
        ]


class Replica(RolloutReplica):
    """verl's handle on one server."""

    async def launch_servers(self) -> None:
        import ray

        name = _server_name(self.replica_rank)
        make = ray.remote(Server).options(
            name=name,
            num_cpus=0,
            max_concurrency=self.max_concurrency,
            runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}},
        )
        server = make.remote(
            self.model_config["path"], self.config.response_length, self.config.seed + self.replica_rank
        )
        await server.ready.remote()
        self.servers, self._server_handle, self._server_address = [server], server, name


class Adapter(BaseRollout):
    """In a training worker: sends the trained weights to the replica's server."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1) -> None:
        super().__init__(config, model_config, device_mesh)
        size = (
            self.config.tensor_model_parallel_size
            * self.config.data_parallel_size
            * self.config.pipeline_model_parallel_size
        )
        rank = int(os.environ["RANK"])
        self.server = _server_name(rank // size if replica_rank == -1 else replica_rank)
        self.leads = rank % size == 0

    async def resume(self, tags: list[str]) -> None:
        pass

    async def release(self) -> None:
        pass

    async def update_weights(self, weights: Any, global_steps: int | None = None, **kwargs: Any) -> None:
        import ray
        from verl.workers.rollout.utils import ensure_async_iterator

        full = {}
        async for name, value in ensure_async_iterator(weights):  # a collective: every rank takes part
            full[name] = value.detach().float().cpu().clone()
        if self.leads:
            await ray.get_actor(self.server).load_weights.remote(full, global_steps)


def _server_name(replica: int) -> str:
    return f"{NAME}_server_{replica}"
