"""The task interface: where prompts come from and how an answer is judged."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from upside.tasks.pictures import Picture, PictureError, check_count
from upside.verifiers.base import Verdict

Split = Literal["train", "test"]


@dataclass(frozen=True)
class Problem:
    """One prompt with its answer.

    id: stable name of the problem; the same problem has the same id in every run and on every machine.
    prompt: what the user asks, before any chat template.
    answer: the gold answer as text.
    level: difficulty on the task's own scale, 0 when it has none.
    metadata: anything else the task wants to keep (family, source row, …).
    system: the system prompt; None for none.
    chat: False for a base model: the prompt is plain text, whatever chat template the tokenizer has.
    images: pictures, at the marks `<image>` of the prompt, or before it where it has none.
    """

    id: str
    prompt: str
    answer: str
    level: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    system: str | None = None
    chat: bool = True
    images: tuple[Picture, ...] = ()

    def __post_init__(self) -> None:
        if self.system is not None and not self.chat:
            raise ValueError(f"problem {self.id!r}: a plain-text prompt (chat=False) has no system prompt")
        if self.images and not self.chat:
            raise PictureError(f"problem {self.id!r}: a plain-text prompt (chat=False) has no place for pictures")
        check_count(self.prompt, self.images, f"problem {self.id!r}")


@runtime_checkable
class Task(Protocol):
    """A source of problems with a verifier. Train and test never share a problem id.

    A task may also have `verify_batch(problems, responses) -> list[Verdict]` (see `judge`), `answer_of(response)` for
    majority votes, `style(response)`, the name of a response's strategy, and `stop`, characters at which a response
    ends (the line break for few-shot prompts in plain text).
    """

    name: str

    def problems(self, split: Split, count: int | None = None, seed: int = 0) -> list[Problem]:
        """`count` distinct problems of the split in an order fixed by `seed` (None: all a finite source has)."""
        ...

    def verify(self, problem: Problem, response: str) -> Verdict:
        """Judge one response. Never evaluates text of the response."""
        ...


def judge(task: Task, problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
    """One verdict a row, by the task's `verify_batch` where it has one, else by `verify` row after row."""
    batch = getattr(task, "verify_batch", None)
    if batch is not None:
        verdicts: list[Verdict] = batch(problems, responses)
        return verdicts
    return [task.verify(problem, response) for problem, response in zip(problems, responses, strict=True)]


def check_request(task: str, split: str, count: int | None) -> None:
    """ValueError naming the task for a split that is none, or a count that is no number of problems."""
    if split not in get_args(Split):
        raise ValueError(f"{task}: split={split!r} must be one of {', '.join(get_args(Split))}")
    if count is not None and (not isinstance(count, int) or count < 0):
        raise ValueError(f"{task}: count={count!r} must be a whole number and not negative")


def in_test_split(problem_id: str, share: float = 0.2) -> bool:
    """Whether a problem belongs to the test split: decided by a hash of its id, so no seed can move it."""
    digest = hashlib.sha256(problem_id.encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64
