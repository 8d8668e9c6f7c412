"""The reward interface: many responses in, one score each out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from upside.tasks.base import Problem


class RewardError(ValueError):
    """A reward could not be set up, raised, or returned something that is not one score a response."""


@dataclass(frozen=True)
class Completions:
    """N responses to judge, in any order; row i belongs to `problems[i]`.

    lengths: generated tokens including the end token, before any loss masking.
    truncated: whether the response hit the token limit.
    """

    problems: Sequence[Problem]
    responses: Sequence[str]
    lengths: Sequence[int]
    truncated: Sequence[bool]

    def __post_init__(self) -> None:
        sizes = {name: len(getattr(self, name)) for name in ("problems", "responses", "lengths", "truncated")}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"Completions: fields differ in length: {sizes}; give one entry a response")

    def __len__(self) -> int:
        return len(self.responses)

    def row(self, index: int) -> Completions:
        """The one-row batch of a response."""
        at = slice(index, index + 1)
        return Completions(self.problems[at], self.responses[at], self.lengths[at], self.truncated[at])


@dataclass(frozen=True)
class Scores:
    """What one reward says. values: (N,) score, None where none could be computed (never 0 instead).
    correct: (N,) whether the answer is right, None where unknown; None altogether for a reward that does not
    judge correctness. not_finite: how many NaN or infinite scores became None."""

    values: list[float | None]
    correct: list[bool | None] | None = None
    not_finite: int = 0


class Reward(Protocol):
    """A reward function. `name` stands in logs and errors."""

    name: str

    def __call__(self, completions: Completions) -> Scores:
        """One score a response."""
        ...
