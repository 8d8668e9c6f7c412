"""verl on a laptop: a CPU platform and a rollout backend of transformers, for smoke runs and tests of real verl runs.

verl 0.9.1 has no CPU platform. With VERL_PLATFORM=cpu in the environment, `upside.engines.verl.plugin` calls `install`,
and verl runs end to end under Ray with FSDP2 over gloo: `actor_rollout_ref.rollout.name=upside_cpu`, and fake GPUs for
Ray's scheduler (`+ray_kwargs.ray_init.num_gpus=2`). docs/verl.md has a whole command. It is slow, keeps everything in
plain memory, and unlike the plug-in for real machines it replaces three functions of verl and torch that assume an
accelerator. Nothing here is active, or even imported, on any other platform.
"""

from __future__ import annotations

import os


def install() -> None:
    """Register platform and rollout backend; see the module. Done by the plug-in before verl's own modules load."""
    from upside.engines.verl_cpu import platform, rollout

    os.environ.setdefault("VERL_ENGINE_DEVICE", "cuda")  # the key under which verl registers its FSDP engine
    platform.install()
    rollout.install()
