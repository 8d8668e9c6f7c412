"""`upside` with FSDP2 over gloo on the CPU: run under torchrun with accelerate's FSDP variables.

accelerate cuts parameters on GPUs only. Here it is told that the processes are on an accelerator, and everything behind
that (fully_shard, gathering, checkpoints) runs for real on CPU tensors.
"""

from __future__ import annotations

from typing import Any

from accelerate.state import PartialState
from accelerate.utils import DistributedType

from upside.cli import main

as_found = PartialState.__init__


def as_accelerator(self: Any, *args: Any, **options: Any) -> None:
    as_found(self, *args, **options)
    if PartialState._shared_state["distributed_type"] == DistributedType.MULTI_CPU:
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_XPU


if __name__ == "__main__":
    PartialState.__init__ = as_accelerator
    main()
