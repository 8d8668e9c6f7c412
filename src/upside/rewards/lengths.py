"""Rewards on the length of a response: DAPO's overlong, AAPO's cosine, and the two baselines of CANON's table 3."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Literal

from upside.rewards.base import Completions, RewardError, Scores

Unit = Literal["characters", "tokens"]


class OverlongReward:
    """`overlong`: DAPO's soft overlong punishment (arXiv 2503.14476, equation 13), in tokens.

        0                                      length <= max_length - cache
        (max_length - cache - length) / cache  in between: falls from 0 to -1
        -1                                     length >= max_length

    max_length: the token limit of a response; cache: width of the soft zone, 1..max_length.
    """

    name = "overlong"

    def __init__(self, max_length: int, cache: int) -> None:
        for option, tokens in (("max_length", max_length), ("cache", cache)):
            _whole_number(self.name, option, tokens, "tokens")
        if not 1 <= cache <= max_length:
            raise RewardError(f"reward 'overlong': cache must be in 1..max_length={max_length} tokens, got {cache}")
        self.max_length, self.cache = max_length, cache

    def __call__(self, completions: Completions) -> Scores:
        free = self.max_length - self.cache
        return Scores([max(-1.0, min(0.0, (free - length) / self.cache)) for length in completions.lengths])


class CosineReward:
    """`cosine`: AAPO's length-shaped outcome (its open-rs rewards.py, after open-r1): half a cosine wave over the
    length from `…_short` at length 0 to `…_long` at max_length, one pair for right and one for wrong answers.

        long + (short - long) / 2 * (1 + cos(pi * length / max_length))

    Defaults as released: 1 to 0.5 for right, 0 to -0.5 for wrong answers (so a short wrong answer costs least, the
    reverse of the released docstring), max_length 1000, unit "characters" of the text. Beyond max_length the released
    wave goes on and the score rises again; cap=True stays at `…_long`.

    Needs `correct` from a reward that judges; None where it is unknown. (The released code gives 1.0 to every response
    of a problem whose gold answer cannot be parsed; here those rows have no score.)
    """

    name = "cosine"
    needs_correct = True

    def __init__(
        self,
        max_length: int = 1000,
        unit: Unit = "characters",
        right_short: float = 1.0,
        right_long: float = 0.5,
        wrong_short: float = 0.0,
        wrong_long: float = -0.5,
        cap: bool = False,
    ) -> None:
        if unit not in ("characters", "tokens"):
            raise RewardError(f"reward 'cosine': unit must be characters or tokens, got {unit!r}")
        _whole_number(self.name, "max_length", max_length, unit)
        if max_length < 1:
            raise RewardError(f"reward 'cosine': max_length must be at least 1, got {max_length}")
        values = {
            "right_short": right_short, "right_long": right_long, "wrong_short": wrong_short, "wrong_long": wrong_long,
        }  # fmt: skip
        for option, value in values.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise RewardError(f"reward 'cosine': {option} must be a finite number, got {value!r}")
        if not isinstance(cap, bool):
            raise RewardError(f"reward 'cosine': cap must be true or false, got {cap!r}")
        self.max_length, self.unit, self.cap = max_length, unit, cap
        self.right, self.wrong = (right_short, right_long), (wrong_short, wrong_long)

    def __call__(self, completions: Completions) -> Scores:
        correct = completions.judged(self.name)
        sizes = completions.lengths if self.unit == "tokens" else [len(text) for text in completions.responses]
        return Scores([None if c is None else self._score(c, n) for c, n in zip(correct, sizes, strict=True)])

    def _score(self, correct: bool, length: int) -> float:
        short, long = self.right if correct else self.wrong
        if self.cap:
            length = min(length, self.max_length)
        return long + (short - long) / 2 * (1 + math.cos(math.pi * length / self.max_length))


class LengthRatioReward:
    """`length_ratio`: mean length of the group / length - 1, in tokens: above 0 for shorter than average responses.

    With weight c beside a 0/1 judge it is `Length Reward +` of CANON's table 3 (its released efficient.py, type o1):
    acc + c (mean / length - 1); published c: 0.001, 0.004, 0.005, 0.1. The mean is over all responses of the group.
    A response of 0 tokens counts as one token. Rows whose correctness is unknown have no score and stay out of the
    mean.
    """

    name = "length_ratio"
    needs_groups = True

    def __call__(self, completions: Completions) -> Scores:
        values: list[float | None] = [None] * len(completions)
        for rows in by_group(completions, self.name):
            if completions.correct is not None:
                rows = [row for row in rows if completions.correct[row] is not None]
            lengths = [max(1, completions.lengths[row]) for row in rows]
            for row, length in zip(rows, lengths, strict=True):
                values[row] = sum(lengths) / len(lengths) / length - 1
        return Scores(values)


class LengthSigmoidReward:
    """`length_sigmoid`: -sigmoid((length - mean) / (std + 1e-7)) for right answers, 0 for wrong ones, in tokens.

    With weight c beside a 0/1 judge it is `Length Reward *` of CANON's table 3 (its released efficient.py, type cmu1):
    1 - c sigmoid(…) if right, else 0; published c: 0.05, 0.2, 0.4. Mean and unbiased std are over the *right* answers
    of the group, as released (the paper writes them over the whole group); one right answer alone has std 1.
    Needs `correct` from a reward that judges; None where it is unknown.
    """

    name = "length_sigmoid"
    needs_groups = True
    needs_correct = True

    def __call__(self, completions: Completions) -> Scores:
        correct = completions.judged(self.name)
        values: list[float | None] = [None if c is None else 0.0 for c in correct]
        for rows in by_group(completions, self.name):
            rows = [row for row in rows if correct[row]]
            if not rows:
                continue
            lengths = [completions.lengths[row] for row in rows]
            mean = sum(lengths) / len(lengths)
            square = sum((length - mean) ** 2 for length in lengths)
            std = math.sqrt(square / (len(lengths) - 1)) if len(lengths) > 1 else 1.0
            for row, length in zip(rows, lengths, strict=True):
                values[row] = -_sigmoid((length - mean) / (std + 1e-7))
        return Scores(values)


def by_group(completions: Completions, name: str) -> list[list[int]]:
    """Row numbers of each group. RewardError naming the reward when the batch does not say the groups."""
    if completions.groups is None:
        raise RewardError(
            f"reward {name!r} compares the responses of a group, and this batch does not say the groups; give "
            f"Completions(groups=...), one id a response (responses to one occurrence of a prompt share it)"
        )
    rows: dict[Hashable, list[int]] = {}
    for row, group in enumerate(completions.groups):
        rows.setdefault(group, []).append(row)
    return list(rows.values())


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _whole_number(name: str, option: str, value: object, unit: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise RewardError(f"reward {name!r}: {option} must be a whole number of {unit}, got {value!r}")
