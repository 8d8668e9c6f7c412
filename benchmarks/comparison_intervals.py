"""How often the 95% intervals of a comparison hold the true value: `python benchmarks/comparison_intervals.py`, some
minutes.

Two estimators answer 256 problems, 4 responses each, with K seeds. The logit of a problem's pass rate is the sum of a
mean (3: about 88% right; the better one of a pair: 3.3), the problem (normal, 1.5), the problem for this estimator
(`own`), seed and problem for both (0.5), the seed for this estimator (`seed`; skewed: in one of five it is 1 lower, a
run that went wrong), and what is left (0.7). The docs/compare.md tables are its output.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
from scipy import stats

from upside.analysis.comparison.statistics import bootstrap, paired_difference, probability_of_improvement

PROBLEMS, SAMPLES, RUNS = 256, 4, 600
PROBLEM, SHARED, REST = 1.5, 0.5, 0.7
Ends = tuple[float, float]


def sigmoid(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))


def slips(rng: np.random.Generator, shape: tuple[int, ...], skewed: bool) -> np.ndarray:
    return -1.0 * (rng.random(shape) < 0.2) if skewed else np.zeros(shape)


def draw(
    rng: np.random.Generator, seeds: int, means: Ends, seed: float, own: float, skewed: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Accuracies of both estimators, (K, P)."""
    shared = rng.normal(0, PROBLEM, PROBLEMS) + rng.normal(0, SHARED, (seeds, PROBLEMS))
    found = []
    for mean in means:
        of_seed = rng.normal(0, seed, (seeds, 1)) + slips(rng, (seeds, 1), skewed)
        logits = mean + shared + rng.normal(0, own, PROBLEMS) + of_seed + rng.normal(0, REST, shared.shape)
        found.append(rng.binomial(SAMPLES, sigmoid(logits)) / SAMPLES)
    return found[0], found[1]


def truth(mean: float, seed: float, own: float, skewed: bool, count: int = 1_000_000) -> float:
    """The expected accuracy."""
    rng = np.random.default_rng(1)
    spread = np.sqrt(PROBLEM**2 + SHARED**2 + REST**2 + own**2 + seed**2)
    return float(sigmoid(mean + rng.normal(0, spread, count) + slips(rng, (count,), skewed)).mean())


def over_seeds(found: np.ndarray, rng: np.random.Generator) -> Ends:
    drawn = found.mean(axis=1)[rng.integers(len(found), size=(1000, len(found)))].mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def over_both(found: np.ndarray, rng: np.random.Generator) -> Ends:
    interval = bootstrap(found, resamples=500)[0]
    return interval.low or 0.0, interval.high or 0.0


def t_seeds(found: np.ndarray, rng: np.random.Generator) -> Ends:
    means = found.mean(axis=1)
    half = stats.t.ppf(0.975, len(means) - 1) * stats.sem(means)
    return float(means.mean() - half), float(means.mean() + half)


def widest_t(found: np.ndarray, rng: np.random.Generator) -> Ends:
    paired = paired_difference(found)
    return paired.low or 0.0, paired.high or 0.0


METHODS: dict[str, Callable[[np.ndarray, np.random.Generator], Ends]] = {
    "bootstrap, seeds": over_seeds,
    "bootstrap, seeds and problems": over_both,
    "t, seeds": t_seeds,
    "widest of three t (used)": widest_t,
}


def differences() -> None:
    """Coverage and mean width in points of each method for the difference."""
    print("seeds  seed  own  skewed  difference  " + "  ".join(METHODS))
    for seeds, seed, (own, skewed), better in product(
        (3, 5), (0.1, 0.3), ((0.0, False), (0.7, False), (0.0, True)), (3.0, 3.3)
    ):
        true = truth(better, seed, own, skewed) - truth(3.0, seed, own, skewed)
        rng = np.random.default_rng(0)
        hits, widths = dict.fromkeys(METHODS, 0), dict.fromkeys(METHODS, 0.0)
        for _ in range(RUNS):
            x, y = draw(rng, seeds, (better, 3.0), seed, own, skewed)
            for name, method in METHODS.items():
                low, high = method(x - y, rng)
                hits[name] += low <= true <= high
                widths[name] += 100 * (high - low) / RUNS
        text = "  ".join(f"{100 * hits[name] / RUNS:5.1f}% ({widths[name]:4.1f})" for name in METHODS)
        print(f"{seeds:5}  {seed:4}  {own:3}  {skewed!s:6}  {100 * true:6.1f}      {text}", flush=True)


def accuracies() -> None:
    """Coverage of the bootstrap interval for one estimator's accuracy."""
    print("\nseeds  seed  accuracy: bootstrap over seeds and problems")
    for seeds, seed in product((3, 5), (0.1, 0.3)):
        true, rng = truth(3.0, seed, 0.0, False), np.random.default_rng(0)
        hits = 0
        for _ in range(RUNS):
            low, high = over_both(draw(rng, seeds, (3.0, 3.0), seed, 0.0, False)[0], rng)
            hits += low <= true <= high
        print(f"{seeds:5}  {seed:4}  {100 * hits / RUNS:5.1f}%", flush=True)


def improvement() -> None:
    """Coverage of P(X > Y)'s interval, for normal X and Y `shift` standard deviations apart."""
    print("\nseeds  P(X > Y)  Newcombe  bootstrap over seeds")
    for seeds, shift in product((3, 5, 10), (0.0, 1.0, 2.0)):
        true, rng = float(stats.norm.cdf(shift / np.sqrt(2))), np.random.default_rng(0)
        hits = np.zeros(2)
        for _ in range(RUNS):
            x, y = rng.normal(shift, 1, seeds), rng.normal(0, 1, seeds)
            found = probability_of_improvement(x.tolist(), y.tolist())
            drawn = [a[rng.integers(seeds, size=(200, seeds))] for a in (x, y)]
            shares = (drawn[0][:, :, None] > drawn[1][:, None, :]).mean(axis=(1, 2))
            low, high = np.quantile(shares, [0.025, 0.975])
            hits += [(found.low or 0.0) <= true <= (found.high or 0.0), low <= true <= high]
        print(f"{seeds:5}  {true:8.2f}  {100 * hits[0] / RUNS:7.1f}%  {100 * hits[1] / RUNS:7.1f}%", flush=True)


if __name__ == "__main__":
    differences()
    accuracies()
    improvement()
