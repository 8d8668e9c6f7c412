"""The tutors: what they write, how often they are right, and reading strategies off the text."""

import random
from collections import Counter

import pytest

from upside.models import tutors
from upside.tasks.arithmetic import Arithmetic
from upside.tasks.base import Problem
from upside.tasks.knights import Knights

TASKS = [Arithmetic(), Knights()]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
@pytest.mark.parametrize("strategy", ["steps", "check"])
def test_flawless_solutions_are_right(task: Arithmetic | Knights, strategy: tutors.Style) -> None:
    rng = random.Random(0)
    for problem in task.problems("train", 200):
        response = tutors.solve(problem, rng, strategy, flawless=True)
        assert task.verify(problem, response).correct, response
        assert tutors.style(response) == strategy


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_mixed_quality(task: Arithmetic | Knights) -> None:
    rng = random.Random(0)
    problems = task.problems("train", 1000)
    responses = [tutors.solve(problem, rng) for problem in problems]
    right = [task.verify(p, r).correct for p, r in zip(problems, responses, strict=True)]
    assert 0.25 < sum(map(bool, right)) / len(right) < 0.6
    styles = Counter(map(tutors.style, responses))
    assert set(styles) == {"direct", "steps", "check", "ramble"}
    assert max(map(len, responses)) < 200


def test_same_seed_same_text() -> None:
    problems = Knights().problems("train", 50)
    assert [tutors.solve(p, random.Random(3)) for p in problems] == [
        tutors.solve(p, random.Random(3)) for p in problems
    ]


def test_every_habit_is_used() -> None:
    """Each slip probability set to one changes some solution."""
    problems = [p for task in TASKS for p in task.problems("train", 400)]
    used = set()

    class Spy(dict[str, float]):
        def __getitem__(self, habit: str) -> float:
            used.add(habit)
            return super().__getitem__(habit)

    habits, tutors.HABITS = tutors.HABITS, Spy(tutors.HABITS)
    try:
        for problem in problems:
            tutors.solve(problem, random.Random(problem.id), "steps")
    finally:
        tutors.HABITS = habits
    assert used == set(habits)


@pytest.mark.parametrize(
    ("response", "style"),
    [
        ("#12", "direct"),
        ("#nk", "direct"),
        ("34+7=41#41", "steps"),
        ("34+7=31?41#41", "check"),
        ("Ak:-B,Bn:+A>Aktx;An:-B,Bk#nk", "steps"),
        (" hmm34+7=41?41 so#41", "ramble"),
        ("34+7=41", "none"),
        ("", "none"),
    ],
)
def test_style(response: str, style: str) -> None:
    assert tutors.style(response) == style


def test_slip_examples() -> None:
    assert tutors.step_habit(34, "+", 7) == ("carry", 31)
    assert tutors.step_habit(33, "+", 7) == ("ten", 30)
    assert tutors.step_habit(50, "-", 7) == ("zero", 57)
    assert tutors.step_habit(52, "-", 7) == ("borrow", 55)
    assert tutors.step_habit(7, "*", 8) == ("times_large", 49)


def test_puzzle_without_a_chain() -> None:
    puzzle = Problem("x", "A:+A;B:+B", "kk", 1, {"family": "knights"})
    with pytest.raises(ValueError, match="no chain"):
        tutors.solve(puzzle, random.Random(0), "steps")
