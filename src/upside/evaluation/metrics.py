"""Formulas of evaluation: pass@k, maj@k, mixed groups, intervals. Plain numbers in, plain numbers out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

Z95 = 1.959963984540054
"""Two-sided 95% quantile of the normal distribution."""


@dataclass(frozen=True)
class Estimate:
    """A mean over problems with its 95% interval. problems: how many it rests on."""

    value: float
    low: float
    high: float
    problems: int


def pass_at_k(n: int, right: int, k: int) -> float:
    """Unbiased chance that at least one of k responses is right, from n samples with `right` right ones.

        1 - C(n - right, k) / C(n, k)                       (Chen et al. 2021, arXiv 2107.03374, equation 1)

    In exact integers, so no n or k loses digits. Raises ValueError unless 1 <= k <= n and 0 <= right <= n.
    """
    _check(n, right, k, "k")
    return 1.0 - math.comb(n - right, k) / math.comb(n, k)


def mixed_share(n: int, right: int, size: int) -> float:
    """Unbiased chance that a group of `size` responses holds both right and wrong ones, from n samples:
    1 - [C(right, size) + C(n - right, size)] / C(n, size). Same errors as `pass_at_k`."""
    _check(n, right, size, "size")
    return 1.0 - (math.comb(right, size) + math.comb(n - right, size)) / math.comb(n, size)


def majority(answers: Sequence[str | None], right: Sequence[bool]) -> float:
    """Score in 0..1 of the most frequent answer of one problem; no answer (None) does not vote.

    A tie shares the credit: with j answers on top of which one is right the score is 1/j, the expected value
    of a random tie-break. Where responses of equal answer are judged differently, their mean counts. Nobody
    voting scores 0.
    """
    votes = Counter(answer for answer in answers if answer is not None)
    if not votes:
        return 0.0
    top = max(votes.values())
    winners = [answer for answer, count in votes.items() if count == top]
    shares = []
    for winner in winners:
        judged = [ok for answer, ok in zip(answers, right, strict=True) if answer == winner]
        shares.append(sum(judged) / len(judged))
    return sum(shares) / len(shares)


def majority_at_k(answers: Sequence[str | None], right: Sequence[bool], k: int) -> float:
    """Mean of `majority` over the n // k consecutive blocks of k responses. k > n is an error."""
    _check(len(answers), 0, k, "k")
    if len(right) != len(answers):
        raise ValueError(f"right: {len(right)} judgements for {len(answers)} answers; give one per answer")
    blocks = range(0, len(answers) - k + 1, k)
    return sum(majority(answers[b : b + k], right[b : b + k]) for b in blocks) / len(blocks)


def estimate_share(values: Sequence[float]) -> Estimate:
    """Mean of one value in 0..1 a problem, with a 95% interval clustered by problem.

    Closed form: Wilson's score interval with the effective number of problems n = p(1-p)/SE², where SE² is
    the variance of the values over problems (ddof 1) divided by their number; where SE is 0, n is the number
    of problems. So 20 of 20 gives [0.84, 1], not [1, 1]. No value gives NaN.
    """
    count = len(values)
    if not count:
        return Estimate(math.nan, math.nan, math.nan, 0)
    p = math.fsum(values) / count
    p = min(max(p, 0.0), 1.0)
    variance = math.fsum((v - p) ** 2 for v in values) / (count - 1) / count if count > 1 else 0.0
    n = p * (1 - p) / variance if variance > 0 else float(count)
    centre = (p + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 / (1 + Z95**2 / n) * math.sqrt(p * (1 - p) / n + Z95**2 / (4 * n**2))
    return Estimate(p, max(0.0, min(p, centre - half)), min(1.0, max(p, centre + half)), count)


def estimate_mean(values: Sequence[float]) -> Estimate:
    """Mean of one unbounded value a problem with its normal 95% interval, mean ± 1.96 SE over problems."""
    count = len(values)
    if not count:
        return Estimate(math.nan, math.nan, math.nan, 0)
    mean = math.fsum(values) / count
    if count == 1:
        return Estimate(mean, math.nan, math.nan, 1)
    half = Z95 * math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (count - 1) / count)
    return Estimate(mean, mean - half, mean + half, count)


def _check(n: int, right: int, k: int, name: str) -> None:
    if not 1 <= k <= n:
        raise ValueError(f"{name} must be between 1 and the number of samples {n}, got {k}; draw more samples")
    if not 0 <= right <= n:
        raise ValueError(f"right must be between 0 and the number of samples {n}, got {right}")
