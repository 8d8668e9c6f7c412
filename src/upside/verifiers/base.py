"""The verifier interface: gold answers and responses as text in, verdicts out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

Outcome = Literal["correct", "wrong", "unparsed", "timeout", "error"]
"""How a judgement ended. unparsed: the response gives no answer that can be read; timeout: the check was stopped at
its time or memory limit; error: the check itself failed."""


@dataclass(frozen=True)
class Verdict:
    """The judgement of one response.

    score: the reward, or None when no reward could be computed (None is never 0).
    correct: whether the answer is right, apart from any shaping; None when unknown.
    outcome: how the judgement ended; where not given, it follows from `correct` (None stays None).
    """

    score: float | None
    correct: bool | None
    outcome: Outcome | None = None

    def __post_init__(self) -> None:
        if self.outcome is None and self.correct is not None:
            object.__setattr__(self, "outcome", "correct" if self.correct else "wrong")


@runtime_checkable
class Verifier(Protocol):
    """Judges responses against gold answers, whole batches at a time. Never evaluates text of a response."""

    name: str

    def __call__(self, golds: Sequence[str], responses: Sequence[str]) -> list[Verdict]:
        """One verdict a row; row i is the response i against gold i."""
        ...

    def usable(self, gold: str) -> bool:
        """Whether some response could be judged right against this gold; a data set drops the others."""
        ...

    def answer_of(self, response: str) -> str | None:
        """The final answer a response gives, for majority votes; None when there is none."""
        ...
