"""How a response is judged: rewards by name, and their weighted sum (formulas and sources: docs/rewards.md).

| name | score | options |
|---|---|---|
| `verdict` | the task's own | |
| `exact`, `math`, `kk`, `geometry` | that verifier's, against `problem.answer` | the verifier's |
| `format` | 1 for think tags and one answer, else 0 | `answer`, `think`, `compat` |
| `overlong` | 0 to -1 near the token limit (DAPO) | `max_length`, `cache` |
| `cosine` | right or wrong, shaped by length (AAPO) | `max_length`, `unit`, `right_short`, …, `cap` |
| `length_ratio` | mean length of the group / length - 1 | |
| `length_sigmoid` | -sigmoid of the length among the group's right answers, 0 for wrong ones | |
| `python:module:function` | your own function | its own keywords |

The first two rows judge which answers are right; a list of rewards has one of them at most.
"""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

from upside.rewards.base import Completions, Reward, RewardError, Scores
from upside.rewards.combine import Judgement, Rewards, check_judges
from upside.rewards.format import FormatReward
from upside.rewards.judges import VerdictReward, VerifierReward
from upside.rewards.lengths import CosineReward, LengthRatioReward, LengthSigmoidReward, OverlongReward
from upside.rewards.user import UserReward
from upside.tasks.base import Task
from upside.verifiers import VERIFIERS

__all__ = [
    "Completions",
    "CosineReward",
    "FormatReward",
    "Judgement",
    "LengthRatioReward",
    "LengthSigmoidReward",
    "OverlongReward",
    "Reward",
    "RewardError",
    "Rewards",
    "Scores",
    "UserReward",
    "VerdictReward",
    "VerifierReward",
    "check_rewards",
    "load_reward",
    "load_rewards",
]

SHAPES: dict[str, type] = {
    "format": FormatReward,
    "overlong": OverlongReward,
    "cosine": CosineReward,
    "length_ratio": LengthRatioReward,
    "length_sigmoid": LengthSigmoidReward,
}
"""name -> class of the rewards that do not judge correctness."""

JUDGES = ("verdict", *VERIFIERS)
"""Names of the rewards that judge correctness."""


def load_reward(name: str, task: Task | None = None, **options: Any) -> Reward:
    """The reward of that name (see the module's table). `verdict` needs the task.

    Raises RewardError for an unknown name or option, with the nearest names.
    """
    if name.startswith("python:"):
        return UserReward(name.removeprefix("python:"), **options)
    known = [*JUDGES, *SHAPES]
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise RewardError(f"unknown reward {name!r}: {hint}known are {', '.join(known)}, python:module:function")
    if name in VERIFIERS:
        return VerifierReward(name, **options)
    if name == "verdict":
        _check_options(name, {}, options)
        if task is None:
            raise RewardError("reward 'verdict' needs a task to ask for its judgement")
        return VerdictReward(task)
    make = SHAPES[name]
    _check_options(name, inspect.signature(make).parameters, options)
    reward: Reward = make(**options)
    return reward


def _check_options(name: str, known: Mapping[str, inspect.Parameter], options: Mapping[str, Any]) -> None:
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"its options: {', '.join(known) or 'none'}"
            raise RewardError(f"reward {name!r} has no option {option!r}; {hint}")
    missing = [key for key, p in known.items() if p.default is p.empty and key not in options]
    if missing:
        raise RewardError(f"reward {name!r} needs {', '.join(missing)}")


def load_rewards(specs: Sequence[str | Mapping[str, Any]], task: Task | None = None) -> Rewards:
    """Rewards from a recipe's list. An entry is a name (weight 1), or a mapping with `name`, optional
    `weight` and the reward's options: `{"name": "overlong", "weight": 0.5, "max_length": 96, "cache": 16}`.

    Raises RewardError as `load_reward` does, and for a list without a judge where a reward needs one, or with two.
    """
    rewards = Rewards([(load_reward(name, task, **options), weight) for name, weight, options in _entries(specs)])
    rewards.check_judged()
    return rewards


def check_rewards(specs: Sequence[str | Mapping[str, Any]]) -> None:
    """Raise RewardError for a list that `load_rewards` would refuse, without a task and without importing the user's
    own functions. The message says which entry it is: `rewards[0]: …`."""
    names = []
    for index, (name, weight, options) in enumerate(_entries(specs)):
        names.append(name)
        try:
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
                raise RewardError(f"weight {weight!r} is no finite number")
            if name == "verdict":
                _check_options(name, {}, options)
            elif not name.startswith("python:"):
                load_reward(name, **options)
        except RewardError as error:
            raise RewardError(f"rewards[{index}]: {error}") from error
    needing = [name for name in names if getattr(SHAPES.get(name), "needs_correct", False)]
    check_judges([name for name in names if name in JUDGES], needing)


def _entries(specs: Sequence[str | Mapping[str, Any]]) -> list[tuple[str, float, dict[str, Any]]]:
    """(name, weight, options) of each entry."""
    if isinstance(specs, str | Mapping):
        raise RewardError(f"rewards: expected a list, got {specs!r}; write [{specs!r}]")
    if not specs:
        raise RewardError("no rewards given; name at least one, e.g. verdict")
    entries: list[tuple[str, float, dict[str, Any]]] = []
    for index, spec in enumerate(specs):
        options: dict[str, Any] = dict(spec) if isinstance(spec, Mapping) else {"name": spec}
        name, weight = options.pop("name", None), options.pop("weight", 1.0)
        if not isinstance(name, str) or not all(isinstance(key, str) for key in options):
            raise RewardError(
                f"rewards[{index}] has no name, or an option that is no text; write a name or a mapping with name, "
                f"weight, options"
            )
        entries.append((name, weight, options))
    return entries
