"""Multi-step arithmetic, procedurally generated, easy to hard.

A prompt is an expression over + - and * with the usual precedence, such as ``23+7*8-19``. Products are of two
numbers from 2 to 9. Done in the usual order (products first, then sums from left to right) every intermediate
result lies in 0..99. The answer is a number, given after the last ``#`` of a response:
``7*8=56;23+56=79;79-19=60#60``.

| level | operands | products |
|---|---|---|
| 1 | 2 | 0 |
| 2 | 3 | 0 |
| 3 | 3 | 1 |
| 4 | 4 | 1 |
| 5 | 5 | 1 |
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Protocol

from upside.tasks.base import Problem, Split, Verdict, in_test_split

LEVELS: dict[int, tuple[int, int]] = {1: (2, 0), 2: (3, 0), 3: (3, 1), 4: (4, 1), 5: (5, 1)}
"""level -> (operands, products)."""

LIMIT = 99
"""Largest intermediate result."""

ATTEMPTS = 2_000
"""Draws without a new problem after which a source is taken to be exhausted."""

_ANSWER = re.compile(r"\s*(\d{1,6})\s*")


def apply(left: int, sign: str, right: int) -> int:
    """One operation: + - or *. Raises KeyError for any other sign."""
    return {"+": left + right, "-": left - right, "*": left * right}[sign]


def parse(expression: str) -> list[str]:
    """Split an expression into operands and signs: ``"12+3*4"`` -> ``["12", "+", "3", "*", "4"]``."""
    return re.findall(r"\d+|[-+*]", expression)


def next_step(tokens: Sequence[str]) -> int:
    """Index of the sign to work out first: the first product, else the first sign."""
    return tokens.index("*") if "*" in tokens else 1


def evaluate(expression: str) -> int | None:
    """The value of an expression, or None when an intermediate result leaves 0..99."""
    tokens = parse(expression)
    while len(tokens) > 1:
        at = next_step(tokens)
        value = apply(int(tokens[at - 1]), tokens[at], int(tokens[at + 1]))
        if not 0 <= value <= LIMIT:
            return None
        tokens[at - 1 : at + 2] = [str(value)]
    return int(tokens[0])


def draw(rng: random.Random, level: int) -> Problem:
    """One random problem of a level, of either split."""
    operands, products = LEVELS[level]
    while True:
        signs = [rng.choice("+-") for _ in range(operands - 1)]
        if products:
            signs[rng.randrange(operands - 1)] = "*"
        numbers = [
            rng.randint(2, 9) if "*" in signs[max(i - 1, 0) : i + 1] else rng.randint(2, 59) for i in range(operands)
        ]
        expression = "".join(f"{n}{s}" for n, s in zip(numbers, [*signs, ""], strict=True))
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
        match = _ANSWER.fullmatch(final_answer(response))
        correct = match is not None and int(match[1]) == int(problem.answer)
        return Verdict(float(correct), correct)


def final_answer(response: str, limit: int = 64) -> str:
    """The text after the last ``#``; empty when there is none or it exceeds `limit` characters."""
    _, mark, answer = response.rpartition("#")
    return answer if mark and len(answer) <= limit else ""


def distinct(task: Drawable, split: Split, count: int, seed: int) -> list[Problem]:
    """`count` distinct problems drawn from `task` in an order fixed by the seed."""
    if count < 0:
        raise ValueError(f"{task.name}: count={count} must not be negative")
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
