"""Upside: advantage estimation for reinforcement learning of reasoning models."""

from upside import schedules
from upside.chain import Advantages, Estimator, Stage, StageOutput, chain, estimator, stage
from upside.estimators.presets import PRESETS as _PRESETS
from upside.explain import explain
from upside.registry import register_preset, register_stage
from upside.rollouts import Rollouts

__version__ = "0.1.0"


def presets() -> list[str]:
    """Names of all registered estimators, sorted."""
    from upside.registry import load_plugins

    load_plugins()
    return sorted(_PRESETS)


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
]
