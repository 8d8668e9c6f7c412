"""Several rewards as one: their weighted sum, with correctness and validity kept apart."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from upside.rewards.base import Completions, Reward, RewardError, Scores, needs_judge
from upside.verifiers.base import Outcome

Whole = Callable[[Completions], tuple[Completions, slice]]


@dataclass(frozen=True)
class Judgement:
    """Rewards of N responses.

    score: (N,) weighted sum, None on invalid rows.
    correct: (N,) from the part that judges correctness, apart from all shaping; None where unknown.
    valid: (N,) whether there is a score.
    parts: name -> (N,) unweighted scores.
    outcomes: (N,) how the judgement of correctness ended; None where nothing judged.
    not_finite: NaN or infinite scores that became None, over all parts (and over all rows that a part saw).
    """

    score: list[float | None]
    correct: list[bool | None]
    valid: list[bool]
    parts: dict[str, list[float | None]]
    outcomes: list[Outcome | None] = field(default_factory=list)
    not_finite: int = 0


class Rewards:
    """Several rewards as one weighted sum. Weights combine scores only, never correctness or validity.

    A row where every part is None is invalid. Where some are None, the score is the weighted sum of the
    others (a part may have nothing to say about a response). One exception: a row that the part that judges
    correctness could not score is invalid, for shaping alone is no reward.
    """

    def __init__(self, parts: Sequence[tuple[Reward, float]]) -> None:
        if not parts:
            raise RewardError("no rewards given; name at least one, e.g. verdict")
        for reward, weight in parts:
            if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not math.isfinite(weight):
                raise RewardError(f"reward {reward.name!r}: weight must be a finite number, got {weight!r}")
        self.names = _distinct([reward.name for reward, _ in parts])
        self.parts = list(parts)
        check_judges(self._that("judges"), [])

    def _that(self, attribute: str) -> list[str]:
        """Names of the parts of which that attribute is true."""
        return [n for n, (reward, _) in zip(self.names, self.parts, strict=True) if getattr(reward, attribute, False)]

    @property
    def needs_groups(self) -> bool:
        """Whether a part compares within groups, so that `Completions.groups` must be given."""
        return bool(self._that("needs_groups"))

    def check_judged(self) -> None:
        """RewardError for a part that needs correctness where no part judges it."""
        check_judges(self._that("judges"), self._that("needs_correct"))

    def __call__(self, completions: Completions, whole: Whole | None = None) -> Judgement:
        """Judge a batch. Raises RewardError as the parts do; warns, once a call, of NaN and infinite scores.

        whole: for a batch whose groups have rows elsewhere (other processes): turns the batch, `correct` filled in,
        into all rows and the slice of them that this batch is. Called once for each part that compares within groups,
        which then scores all rows.
        """
        scores = self._scores(completions, whole)
        count = len(completions)
        judge = next((s for s in scores if s.correct is not None), None)
        weights = [weight for _, weight in self.parts]
        total = [
            self._sum([(w, s, s.values[row]) for w, s in zip(weights, scores, strict=True)]) for row in range(count)
        ]
        not_finite = sum(s.not_finite for s in scores)
        if not_finite:
            names = [n for n, s in zip(self.names, scores, strict=True) if s.not_finite]
            warnings.warn(
                f"{not_finite} NaN or infinite scores from {', '.join(names)} count as no score",
                stacklevel=2,
            )
        return Judgement(
            score=total,
            correct=judge.correct if judge and judge.correct is not None else [None] * count,
            valid=[value is not None for value in total],
            parts={name: s.values for name, s in zip(self.names, scores, strict=True)},
            outcomes=judge.outcomes if judge and judge.outcomes is not None else [None] * count,
            not_finite=not_finite,
        )

    def _scores(self, completions: Completions, whole: Whole | None) -> list[Scores]:
        """Each part's scores, in order. The part that judges correctness runs first: the others may shape by it."""
        found: dict[int, Scores] = {}
        judging = [self.names.index(name) for name in self._that("judges")]
        for index in [*judging, *(i for i in range(len(self.parts)) if i not in judging)]:
            reward = self.parts[index][0]
            if whole is not None and getattr(reward, "needs_groups", False):
                everything, here = whole(completions)
                scores = self._score(reward, everything)
                found[index] = replace(scores, values=scores.values[here])
            else:
                found[index] = self._score(reward, completions)
            if index in judging:
                completions = replace(completions, correct=found[index].correct)
        return [found[index] for index in range(len(self.parts))]

    @staticmethod
    def _sum(row: Sequence[tuple[float, Scores, float | None]]) -> float | None:
        if any(scores.correct is not None and value is None for _, scores, value in row):
            return None
        known = [weight * value for weight, _, value in row if value is not None]
        return sum(known) if known else None

    @staticmethod
    def _score(reward: Reward, completions: Completions) -> Scores:
        scores = reward(completions)
        if len(scores.values) != len(completions):
            raise RewardError(
                f"reward {reward.name!r} returned {len(scores.values)} scores for {len(completions)} responses"
            )
        finite = [v if v is None or math.isfinite(v) else None for v in scores.values]
        lost = sum(v is not None and not math.isfinite(v) for v in scores.values)
        return Scores(finite, scores.correct, scores.outcomes, scores.not_finite + lost)


def _distinct(names: Sequence[str]) -> list[str]:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RewardError(f"reward {twice[0]!r} is named twice; give it once, with the weights added")
    return list(names)


def check_judges(judging: Sequence[str], needing: Sequence[str]) -> None:
    """RewardError where more than one reward judges correctness, or none does and a reward needs it."""
    if len(judging) > 1:
        raise RewardError(f"more than one reward judges correctness ({' and '.join(judging)}); keep one")
    if needing and not judging:
        raise RewardError(needs_judge(needing[0]))
