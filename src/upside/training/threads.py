"""How many CPU threads a process uses."""

from __future__ import annotations

import os


def set_threads(wanted: int | None = None) -> int:
    """Set torch's CPU threads and return the number.

    Default: OMP_NUM_THREADS where it is set, else the cores this process may use, shared between the processes of a
    distributed run, at most 4 (small models do not gain from more).
    """
    import torch

    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    number = wanted or int(os.environ.get("OMP_NUM_THREADS", "0")) or max(1, min(4, cores // processes))
    torch.set_num_threads(number)
    return number
