"""The task `shapes`: drawn geometry, easy to hard, each picture with its answer and a worked solution.

A problem is a picture of 64 x 64 pixels and a short question (``area?``); the answer is a whole number after the last
``#`` of a response: ``4+2=6;2*6=12#12``. Families and levels: `upside.tasks.shapes.families`; worked solutions:
`upside.tasks.shapes.rules`. Train and test share no configuration: the numbers of a test figure are never seen in
training in a figure of its kind, whatever the picture.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

from upside.tasks.arithmetic import check_levels, distinct, final_answer, number_verdict
from upside.tasks.base import Problem, Split, Verdict
from upside.tasks.pictures import Drawn
from upside.tasks.shapes.canvas import BLIND, SIDE
from upside.tasks.shapes.families import FAMILIES, LEVELS, Configuration, configurations
from upside.tasks.shapes.figures import Shape
from upside.tasks.shapes.rules import rules, solution, style, worked

__all__ = ["FAMILIES", "LEVELS", "Configuration", "Shape", "Shapes", "rules", "solution", "style", "worked"]

VARIANTS = 1_000_000
"""Pictures of one configuration that can be told apart by their id."""

ByAnswer = dict[tuple[str, int], list[Configuration]]
"""(question, answer) -> configurations."""

SIZES = (64, 128, 192, 256)


class Shapes:
    """The task ``shapes``.

    families: which to draw from (default: all, `FAMILIES`), a list, or names with commas between. levels: which of
    1..5, each equally often, within a level each family that has it, and of a family each answer. size: pixels a side,
    64, 128, 192 or 256 (enlarged, not redrawn). blind: the same problems without what a picture is needed for: "figure"
    is all white, "digits" has no numbers printed. Raises ValueError naming the option that cannot be used.
    """

    name = "shapes"

    def __init__(
        self,
        families: str | Sequence[str] = tuple(FAMILIES),
        levels: Sequence[int] = LEVELS,
        size: int = SIDE,
        blind: str | None = None,
    ) -> None:
        chosen = tuple(dict.fromkeys(families.split(",") if isinstance(families, str) else families))
        unknown = [family for family in chosen if family not in FAMILIES]
        if unknown or not chosen:
            raise ValueError(f"{self.name}: families={list(chosen)!r} must be a non-empty choice of {list(FAMILIES)}")
        if size not in SIZES:
            raise ValueError(f"{self.name}: size={size!r} must be one of {list(SIZES)}")
        if blind is not None and blind not in BLIND:
            raise ValueError(f"{self.name}: blind={blind!r} must be one of {list(BLIND)}, or left out")
        self.families, self.size, self.blind = chosen, size, blind
        wanted = check_levels(levels, LEVELS, self.name)
        self._configurations: dict[tuple[Split, int], dict[str, ByAnswer]] = defaultdict(dict)
        for family in chosen:
            for each in configurations(family):
                split: Split = "test" if each.held_out else "train"
                by_answer = self._configurations[split, each.level].setdefault(family, {})
                by_answer.setdefault((each.question, each.answer), []).append(each)
        there = [level for level in LEVELS if ("train", level) in self._configurations]
        self.levels = tuple(level for level in wanted if level in there)
        if not self.levels:
            raise ValueError(f"{self.name}: levels={list(wanted)} hold none of {list(chosen)}, which have {there}")

    def draw(self, rng: random.Random, split: Split) -> Problem:
        """One problem of a split; may repeat an earlier one."""
        families = self._configurations[split, rng.choice(self.levels)]
        by_answer = families[rng.choice(list(families))]
        configuration = rng.choice(by_answer[rng.choice(list(by_answer))])
        return self.problem(configuration, rng.randrange(VARIANTS))

    def problem(self, of: Configuration, variant: int) -> Problem:
        """One picture of a configuration."""
        numbers = "-".join(map(str, of.numbers))
        return Problem(
            f"shapes/{of.kind}/{of.question}/{numbers}/{variant}",
            f"{of.question}?",
            str(of.answer),
            of.level,
            {"family": of.family, "configuration": of.key},
            images=(Drawn(Shape(of.kind, of.numbers, variant, self.size, self.blind)),),
        )

    def problems(self, split: Split, count: int | None = None, seed: int = 0) -> list[Problem]:
        """`count` distinct problems (default 1000) in an order fixed by the seed."""
        return distinct(self, split, 1000 if count is None else count, seed)

    def verify(self, problem: Problem, response: str) -> Verdict:
        """Score 1.0 when the text after the last ``#`` is the answer, else 0.0 (also for none)."""
        return number_verdict(problem, response)

    def answer_of(self, response: str) -> str | None:
        """The text after the last ``#``, None where there is none."""
        return final_answer(response).strip() or None

    def style(self, response: str) -> str:
        """The rule that a response follows (`upside.tasks.shapes.rules`)."""
        return style(response)

    def chance(self, split: Split = "test") -> dict[str, float]:
        """Accuracy that is to be had without the picture: question -> share of its most frequent answer, and "all",
        the same over all questions. Exact, from the configurations of the split at the frequencies of `draw`."""
        weights: dict[tuple[str, int], float] = defaultdict(float)
        for level in self.levels:
            families = self._configurations[split, level]
            for by_answer in families.values():
                for asked_and_answer in by_answer:
                    weights[asked_and_answer] += 1 / (len(self.levels) * len(families) * len(by_answer))
        asked: dict[str, float] = defaultdict(float)
        best: dict[str, float] = defaultdict(float)
        for (question, _), weight in weights.items():
            asked[question] += weight
            best[question] = max(best[question], weight)
        return {**{question: best[question] / asked[question] for question in asked}, "all": sum(best.values())}
