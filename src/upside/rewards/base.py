"""The reward interface: many responses in, one score each out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Protocol

from upside.tasks.base import Problem
from upside.verifiers.base import Outcome


class RewardError(ValueError):
    """A reward could not be set up, raised, or returned something that is not one score a response."""


def needs_judge(name: str) -> str:
    """The message for a reward of that name where nothing says which answers are right."""
    return (
        f"reward {name!r} needs to know which answers are right, and no reward of the list judges that; add one "
        f"(verdict, math, kk, geometry, exact), with weight 0 if it shall not count itself"
    )


@dataclass(frozen=True)
class Completions:
    """N responses to judge, in any order; row i belongs to `problems[i]`.

    lengths: generated tokens including the end token, before any loss masking.
    truncated: whether the response hit the token limit.
    groups: id of the group each response belongs to (one group: the responses to one occurrence of a prompt), for
        rewards that compare within it; None where the caller has none.
    correct: whether each answer is right, None where unknown: what the judging reward said, given to the rewards
        that shape by it. None altogether before anything has judged.
    """

    problems: Sequence[Problem]
    responses: Sequence[str]
    lengths: Sequence[int]
    truncated: Sequence[bool]
    groups: Sequence[Hashable] | None = None
    correct: Sequence[bool | None] | None = None

    def __post_init__(self) -> None:
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        sizes = {name: len(column) for name, column in columns.items() if column is not None}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"Completions: fields differ in length: {sizes}; give one entry a response")

    def __len__(self) -> int:
        return len(self.responses)

    def judged(self, name: str) -> Sequence[bool | None]:
        """`correct`, for the reward of that name. RewardError when nothing has judged."""
        if self.correct is None:
            raise RewardError(needs_judge(name))
        return self.correct

    def row(self, index: int) -> Completions:
        """The one-row batch of a response."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: c[index : index + 1] for name, c in columns.items() if c is not None})


@dataclass(frozen=True)
class Scores:
    """What one reward says. values: (N,) score, None where none could be computed (never 0 instead).
    correct: (N,) whether the answer is right, None where unknown; None altogether for a reward that does not
    judge correctness. outcomes: (N,) how each judgement ended, None altogether for a reward that does not judge.
    not_finite: how many NaN or infinite scores became None."""

    values: list[float | None]
    correct: list[bool | None] | None = None
    outcomes: list[Outcome | None] | None = None
    not_finite: int = 0


class Reward(Protocol):
    """A reward function. `name` stands in logs and errors. Three attributes may say more, all False where missing:

    judges: it says which answers are right: its Scores hold `correct` and `outcomes`, and it runs before the others.
    needs_correct: it reads `completions.correct`.
    needs_groups: it reads `completions.groups` and must see whole groups, whichever process holds their rows.
    """

    name: str

    def __call__(self, completions: Completions) -> Scores:
        """One score a response."""
        ...
