"""How often the 95% intervals of an evaluation hold the true value: `python benchmarks/intervals.py`, about a minute.

Pass rates of problems are Beta-distributed with mean p and correlation rho between two responses to one problem
(rho 0: all problems alike, 1: always or never right); k responses each. A baseline shares the problems' pass rates, or
lies below them by a tenth of the distance to 1 (column "shifted"). The docs/evaluation.md tables are its output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from upside.evaluation import Evaluation, Row, compare
from upside.evaluation.metrics import estimate_share

RATES = (0.02, 0.1, 0.5, 0.9)
RUNS = 2000


def rates(rng: np.random.Generator, p: float, rho: float, n: int) -> np.ndarray:
    """Pass rates of n problems."""
    if rho == 0:
        return np.full(n, p)
    scale = 1 / rho - 1
    return rng.beta(p * scale, (1 - p) * scale, n)


def share_coverage(p: float, rho: float, n: int, k: int, runs: int = RUNS, seed: int = 0) -> tuple[float, float]:
    """(coverage, mean width) of `estimate_share` for avg@k over n problems."""
    rng = np.random.default_rng(seed)
    found = [estimate_share((rng.binomial(k, rates(rng, p, rho, n)) / k).tolist()) for _ in range(runs)]
    return sum(e.low <= p <= e.high for e in found) / runs, sum(e.high - e.low for e in found) / runs


def paired_coverage(
    p: float, rho: float, n: int, k: int, gain: float, method: Callable[..., tuple[float, float]],
    runs: int = RUNS, seed: int = 0,
) -> tuple[float, float]:  # fmt: skip
    """(coverage, mean width) of a paired interval; the evaluation's rates are the baseline's q + gain (1 - q)."""
    rng = np.random.default_rng(seed)
    hits, width = 0, 0.0
    for _ in range(runs):
        low = rates(rng, p, rho, n)
        a, b = (rng.binomial(k, q) for q in (low + gain * (1 - low), low))
        left, right = method(a.tolist(), b.tolist(), k)
        hits += left - 1e-12 <= gain * (1 - p) <= right + 1e-12
        width += right - left
    return hits / runs, width / runs


def student(a: Sequence[int], b: Sequence[int], k: int) -> tuple[float, float]:
    """What `compare` does."""
    found = compare(_evaluation(a, k), _evaluation(b, k), [1]).accuracy
    return found.low, found.high


def newcombe(a: Sequence[int], b: Sequence[int], k: int) -> tuple[float, float]:
    """Square-and-add of the two score intervals with their correlation (Newcombe 1998, method 10, for clusters)."""
    x, y = np.array(a) / k, np.array(b) / k
    ea, eb = estimate_share(x.tolist()), estimate_share(y.tolist())
    r = float(np.corrcoef(x, y)[0, 1]) if x.std() > 0 and y.std() > 0 else 0.0
    d = ea.value - eb.value

    def add(u: float, v: float) -> float:
        return math.sqrt(max(0.0, u * u - 2 * r * u * v + v * v))

    return d - add(ea.value - ea.low, eb.high - eb.value), d + add(ea.high - ea.value, eb.value - eb.low)


def _evaluation(right: Sequence[int], k: int) -> Evaluation:
    made = [
        Row(str(i), 0, "", j, "", "", "", 1, False, None, j < n, None, None, None)
        for i, n in enumerate(right)
        for j in range(k)
    ]
    return Evaluation(made)


def main() -> None:
    head = " | ".join(f"p = {p}" for p in RATES)
    print(f"avg@k: coverage in % (mean width in points)\n\n| n | k | rho | {head} |\n|---|---|---|{'---|' * 4}")
    for n in (30, 200):
        for k, rho in ((1, 0.0), (16, 0.1), (16, 0.3), (16, 0.7)):
            cells = [share_coverage(p, rho, n, k) for p in RATES]
            print(f"| {n} | {k} | {rho:g} | " + " | ".join(f"{100 * c:.1f} ({100 * w:.1f})" for c, w in cells) + " |")
    columns = [(p, 0.0) for p in RATES] + [(0.5, 0.1)]
    head = " | ".join(f"p = {p}" for p in RATES) + " | p = 0.5, shifted"
    for name, method in (("Student's t", student), ("square-and-add", newcombe)):
        print(f"\npaired difference, {name}\n\n| n | k | rho | {head} |\n|---|---|---|{'---|' * 5}")
        for n in (30, 200):
            for k, rho in ((1, 0.3), (16, 0.3)):
                cells = [paired_coverage(p, rho, n, k, gain, method, 500) for p, gain in columns]
                text = " | ".join(f"{100 * c:.1f} ({100 * w:.1f})" for c, w in cells)
                print(f"| {n} | {k} | {rho:g} | {text} |", flush=True)


if __name__ == "__main__":
    main()
