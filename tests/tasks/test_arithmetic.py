"""The arithmetic task: generator, splits, verifier."""

import random
import re

import pytest

from upside.tasks import arithmetic
from upside.tasks.arithmetic import Arithmetic
from upside.tasks.base import Problem, Task, in_test_split

TASK = Arithmetic()
PROBLEM = Problem("arithmetic/34+7-9", "34+7-9", "32", 2, {"family": "arithmetic"})


def reference(expression: str) -> list[int]:
    """Every intermediate result, by an independent reading of the expression."""
    values, total = [], 0
    for sign, number, factor in re.findall(r"([+-]?)(\d+)(?:\*(\d+))?", expression):
        term = int(number) * int(factor or 1)
        total += -term if sign == "-" else term
        values.append(total)
    return values


def test_is_a_task() -> None:
    assert isinstance(TASK, Task)


@pytest.mark.parametrize("level", arithmetic.LEVELS)
def test_answers_and_range(level: int) -> None:
    for problem in Arithmetic([level]).problems("train", 100, seed=level):
        results = reference(problem.prompt)
        assert int(problem.answer) == results[-1]
        assert all(10 <= value <= 99 for value in results)
        assert len(re.findall(r"[-+*]", problem.prompt)) == arithmetic.LEVELS[level][0]
        assert problem.level == level
        assert len(problem.prompt) <= 16


def test_fixed_by_seed_and_distinct() -> None:
    first, again, other = (TASK.problems("train", 300, seed) for seed in (1, 1, 2))
    assert first == again
    assert [p.id for p in first] != [p.id for p in other]
    assert len({p.id for p in first}) == 300
    assert TASK.problems("train", 100, 1) == first[:100]
    assert TASK.problems("train", 0) == []


def test_splits_never_meet() -> None:
    train = {p.id for seed in range(3) for p in TASK.problems("train", 500, seed)}
    test = {p.id for seed in range(3) for p in TASK.problems("test", 500, seed)}
    assert not train & test
    assert all(in_test_split(i) for i in test)
    assert not any(in_test_split(i) for i in train)


@pytest.mark.parametrize(
    ("response", "correct"),
    [
        ("#32", True),
        ("34+7=41;41-9=32#32", True),
        ("#31#32", True),
        (" hmm # 32 \n", True),
        ("#032", True),
        ("#31", False),
        ("32", False),
        ("", False),
        ("#", False),
        ("#32#", False),
        ("#3 2", False),
        ("#-32", False),
        ("#32.0", False),
        ("#thirty", False),
        ("#٣٢", False),
        ("#__import__('os')", False),
        ("#" + "9" * 1_000_000, False),
        ("#32" + " " * 1_000_000, False),
        ("#" * 1_000_000 + "32", True),
    ],
)
def test_verify(response: str, correct: bool) -> None:
    verdict = TASK.verify(PROBLEM, response)
    assert (verdict.score, verdict.correct) == (float(correct), correct)


def test_levels() -> None:
    easy = Arithmetic(levels=[1, 2]).problems("test", 50)
    assert {p.level for p in easy} == {1, 2}
    with pytest.raises(ValueError, match=r"arithmetic: levels=\[7\]"):
        Arithmetic(levels=[7])
    with pytest.raises(ValueError, match="non-empty"):
        Arithmetic(levels=[])


def test_more_than_there_are() -> None:
    with pytest.raises(ValueError, match="ask for fewer or add levels"):
        Arithmetic(levels=[1]).problems("test", 5000)
    with pytest.raises(ValueError, match="count=-1"):
        TASK.problems("test", -1)


def test_evaluate_outside_range() -> None:
    assert arithmetic.evaluate("95+9") is None
    assert arithmetic.evaluate("2*3+9") is None
    assert arithmetic.evaluate("9*9-9") == 72
    rng = random.Random(0)
    assert arithmetic.draw(rng, 5).prompt[1] == "*"
