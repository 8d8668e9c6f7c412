"""Run by test_world.py under torchrun: the main process is busy longer than an exchange may take."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

from upside.training import world

LIMIT = 6.0


def main(output: str) -> None:
    dist.init_process_group("gloo", timeout=timedelta(seconds=LIMIT))
    gate = world.Gate(dist.get_world_size())
    told = gate.told(f"from {world.rank()}")
    if world.rank() == 0:
        time.sleep(LIMIT + 2)
    gate.wait()
    dist.barrier()
    if world.rank() == 0:
        time.sleep(LIMIT + 2)
        return
    try:
        dist.barrier()
    except RuntimeError as error:
        Path(output, "lost").write_text(f"{told}" if world.is_lost(error) else str(error))


if __name__ == "__main__":
    main(sys.argv[1])
