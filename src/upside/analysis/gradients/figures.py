"""From inner products to figures with intervals: ratios of unbiased estimates, jackknifed over blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from upside.analysis.blocks import Interval
from upside.analysis.gradients.moments import Array, Moments

LEAST_BLOCKS = 4
RELIABILITIES = ("reliability", "oracle_reliability")


@dataclass(frozen=True)
class Figures:
    """What is said of one estimator at one group size, each with a 95% interval over blocks of responses.

    cosine: of its mean gradient with the oracle, corrected for the noise of both; 1: it does not bend. scale: length
    of its mean gradient along the oracle, 1: that of the policy gradient. noise: E|g - Eg|^2 / |Eg|^2 of one batch.
    noise_ratio: the same divided by the first estimator's, on the same batches. batch_cosine: of one batch with the
    oracle, on average: the share of the best step's gain that a small step along it makes. batch_difference: the same
    minus the first estimator's. gain: that gain itself, first-order, per unit of step: batch_cosine times the length of
    the true gradient. idle: share of responses with advantage 0. reliability, oracle_reliability: share of the squared
    length of the mean gradient that is signal. resolved: whether the sample tells both mean gradients from 0; where it
    does not, cosine, scale and noise mean nothing.
    """

    estimator: str
    group_size: int
    blocks: int
    cosine: Interval
    scale: Interval
    noise: Interval
    noise_ratio: Interval
    batch_cosine: Interval
    batch_difference: Interval
    gain: Interval
    idle: Interval
    reliability: Interval
    oracle_reliability: Interval
    resolved: bool

    @property
    def angle(self) -> Interval:
        """Degrees between the mean gradient and the oracle."""
        cosine = self.cosine
        return Interval(_degrees(cosine.value), _degrees(cosine.high), _degrees(cosine.low))


def figures(estimator: str, group_size: int, found: Moments, first: Moments) -> Figures:
    """The figures of one estimator. first: moments of the estimator that it is set against."""
    traces, against = _traces(found), _traces(first)
    ends = {name: interval(trace) for name, trace in traces.items()}
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = traces["noise"] / against["noise"]
    return Figures(
        estimator=estimator,
        group_size=group_size,
        blocks=len(found.square),
        noise=positive(traces["noise"]),
        noise_ratio=positive(ratio),
        batch_difference=interval(traces["batch_cosine"] - against["batch_cosine"]),
        resolved=_above(ends["signal"], 0) and _above(ends["oracle"], 0),
        **{name: ends[name] for name in ("cosine", "scale", "batch_cosine", "gain", "idle", *RELIABILITIES)},
    )


def _traces(m: Moments) -> dict[str, Array]:
    """Each figure from all blocks, then without each one of them in turn. (1 + S,)"""
    signal, along, oracle, gain = map(_between, (m.vv, m.vo, m.oo, m.uo))
    with np.errstate(invalid="ignore", divide="ignore"):
        length = np.sqrt(oracle)
        return {
            "signal": signal,
            "oracle": oracle,
            "cosine": along / (np.sqrt(signal) * length),
            "scale": along / oracle,
            "noise": _mean(m.square) / signal - 1,
            "batch_cosine": gain / length,
            "gain": gain,
            "idle": _mean(m.idle),
            "reliability": signal / _length(m.vv),
            "oracle_reliability": oracle / _length(m.oo),
        }


def _between(products: Array) -> Array:
    """Mean inner product of two different blocks, unbiased, since they share no response: of all blocks, then without
    each. products: (S, S). (1 + S,)"""
    own, count = np.diag(products), len(products)
    apart = _sums(products) - np.append(own.sum(), own.sum() - own)
    return apart / np.append(count * (count - 1), np.full(count, (count - 1) * (count - 2)))


def _length(products: Array) -> Array:
    """Squared length of the mean over blocks, noise included: of all blocks, then without each. (1 + S,)"""
    count = len(products)
    return _sums(products) / np.append(count**2, np.full(count, (count - 1) ** 2))


def _sums(products: Array) -> Array:
    """Sum of a matrix, then without each block's row and column. (1 + S,)"""
    total = products.sum()
    return np.append(total, total - products.sum(0) - products.sum(1) + np.diag(products))


def _mean(values: Array) -> Array:
    """Mean over blocks, then without each. (1 + S,)"""
    return np.append(values.mean(), (values.sum() - values) / (len(values) - 1))


def interval(trace: Array, back: Callable[[float], float] = float) -> Interval:
    """The estimate and its 95% jackknife-t interval; no ends where a part of it is not defined."""
    from scipy.stats import t

    value, without = float(trace[0]), trace[1:]
    if not math.isfinite(value):
        return Interval(None)
    blocks = len(without)
    half = float(t.ppf(0.975, blocks - 1)) * math.sqrt(blocks - 1) * float(without.std())
    low, high = back(value - half), back(value + half)
    return Interval(back(value), low, high) if math.isfinite(low) and math.isfinite(high) else Interval(back(value))


def positive(trace: Array) -> Interval:
    """As `interval`, on the scale of logarithms."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return interval(np.log(trace), lambda value: float(np.exp(value)))


def _above(interval: Interval, bound: float) -> bool:
    return interval.low is not None and interval.low > bound


def _degrees(cosine: float | None) -> float | None:
    return None if cosine is None else math.degrees(math.acos(max(-1.0, min(1.0, cosine))))
