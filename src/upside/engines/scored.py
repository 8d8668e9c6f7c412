"""What a trainer hands over after each batch of responses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from upside.chains import Advantages
from upside.rollouts import Rollouts


@dataclass(frozen=True)
class ScoredRollouts:
    """What one training batch was made of, in gathered order; built on the main process only.

    prompts, completions: (N) as TRL holds them, text or lists of messages.
    batch, advantages: what the estimator read and returned.
    correct: (N) bool, None where unknown; None altogether without a `correctness` function.
    rewards_per_func: (N, F) before weighting, NaN where a function returned None.
    extras: column -> (N) what the reward functions logged of these responses with `log_extra`.
    reference_tokens: generated for the reference's responses; None where the estimator reads none.
    """

    prompts: list[Any]
    completions: list[Any]
    batch: Rollouts
    advantages: Advantages
    correct: list[bool | None] | None
    rewards_per_func: Tensor
    extras: dict[str, list[Any]] = field(default_factory=dict)
    reference_tokens: int | None = None
