"""Upside: advantage estimation for reinforcement learning of reasoning models.

Names are imported when they are first used, so that `upside --help` need not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from upside import schedules, testing
    from upside.chains import Advantages, Estimator, Stage, StageOutput, chain, estimator, stage
    from upside.explanation import explain, why
    from upside.registry import presets, register_preset, register_stage
    from upside.rollouts import Rollouts

__version__ = "0.1.0"

_HOME = {
    "Advantages": "upside.chains",
    "Estimator": "upside.chains",
    "Rollouts": "upside.rollouts",
    "Stage": "upside.chains",
    "StageOutput": "upside.chains",
    "chain": "upside.chains",
    "estimator": "upside.chains",
    "explain": "upside.explanation",
    "presets": "upside.registry",
    "register_preset": "upside.registry",
    "register_stage": "upside.registry",
    "stage": "upside.chains",
    "why": "upside.explanation",
}

__all__ = [
    "Advantages",
    "Estimator",
    "Rollouts",
    "Stage",
    "StageOutput",
    "__version__",
    "chain",
    "estimator",
    "explain",
    "presets",
    "register_preset",
    "register_stage",
    "schedules",
    "stage",
    "testing",
    "why",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name in ("schedules", "testing"):
        value = import_module(f"upside.{name}")
    else:
        raise AttributeError(f"module 'upside' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
