"""Independent responses of one fixed policy, each with the gradient of its log-probability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from upside.rollouts import Rollouts


@dataclass(frozen=True)
class Sample:
    """M responses to each of P prompts.

    rewards: (P, M) float64, NaN where there is no verdict. scores: (P, M, K) grad log pi of each response, whole or
    projected to K dimensions. square_norms: (P, M) |grad log pi|^2, before the projection. fields: name -> (P, M)
    optional fields of Rollouts. metrics: name -> (P, M) further numbers per response. Raises ValueError where shapes
    disagree or a score is not finite.
    """

    rewards: Tensor
    scores: Tensor
    square_norms: Tensor
    fields: Mapping[str, Tensor] = field(default_factory=dict)
    metrics: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        named = {"scores": self.scores, "square_norms": self.square_norms, **self.fields, **self.metrics}
        for name, value in named.items():
            if value.shape[:2] != self.rewards.shape:
                raise ValueError(f"{name}: shape {tuple(value.shape)}; expected (P, M) = {tuple(self.rewards.shape)}")
        bad = ~self.square_norms.isfinite()
        if bool(bad.any()):
            prompt, response = bad.nonzero()[0].tolist()
            raise ValueError(
                f"scores[{prompt}, {response}] is not finite: the model's weights are damaged, or too large for their "
                "dtype"
            )

    @property
    def prompts(self) -> int:
        return self.rewards.shape[0]

    @property
    def samples(self) -> int:
        """Responses per prompt."""
        return self.rewards.shape[1]

    @property
    def lengths(self) -> Tensor:
        """(P, M) tokens of each response, 1 where they were not given."""
        return self.fields.get("lengths", torch.ones_like(self.rewards))

    def rollouts(self, prompts: Tensor, responses: slice, step: int = 1, total_steps: int | None = None) -> Rollouts:
        """The batch of some prompts (B,) and the responses of a slice, prompt after prompt."""
        part = lambda value: value[prompts, responses].reshape(-1)  # noqa: E731
        size = self.rewards[0, responses].numel()
        return Rollouts(
            part(self.rewards),
            torch.arange(len(prompts)).repeat_interleave(size),
            **{name: part(value) for name, value in self.fields.items()},
            metrics={name: part(value) for name, value in self.metrics.items()},
            step=step,
            total_steps=total_steps,
        )

    def oracle_weights(self) -> Tensor:
        """(P, M) R_i - mean of the other rewards of its prompt, 0 without a verdict: the unbiased policy gradient."""
        valid = ~self.rewards.isnan()
        rewards = self.rewards.nan_to_num(0.0)
        count = valid.sum(1, keepdim=True)
        others = (rewards.sum(1, keepdim=True) - rewards) / (count - 1).clamp(min=1)
        return torch.where(valid & (count > 1), rewards - others, 0.0)
