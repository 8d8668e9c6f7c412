"""Multi-step arithmetic, procedurally generated, easy to hard.

A prompt is an expression over + - and *, such as ``34+7-9`` or ``6*8+7-9+5``: a two-digit number or a product of
two digits, then digits to add and subtract. Every intermediate result has two digits. The answer is a number, given
after the last ``#`` of a response: ``6*8=48;48+7=55;55-9=46;46+5=51#51``.

| level | steps | starts with |
|---|---|---|
| 1 | 1 | a number |
| 2 | 2 | a number |
| 3 | 3 | a product |
| 4 | 4 | a product |
| 5 | 5 | a product |
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Protocol

from upside.tasks.base import Problem, Split, Verdict, check_request, in_test_split

LEVELS: dict[int, tuple[int, bool]] = {1: (1, False), 2: (2, False), 3: (3, True), 4: (4, True), 5: (5, True)}
"""level -> (steps, whether it starts with a product)."""

RANGE = range(10, 100)
"""What intermediate results may be."""

ATTEMPTS = 2_000
"""Draws without a new problem after which a source is taken to be exhausted."""

_ANSWER = re.compile(r"\s*(\d{1,6})\s*", re.ASCII)


def apply(left: int, sign: str, right: int) -> int:
    """One operation: + - or *. Raises KeyError for any other sign."""
    return {"+": left + right, "-": left - right, "*": left * right}[sign]


def parse(expression: str) -> list[str]:
    """Split an expression into operands and signs: ``"12+3*4"`` -> ``["12", "+", "3", "*", "4"]``."""
    return re.findall(r"\d+|[-+*]", expression)


def evaluate(expression: str) -> int | None:
    """The value of an expression worked from left to right, or None when a result leaves `RANGE`."""
    first, *rest = parse(expression)
    value = int(first)
    for sign, operand in zip(rest[::2], rest[1::2], strict=True):
        value = apply(value, sign, int(operand))
        if value not in RANGE:
            return None
    return value


def draw(rng: random.Random, level: int) -> Problem:
    """One random problem of a level, of either split."""
    steps, product = LEVELS[level]
    while True:
        start = f"{rng.randint(2, 9)}*{rng.randint(2, 9)}" if product else str(rng.choice(RANGE))
        rest = (f"{rng.choice('+-')}{rng.randint(2, 9)}" for _ in range(steps - product))
        expression = start + "".join(rest)
        value = evaluate(expression)
        if value is not None:
            return Problem(f"arithmetic/{expression}", expression, str(value), level, {"family": "arithmetic"})


def check_levels(levels: Sequence[int], known: Sequence[int], task: str) -> tuple[int, ...]:
    """Validate a choice of levels. Raises ValueError naming the task, the bad level and the known ones."""
    bad = [level for level in levels if level not in known]
    if bad or not levels:
        raise ValueError(f"{task}: levels={list(levels)!r} must be a non-empty choice of {list(known)}")
    return tuple(levels)


class Drawable(Protocol):
    """A task that draws random problems of its levels."""

    name: str
    levels: tuple[int, ...]

    def draw(self, rng: random.Random, split: Split) -> Problem:
        """One problem of a split; may repeat an earlier one."""
        ...


class Arithmetic:
    """The task ``arithmetic``.

    levels: which levels to draw from, each equally often (default: all of 1..5).
    """

    name = "arithmetic"

    def __init__(self, levels: Sequence[int] = tuple(LEVELS)) -> None:
        self.levels = check_levels(levels, tuple(LEVELS), self.name)

    def draw(self, rng: random.Random, split: Split) -> Problem:
        """One problem of a split; may repeat an earlier one."""
        level = rng.choice(self.levels)
        while True:
            problem = draw(rng, level)
            if in_test_split(problem.id) == (split == "test"):
                return problem

    def problems(self, split: Split, count: int | None = None, seed: int = 0) -> list[Problem]:
        """`count` distinct problems (default 1000). Raises ValueError when the levels hold fewer."""
        return distinct(self, split, 1000 if count is None else count, seed)

    def verify(self, problem: Problem, response: str) -> Verdict:
        """Score 1.0 when the text after the last ``#`` is the answer, else 0.0 (also for none)."""
        return number_verdict(problem, response)


def number_verdict(problem: Problem, response: str) -> Verdict:
    """Score 1.0 when the text after the last ``#`` is the problem's whole number, else 0.0 (also for none)."""
    match = _ANSWER.fullmatch(final_answer(response))
    correct = match is not None and int(match[1]) == int(problem.answer)
    return Verdict(float(correct), correct)


def final_answer(response: str, limit: int = 64) -> str:
    """The text after the last ``#``; empty when there is none or it exceeds `limit` characters."""
    _, mark, answer = response.rpartition("#")
    return answer if mark and len(answer) <= limit else ""


def distinct(task: Drawable, split: Split, count: int, seed: int) -> list[Problem]:
    """`count` distinct problems drawn from `task` in an order fixed by the seed."""
    check_request(task.name, split, count)
    rng = random.Random(f"{task.name}/{split}/{seed}")
    found: dict[str, Problem] = {}
    misses = 0
    while len(found) < count:
        problem = task.draw(rng, split)
        misses = misses + 1 if problem.id in found else 0
        found.setdefault(problem.id, problem)
        if misses > ATTEMPTS:
            raise ValueError(
                f"{task.name}: only {len(found)} distinct {split} problems found at levels "
                f"{list(task.levels)}, {count} asked for; ask for fewer or add levels"
            )
    return list(found.values())
