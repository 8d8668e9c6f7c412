"""Statistics for few runs. Arrays in, plain numbers out; K seeds, P problems.

Aggregates and intervals follow "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (Agarwal et al.
2021, the library rliable): interquartile mean, stratified bootstrap, probability of improvement. Where few seeds make
its intervals too narrow (docs/compare.md has the coverage), a t interval over seeds and problems decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.optimize import brentq

from upside.analysis.blocks import Interval

LEVEL, POWER = 0.95, 0.8
RESAMPLES = 5000
MOST_SEEDS = 10_000


def iqm(values: np.ndarray, axis: int = 0) -> np.ndarray:
    """Interquartile mean: the mean without the lowest and highest quarter (whole values; below 4 the plain mean)."""
    return np.asarray(stats.trim_mean(values, 0.25, axis=axis))


def bootstrap(accuracy: np.ndarray, seed: int = 0, resamples: int = RESAMPLES) -> tuple[Interval, Interval]:
    """Mean and interquartile mean over seeds of the accuracy, with 95% percentile intervals. accuracy: (K, P).

    Seeds and problems are both drawn anew, each problem for all seeds at once, since all seeds answer the same ones.
    """
    seeds, problems = accuracy.shape
    draw = np.random.default_rng(seed)
    counts = draw.multinomial(problems, np.full(problems, 1 / problems), size=resamples)  # (B, P)
    by_seed = counts @ accuracy.T / problems  # (B, K)
    drawn = np.take_along_axis(by_seed, draw.integers(seeds, size=(resamples, seeds)), axis=1)
    own = accuracy.mean(axis=1)
    return tuple(  # type: ignore[return-value]
        Interval(float(point), *map(float, np.quantile(replicates, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])))
        for point, replicates in ((own.mean(), drawn.mean(axis=1)), (iqm(own), iqm(drawn, axis=1)))
    )


@dataclass(frozen=True)
class Paired:
    """A mean difference with its 95% interval, two-sided p and degrees of freedom. spread: standard deviation of the
    seeds' differences, at least what the noise of single answers makes it. All but the value None with one seed."""

    value: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    freedom: float | None = None
    spread: float | None = None

    @property
    def interval(self) -> Interval:
        return Interval(self.value, self.low, self.high)


def paired_difference(differences: np.ndarray) -> Paired:
    """Mean of differences paired by seed and problem, (K, P), both taken as drawn from more: the widest of three t
    intervals, and the largest p. One rests on the K seeds alone (MS_seeds), one on

        Var = (MS_seeds + MS_problems - MS_rest) / (K P)       two-way random effects

    with Satterthwaite's degrees of freedom, which also knows how unlike the problems are, and one on MS_rest, the noise
    of single answers: below it seeds are alike by chance, as two of them that differ from the baseline by the same.
    """
    seeds, problems = differences.shape
    mean = float(differences.mean())
    if seeds < 2 or problems < 2:
        return Paired(mean)
    rows, columns = differences.mean(axis=1), differences.mean(axis=0)
    rest = differences - rows[:, None] - columns[None, :] + mean
    free = np.array([seeds - 1, problems - 1, (seeds - 1) * (problems - 1)])
    squares = np.array([problems * ((rows - mean) ** 2).sum(), seeds * ((columns - mean) ** 2).sum(), (rest**2).sum()])
    squares /= free
    spread = math.sqrt(max(squares[0], squares[2]) / problems)
    total = squares[0] + squares[1] - squares[2]
    pairs = [(squares[0], float(free[0])), (squares[2], float(free[2]))]
    if total > 0:
        pairs.append((total, max(seeds - 1.0, float(total**2 / (squares**2 / free).sum()))))
    found = [_t(mean, math.sqrt(square / (seeds * problems)), freedom) for square, freedom in pairs]
    half, _, freedom = max(found)
    return Paired(mean, mean - half, mean + half, max(p for _, p, _ in found), freedom, spread)


def _t(mean: float, error: float, freedom: float) -> tuple[float, float, float]:
    """Half width of the interval, p against 0, degrees of freedom."""
    if error == 0:
        return 0.0, float(mean == 0), freedom
    return (
        float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * error,
        2 * float(stats.t.sf(abs(mean) / error, freedom)),
        freedom,
    )


def probability_of_improvement(x: Sequence[float], y: Sequence[float]) -> Interval:
    """P(X > Y) + P(X = Y) / 2 over all pairs of runs, with Newcombe's 95% interval (2006, Statistics in Medicine 25,
    method 5), which stays wide where all of a few runs are above all others."""
    m, n = len(x), len(y)
    value = float(stats.mannwhitneyu(x, y, alternative="two-sided", method="asymptotic").statistic) / (m * n)
    if min(m, n) < 2:
        return Interval(value)
    z, more = float(stats.norm.ppf((1 + LEVEL) / 2)), (m + n) / 2 - 1

    def excess(theta: float) -> float:
        variance = theta * (1 - theta) * (1 + more * (1 - theta) / (2 - theta) + more * theta / (1 + theta)) / (m * n)
        return abs(value - theta) - z * math.sqrt(variance)

    low = 0.0 if value == 0 else float(brentq(excess, 0, value - 1e-12))
    high = 1.0 if value == 1 else float(brentq(excess, value + 1e-12, 1))
    return Interval(value, low, high)


def holm(values: Sequence[float]) -> list[float]:
    """p values adjusted for their number (Holm 1979)."""
    order = np.argsort(values, kind="stable")
    adjusted, worst = [0.0] * len(values), 0.0
    for place, index in enumerate(order):
        worst = max(worst, min(1.0, values[index] * (len(values) - place)))
        adjusted[index] = worst
    return adjusted


def power(effect: float, seeds: int) -> float:
    """Chance that a two-sided paired t test at 5% tells an effect (mean over standard deviation of the differences)."""
    critical = stats.t.ppf((1 + LEVEL) / 2, seeds - 1)
    return float(
        stats.ncf.sf(critical**2, 1, seeds - 1, seeds * effect**2)
    )  # t squared; SciPy's nct gives NaN at times


def seeds_needed(difference: float, spread: float) -> int | None:
    """The fewest seeds that tell the difference with POWER, None above MOST_SEEDS."""
    if difference == 0:
        return None
    if spread == 0:
        return 2
    effect = abs(difference) / spread
    low, high = 1, 2
    while power(effect, high) < POWER:
        low, high = high, high * 2
        if low >= MOST_SEEDS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(effect, middle) >= POWER else (middle, high)
    return high


def spread_range(spread: float, seeds: int) -> tuple[float, float]:
    """80% interval of a standard deviation that `seeds` values gave."""
    free = seeds - 1
    low, high = (spread * math.sqrt(free / stats.chi2.ppf(q, free)) for q in (0.9, 0.1))
    return float(low), float(high)


def detectable(spread: float, seeds: int) -> float:
    """The smallest difference that so many seeds tell with POWER."""
    if spread == 0:
        return 0.0
    return spread * float(brentq(lambda effect: power(effect, seeds) - POWER, 1e-3, 30))


def first_reach(x: np.ndarray, y: np.ndarray, target: float) -> float | None:
    """Where a curve is at the target for the first time, on the straight line from the measurement before; None where
    it never is."""
    above = np.flatnonzero(y >= target)
    if not len(above):
        return None
    at = int(above[0])
    if at == 0:
        return float(x[0])
    share = (target - y[at - 1]) / (y[at] - y[at - 1])
    return float(x[at - 1] + share * (x[at] - x[at - 1]))
