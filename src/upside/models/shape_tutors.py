"""Tutors of the task `shapes`: worked solutions *of mixed quality*, as `upside.models.tutors` writes them for text.

A tutor follows one rule of `upside.tasks.shapes.rules` without slips; the rule may be the wrong one, or none at all (a
guess). What a learner has to find out by reinforcement is which rule a question calls for. The rules differ in length:
`direct` < `sum`, `product`, `one` < `double`, `rest`, `twice` < `chain`, `add_parts`.
"""

from __future__ import annotations

import random

from upside.tasks.base import Problem
from upside.tasks.shapes import rules, worked

RIGHT, WRONG, DIRECT = SHARES = (0.45, 0.35, 0.20)
"""Share of right rules, wrong rules and direct answers in the training data."""

USUAL = 0.7
"""Of the right rules, the share of the usual (first) one."""

GUESS = (0.30, 0.20, 0.15, 0.10, 0.05)
"""How often a direct answer is right, by level 1..5."""

NEAR = (-10, -4, -3, -2, -1, 1, 2, 3, 4, 10)
"""How far off a wrong direct answer is."""


def solve(problem: Problem, rng: random.Random, strategy: str | None = None, flawless: bool = False) -> tuple[str, str]:
    """(worked solution, name of its rule), by the strategy given or by one drawn at `SHARES`.

    flawless: right rules only. Raises ValueError for a strategy that does not apply to the problem.
    """
    chosen = strategy or _strategy(problem, rng, flawless)
    if chosen == "direct":
        return f"#{problem.answer if flawless else guess(problem, rng)}", chosen
    return worked(problem, chosen), chosen


def _strategy(problem: Problem, rng: random.Random, flawless: bool) -> str:
    right, wrong = rules(problem)
    kind = "right" if flawless else rng.choices(("right", "wrong", "direct"), weights=SHARES)[0]
    if kind == "direct":
        return kind
    if kind == "wrong" and wrong:
        return rng.choice(wrong)
    return right[0] if len(right) == 1 or rng.random() < USUAL else rng.choice(right[1:])


def guess(problem: Problem, rng: random.Random) -> str:
    """A direct answer: right at the level's probability, else near the right one, never below 1."""
    answer = int(problem.answer)
    if rng.random() < GUESS[problem.level - 1]:
        return problem.answer
    return str(rng.choice([answer + off for off in NEAR if answer + off >= 1]))
