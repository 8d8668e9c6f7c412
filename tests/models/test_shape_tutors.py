"""Tutors of the task `shapes`: shares, strategies, seeds."""

import random
from collections import Counter

import pytest

from upside.models.shape_tutors import GUESS, SHARES, guess, solve
from upside.tasks.shapes import Shapes, rules, style

TASK = Shapes()
PROBLEMS = TASK.problems("train", 2000, 0)


def test_right_wrong_and_direct_at_their_shares():
    rng, kinds, lengths = random.Random(0), Counter(), {}
    for problem in PROBLEMS:
        text, strategy = solve(problem, rng)
        assert style(text) == strategy
        right, _ = rules(problem)
        kinds["direct" if strategy == "direct" else "right" if strategy in right else "wrong"] += 1
        lengths.setdefault(strategy, []).append(len(text))
        if strategy != "direct":
            assert TASK.verify(problem, text).correct == (strategy in right)
    for kind, share in zip(("right", "wrong", "direct"), SHARES, strict=True):
        assert kinds[kind] / len(PROBLEMS) == pytest.approx(share, abs=0.05)
    mean = {strategy: sum(found) / len(found) for strategy, found in lengths.items()}
    assert mean["direct"] < mean["sum"] < mean["double"] < mean["chain"] < mean["add_parts"]


def test_flawless_solutions_are_right():
    rng = random.Random(1)
    assert all(TASK.verify(p, solve(p, rng, flawless=True)[0]).correct for p in PROBLEMS)


def test_fixed_by_seed():
    texts = [[solve(p, random.Random(seed)) for p in PROBLEMS[:50]] for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_guesses():
    rng = random.Random(2)
    easy = [p for p in PROBLEMS if p.level == 1]
    hits = sum(guess(p, rng) == p.answer for p in easy for _ in range(5)) / (5 * len(easy))
    assert hits == pytest.approx(GUESS[0], abs=0.05)
    assert all(int(guess(p, rng)) >= 1 for p in easy)


def test_a_strategy_of_another_question():
    problem = next(p for p in PROBLEMS if p.prompt == "angle?")
    assert solve(problem, random.Random(0), "full_turn")[1] == "full_turn"
    with pytest.raises(ValueError, match="does not apply"):
        solve(problem, random.Random(0), "product")
