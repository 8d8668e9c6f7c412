"""From inner products to figures with intervals: ratios of unbiased estimates, jackknifed over blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
    traces, against = _jackknife(found), _jackknife(first)
    ends = {name: interval(trace) for name, trace in traces.items()}
    with np.errstate(invalid="ignore"):
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


def _statistics(m: Moments, kept: NDArray[np.intp]) -> dict[str, float]:
    """The figures from the blocks in `kept` (n,), an index."""
    vv, vo, oo, uo = (each[np.ix_(kept, kept)] for each in (m.vv, m.vo, m.oo, m.uo))
    signal, along, oracle, gain = map(_between, (vv, vo, oo, uo))
    length = _root(oracle)
    return {
        "signal": signal,
        "oracle": oracle,
        "cosine": _ratio(along, _root(signal) * length),
        "scale": _ratio(along, oracle),
        "noise": _ratio(float(m.square[kept].mean()), signal) - 1,
        "batch_cosine": _ratio(gain, length),
        "gain": gain,
        "idle": float(m.idle[kept].mean()),
        "reliability": _ratio(signal, float(vv.mean())),
        "oracle_reliability": _ratio(oracle, float(oo.mean())),
    }


def _between(products: Array) -> float:
    """Mean inner product of two different blocks: unbiased, since they share no response."""
    count = len(products)
    return float((products.sum() - np.trace(products)) / (count * (count - 1)))


def _jackknife(m: Moments) -> dict[str, Array]:
    """Each figure from all blocks, then without each one of them in turn. (1 + S,)"""
    every = np.arange(len(m.square))
    rows = [_statistics(m, every), *(_statistics(m, np.delete(every, i)) for i in every)]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def interval(trace: Array, back: Callable[[float], float] = float) -> Interval:
    """The estimate and its 95% jackknife-t interval; no ends where a part of it is not defined."""
    from scipy.stats import t  # type: ignore[import-untyped]

    value, without = float(trace[0]), trace[1:]
    if not math.isfinite(value):
        return Interval(None)
    if not np.isfinite(without).all():
        return Interval(back(value))
    blocks = len(without)
    error = math.sqrt((blocks - 1) * float(without.var()))
    half = float(t.ppf(0.975, blocks - 1)) * error
    return Interval(back(value), back(value - half), back(value + half))


def positive(trace: Array) -> Interval:
    """As `interval`, on the scale of logarithms."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return interval(np.log(trace), math.exp)


def _above(interval: Interval, bound: float) -> bool:
    return interval.low is not None and interval.low > bound


def _root(square: float) -> float:
    return math.sqrt(square) if square > 0 else math.nan


def _ratio(top: float, bottom: float) -> float:
    return top / bottom if bottom > 0 else math.nan


def _degrees(cosine: float | None) -> float | None:
    return None if cosine is None else math.degrees(math.acos(max(-1.0, min(1.0, cosine))))
