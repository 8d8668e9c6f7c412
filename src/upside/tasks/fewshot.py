"""One-step arithmetic as few-shot plain text, for a base model that follows a pattern but no instruction.

    7 + 9 = 16
    12 - 5 = 7
    14 - 6 =

The prompt ends after the template, the response ends at the line break (`stop`), and the first number in it is the
answer. Prompts use no chat template. Shots are other problems of the training split, chosen by the problem's id, so a
problem has the same prompt in every run.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from upside.tasks.arithmetic import apply
from upside.tasks.base import Problem, Split, Verdict, check_request, in_test_split

OPERATORS = ("+", "-", "*")

PLACES = ("{a}", "{op}", "{b}")
"""What a template must hold, each once."""

_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*", re.ASCII)

_MOST = 1_000
"""Largest operand: all problems of a task are listed."""


class FewshotArithmetic:
    """The task ``fewshot_arithmetic``.

    operators: which of + - and *, as one string or a list. low, high: the range of both operands, from 0 to 1000.
    shots: worked examples before the question. template: one line with {a}, {op} and {b}; a worked example goes on
    with a space and the result. negative: whether differences below zero are asked for.

    A fifth of the problems is held out, by a hash of the unordered pair of operands: 3 + 8 and 8 + 3 are on the same
    side. Raises ValueError naming the option that cannot be used.
    """

    name = "fewshot_arithmetic"
    stop = "\n"

    def __init__(
        self,
        operators: str | Sequence[str] = "+-",
        low: int = 1,
        high: int = 20,
        shots: int = 2,
        template: str = "{a} {op} {b} =",
        negative: bool = False,
    ) -> None:
        unknown = [sign for sign in operators if sign not in OPERATORS]
        if unknown or not operators:
            raise ValueError(f"{self.name}: operators={operators!r} must be a choice of {' '.join(OPERATORS)}")
        if not 0 <= low <= high <= _MOST:
            raise ValueError(f"{self.name}: low={low}, high={high} must satisfy 0 <= low <= high <= {_MOST}")
        if not isinstance(shots, int) or not 0 <= shots <= 32:
            raise ValueError(f"{self.name}: shots={shots!r} must be a whole number from 0 to 32")
        if any(template.count(place) != 1 for place in PLACES) or "\n" in template:
            raise ValueError(f"{self.name}: template={template!r} must be one line with {', '.join(PLACES)} once each")
        self.shots, self.template = shots, template
        self.questions: dict[Split, list[tuple[int, str, int]]] = {"train": [], "test": []}
        for sign in dict.fromkeys(operators):
            for a in range(low, high + 1):
                for b in range(low, high + 1 if negative or sign != "-" else a + 1):
                    self.questions[_side(a, sign, b)].append((a, sign, b))
        if len(self.questions["train"]) < shots + 2:
            raise ValueError(
                f"{self.name}: low={low} to high={high} holds too few problems for {shots} shots; widen it"
            )

    def problems(self, split: Split, count: int | None = None, seed: int = 0) -> list[Problem]:
        """`count` distinct problems (None: all of the split) in an order fixed by the seed. Raises ValueError when
        there are fewer."""
        check_request(self.name, split, count)
        chosen = list(self.questions[split])
        if count is not None and count > len(chosen):
            raise ValueError(
                f"{self.name}: {count} {split} problems asked for, the options hold {len(chosen)}; ask for fewer, "
                "or widen low and high"
            )
        random.Random(f"{self.name}/{split}/{seed}").shuffle(chosen)
        return [self._problem(*question) for question in chosen[:count]]

    def verify(self, problem: Problem, response: str) -> Verdict:
        """Score 1.0 when the first number on the first line is the answer, else 0.0 (unparsed without a number)."""
        found = self.answer_of(response)
        if found is None:
            return Verdict(0.0, False, "unparsed")
        correct = found == problem.answer
        return Verdict(float(correct), correct)

    def answer_of(self, response: str) -> str | None:
        """The first number on the first line as it is written, None where there is none."""
        match = _NUMBER.search(response.partition("\n")[0])
        return match[0] if match else None

    def _problem(self, a: int, sign: str, b: int) -> Problem:
        identity = f"{self.name}/{a}{sign}{b}"
        rng = random.Random(identity)
        shots: list[tuple[int, str, int]] = []
        while len(shots) < self.shots:
            shot = rng.choice(self.questions["train"])
            if shot not in [*shots, (a, sign, b), (b, sign, a)]:
                shots.append(shot)
        lines = [f"{self._line(*shot)} {apply(*shot)}" for shot in shots]
        prompt = "\n".join([*lines, self._line(a, sign, b)])
        return Problem(identity, prompt, str(apply(a, sign, b)), metadata={"family": sign}, chat=False)

    def _line(self, a: int, sign: str, b: int) -> str:
        values = {"{a}": str(a), "{op}": sign, "{b}": str(b)}
        return re.sub(r"\{(?:a|op|b)\}", lambda match: values[match[0]], self.template)


def _side(a: int, sign: str, b: int) -> Split:
    low, high = sorted((a, b))
    return "test" if in_test_split(f"fewshot_arithmetic/{low}{sign}{high}") else "train"
