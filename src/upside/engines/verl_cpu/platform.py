"""The CPU as a platform of verl: Ray's resource "GPU" counts workers, collectives run over gloo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry

SHIMS: dict[str, Any] = {
    "empty_cache": lambda: None,
    "memory_allocated": lambda *_: 0,
    "memory_reserved": lambda *_: 0,
    "max_memory_allocated": lambda *_: 0,
    "max_memory_reserved": lambda *_: 0,
    "reset_peak_memory_stats": lambda *_: None,
    "manual_seed": torch.manual_seed,
    "get_device_name": lambda *_: "CPU",
    "set_rng_state": torch.set_rng_state,
    "get_rng_state": torch.get_rng_state,
}
"""What verl calls on `torch.<device>` and `torch.cpu` lacks."""


class PlatformCPU(PlatformBase):
    """See PlatformBase for what each member is for."""

    device_name = "cpu"
    vendor_name = "generic"
    device_module: ModuleType = torch.cpu

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return True

    def current_device(self) -> str:
        return "cpu"

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        pass

    def synchronize(self, device_index: int | None = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        pass

    def profiler_stop(self) -> None:
        pass

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> Any:
        return None


def install() -> None:
    """Register the platform, and lift what verl and torch assume of an accelerator."""
    PlatformRegistry.register(platform="cpu")(PlatformCPU)
    for name, value in SHIMS.items():
        if not hasattr(torch.cpu, name):
            setattr(torch.cpu, name, value)
    _plain_gloo()
    _unpinned_offload()


def _plain_gloo() -> None:
    """verl asks for "cpu:gloo,cpu:gloo" here, which torch refuses as a duplicate."""
    import verl.utils.distributed as distributed

    original = distributed.initialize_global_process_group_ray

    def initialize(timeout_second: int | None = None, backend: str | None = None) -> Any:
        return original(timeout_second, backend or "gloo")

    distributed.initialize_global_process_group_ray = initialize


def _unpinned_offload() -> None:
    """A reference policy is offloaded to pinned memory, and pinning needs an accelerator."""
    import torch.distributed.fsdp as fsdp

    class Unpinned(fsdp.CPUOffloadPolicy):
        def __init__(self, pin_memory: bool = False) -> None:
            super().__init__(pin_memory=False)

    fsdp.CPUOffloadPolicy = Unpinned  # type: ignore[misc]
