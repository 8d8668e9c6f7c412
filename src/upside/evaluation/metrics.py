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


SHARES = (
    "95%, clustered by problem, closed form: Wilson's score interval with Student's t and the effective number of "
    "problems that the spread over problems gives (two problems of the largest possible spread added)"
)
MEANS = "95%, clustered by problem, closed form: Student's t over problems (ratio of totals, linearised)"
AVERAGES = "95%, closed form: squared distances to the limits of the independent sets added (Zou and Donner 2008)"
PRIOR_PROBLEMS = 2


def estimate_share(values: Sequence[float]) -> Estimate:
    """Mean of one value in 0..1 a problem, with a 95% interval clustered by problem.

    Closed form: Wilson's score interval with Student's t for the normal quantile and the effective number of problems
    p(1-p)/SE². SE² is the variance of the values over problems divided by their number, averaged with p(1-p)/problems,
    the largest it can be, at the weight of PRIOR_PROBLEMS problems: where few problems are right at all, the spread
    that shows is too small more often than not. Where nothing spreads, the effective number is that of the problems,
    so 20 of 20 gives [0.82, 1], not [1, 1]. No value gives NaN. Coverage: docs/evaluation.md.
    """
    count = len(values)
    if not count:
        return Estimate(math.nan, math.nan, math.nan, 0)
    p = min(max(math.fsum(values) / count, 0.0), 1.0)
    spread = math.fsum((v - p) ** 2 for v in values)
    n, z = float(count), t_quantile(count - 1) if count > 1 else Z95
    if spread > 0:
        variance = (spread / count + PRIOR_PROBLEMS * p * (1 - p) / count) / (count - 1 + PRIOR_PROBLEMS)
        n = p * (1 - p) / variance
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    return Estimate(p, max(0.0, min(p, centre - half)), min(1.0, max(p, centre + half)), count)


def estimate_mean(totals: Sequence[float], counts: Sequence[int] | None = None) -> Estimate:
    """Mean of an unbounded value with its 95% interval: the totals of the problems over their counts (None: one each).

    R = sum(totals) / sum(counts), SE² = n/(n-1) sum((total - R count)²) / sum(counts)² over the n problems whose count
    is not 0 (the linearised ratio), interval R ± t SE. One problem has no interval (NaN), none no mean either.
    """
    pairs = [(t, c) for t, c in zip(totals, counts or [1] * len(totals), strict=True) if c]
    n = len(pairs)
    if not n:
        return Estimate(math.nan, math.nan, math.nan, 0)
    whole = sum(c for _, c in pairs)
    ratio = math.fsum(t for t, _ in pairs) / whole
    if n == 1:
        return Estimate(ratio, math.nan, math.nan, 1)
    square = math.fsum((t - ratio * c) ** 2 for t, c in pairs) * n / (n - 1)
    half = t_quantile(n - 1) * math.sqrt(square) / whole
    return Estimate(ratio, ratio - half, ratio + half, n)


def estimate_average(parts: Sequence[Estimate]) -> Estimate:
    """Plain mean of the figures of independent sets, each with its interval.

    Limits by Zou and Donner (2008, Statistics in Medicine 27, "MOVER"): mean -/+ sqrt(sum((value - limit)²)) / sets, so
    that each set's own, possibly lopsided, interval counts.
    """
    m = len(parts)
    if not m:
        return Estimate(math.nan, math.nan, math.nan, 0)
    mean = math.fsum(e.value for e in parts) / m
    down = math.sqrt(math.fsum((e.value - e.low) ** 2 for e in parts)) / m
    up = math.sqrt(math.fsum((e.high - e.value) ** 2 for e in parts)) / m
    return Estimate(mean, mean - down, mean + up, sum(e.problems for e in parts))


def t_quantile(df: int) -> float:
    """97.5% quantile of Student's t with `df` >= 1 degrees of freedom: exact for 1 and 2, from 3 on the expansion of
    Abramowitz and Stegun 26.7.5, right to 0.3%."""
    if df < 1:
        raise ValueError(f"df must be at least 1, got {df}")
    if df == 1:
        return math.tan(math.pi * 0.475)
    if df == 2:
        return 0.95 / math.sqrt(2 * 0.975 * 0.025)
    z = Z95
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / df**power for power, term in enumerate(terms, start=1))


def _check(n: int, right: int, k: int, name: str) -> None:
    if not 1 <= k <= n:
        raise ValueError(f"{name} must be between 1 and the number of samples {n}, got {k}; draw more samples")
    if not 0 <= right <= n:
        raise ValueError(f"right must be between 0 and the number of samples {n}, got {right}")
