"""How a response is judged: rewards by name, and their weighted sum.

| name | score | options |
|---|---|---|
| `verdict` | the task's own score; the one that also says whether the answer is right | |
| `overlong` | 0 to -1 near the token limit (DAPO) | `max_length`, `cache` |
| `format` | 1 for exactly one answer and proper think tags, else 0 | `answer`, `think` |
| `python:module:function` | your own function | its own keywords |
"""

from __future__ import annotations

import difflib
import inspect
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from upside.rewards.base import Completions, Reward, RewardError, Scores
from upside.rewards.builtin import FormatReward, OverlongReward, VerdictReward
from upside.rewards.user import UserReward
from upside.tasks.base import Task
from upside.verifiers.base import Outcome

__all__ = [
    "Completions",
    "FormatReward",
    "Judgement",
    "OverlongReward",
    "Reward",
    "RewardError",
    "Rewards",
    "Scores",
    "UserReward",
    "VerdictReward",
    "load_reward",
    "load_rewards",
]

_BUILT_IN: dict[str, type] = {"verdict": VerdictReward, "overlong": OverlongReward, "format": FormatReward}


@dataclass(frozen=True)
class Judgement:
    """Rewards of N responses.

    score: (N,) weighted sum, None on invalid rows.
    correct: (N,) from the part that judges correctness, apart from all shaping; None where unknown.
    valid: (N,) whether there is a score.
    parts: name -> (N,) unweighted scores.
    outcomes: (N,) how the judgement of correctness ended; None where nothing judged.
    not_finite: NaN or infinite scores that became None, over all parts.
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
    others (a part may have nothing to say about a response). One exception: a row that `verdict`, the part
    that judges correctness, could not score is invalid, for shaping alone is no reward.
    """

    def __init__(self, parts: Sequence[tuple[Reward, float]]) -> None:
        if not parts:
            raise RewardError("no rewards given; name at least one, e.g. verdict")
        for reward, weight in parts:
            if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not math.isfinite(weight):
                raise RewardError(f"reward {reward.name!r}: weight must be a finite number, got {weight!r}")
        self.names = _distinct([reward.name for reward, _ in parts])
        self.parts = list(parts)

    def __call__(self, completions: Completions) -> Judgement:
        """Judge a batch. Raises RewardError as the parts do; warns, once a call, of NaN and infinite scores."""
        scores = self._scores(completions)
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

    def _scores(self, completions: Completions) -> list[Scores]:
        """Each part's scores, in order. The part that judges correctness runs first: the others may shape by it."""
        found: dict[int, Scores] = {}
        judging = [i for i, (reward, _) in enumerate(self.parts) if getattr(reward, "judges", False)]
        if len(judging) > 1:
            names = " and ".join(self.names[i] for i in judging)
            raise RewardError(f"more than one reward judges correctness ({names}); keep one")
        for index in [*judging, *(i for i in range(len(self.parts)) if i not in judging)]:
            found[index] = self._score(self.parts[index][0], completions)
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


def load_reward(name: str, task: Task | None = None, **options: Any) -> Reward:
    """The reward of that name (see the module's table). `verdict` needs the task.

    Raises RewardError for an unknown name or option, with the nearest names.
    """
    if name.startswith("python:"):
        return UserReward(name.removeprefix("python:"), **options)
    if name not in _BUILT_IN:
        near = difflib.get_close_matches(name, _BUILT_IN, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise RewardError(f"unknown reward {name!r}: {hint}known are {', '.join(_BUILT_IN)}, python:module:function")
    make = _BUILT_IN[name]
    if name == "verdict":
        if task is None:
            raise RewardError("reward 'verdict' needs a task to ask for its judgement")
        known: dict[str, inspect.Parameter] = {}
    else:
        known = dict(inspect.signature(make).parameters)
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"its options: {', '.join(known) or 'none'}"
            raise RewardError(f"reward {name!r} has no option {option!r}; {hint}")
    missing = [key for key, p in known.items() if p.default is p.empty and key not in options]
    if missing:
        raise RewardError(f"reward {name!r} needs {', '.join(missing)}")
    reward: Reward = VerdictReward(task) if task is not None and name == "verdict" else make(**options)
    return reward


def load_rewards(specs: Sequence[str | Mapping[str, Any]], task: Task | None = None) -> Rewards:
    """Rewards from a recipe's list. An entry is a name (weight 1), or a mapping with `name`, optional
    `weight` and the reward's options: `{"name": "overlong", "weight": 0.5, "max_length": 96, "cache": 16}`."""
    if isinstance(specs, str | Mapping):
        raise RewardError(f"rewards: expected a list, got {specs!r}; write [{specs!r}]")
    parts: list[tuple[Reward, float]] = []
    for index, spec in enumerate(specs):
        options: dict[str, Any] = dict(spec) if isinstance(spec, Mapping) else {"name": spec}
        name, weight = options.pop("name", None), options.pop("weight", 1.0)
        if not isinstance(name, str):
            raise RewardError(f"rewards[{index}] has no name; write a name or a mapping with name, weight, options")
        parts.append((load_reward(name, task, **options), weight))
    return Rewards(parts)


def _distinct(names: Sequence[str]) -> list[str]:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RewardError(f"reward {twice[0]!r} is named twice; give it once, with the weights added")
    return list(names)
