"""Parameters that are cut over the processes: FSDP2 and DeepSpeed ZeRO-3.

Sampling makes as many forward passes as the longest response has tokens, and that differs between processes, while a
pass over cut parameters is an exchange that all must take part in. So FSDP2's parameters are gathered once before
sampling and cut again after it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor


def is_sharded(trainer: Any) -> bool:
    """Whether no process holds all parameters of the trainer's model."""
    return bool(trainer.is_fsdp_enabled or zero3())


def zero3() -> bool:
    """Whether DeepSpeed cuts the parameters themselves (stage 3)."""
    from transformers.integrations import is_deepspeed_zero3_enabled

    return bool(is_deepspeed_zero3_enabled())


def fsdp_asked() -> bool:
    """Whether `accelerate launch` was asked for FSDP."""
    return os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"


def loads_on_one_process() -> bool:
    """Whether FSDP leaves all processes but one without weights until training starts."""
    return fsdp_asked() and os.environ.get("FSDP_CPU_RAM_EFFICIENT_LOADING", "false").lower() == "true"


@contextmanager
def gathered(trainer: Any, model: Any) -> Iterator[None]:
    """Within it every process holds all parameters of the trainer's (unwrapped) model, and forward passes exchange
    nothing. Every process must enter and leave it. A model that is not cut stays as it is.

    Raises ValueError under FSDP1 and ZeRO-3, whose parameters cannot be kept gathered this way.
    """
    if not is_sharded(trainer):
        yield
        return
    if zero3() or trainer.accelerator.state.fsdp_plugin.fsdp_version != 2:
        raise ValueError(
            "sampling from cut parameters works with FSDP2 (fsdp_version: 2); with FSDP1 and ZeRO-3 use "
            "sampler=transformers or sampler=vllm, and no evaluation during training"
        )
    from torch.distributed.fsdp import FSDPModule

    parts = [part for part in model.modules() if isinstance(part, FSDPModule)]
    for part in parts:
        part.set_reshard_after_forward(False, recurse=False)
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.reshard()
            part.set_reshard_after_forward(trainer.accelerator.state.fsdp_plugin.reshard_after_forward, recurse=False)


def whole_state(trainer: Any) -> dict[str, Tensor]:
    """All weights by name, on the CPU of the main process ({} or a part of them elsewhere). Every process must call
    it."""
    state: dict[str, Tensor] = trainer.accelerator.get_state_dict(trainer.model_wrapped)
    return state
