"""Where the noise comes from: how long the scores of right and wrong responses are, and what a baseline does to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from upside.analysis.blocks import Interval
from upside.analysis.gradients.figures import interval, positive
from upside.analysis.gradients.sample import Sample


@dataclass(frozen=True)
class Spread:
    """Means over responses, with 95% intervals over blocks of responses.

    reward: of all. right, wrong: mean |grad log pi|^2 of the responses above and not above reward 0.5; lengths of
    these in tokens. raw, mean, least: mean of (R - b)^2 |grad log pi|^2 for the baseline b = 0, b = the mean reward of
    the prompt, and the b that makes it least. best: that b, averaged over prompts. wrong_to_right,
    mean_to_raw: ratios of these, from the same responses. if_equal: what mean_to_raw would be, were all scores equally
    long.
    """

    reward: Interval
    right: Interval
    wrong: Interval
    right_tokens: Interval
    wrong_tokens: Interval
    raw: Interval
    mean: Interval
    least: Interval
    best: Interval
    if_equal: Interval
    wrong_to_right: Interval
    mean_to_raw: Interval


def spread(sample: Sample, blocks: int = 16) -> Spread:
    """The spread of a sample's scores."""
    every = torch.arange(sample.samples)
    part = every * min(blocks, sample.samples) // sample.samples  # (M,) block of each response
    kept = [torch.ones_like(part, dtype=torch.bool), *(part != block for block in part.unique())]
    rows = [_means(sample, keep) for keep in kept]
    traces = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = {
            "wrong_to_right": positive(traces["wrong"] / traces["right"]),
            "mean_to_raw": positive(traces["mean"] / traces["raw"]),
        }
    return Spread(**{name: interval(trace) for name, trace in traces.items()}, **ratios)


def _means(sample: Sample, keep: Tensor) -> dict[str, float]:
    rewards, norms, lengths = (each[:, keep] for each in (sample.rewards, sample.square_norms, sample.lengths))
    valid = ~rewards.isnan()
    right, wrong = valid & (rewards > 0.5), valid & ~(rewards > 0.5)
    over = lambda value, rows: float(value[rows].mean())  # noqa: E731
    given = rewards.nan_to_num(0.0)
    of_prompt = lambda value: (value * valid).sum(1, keepdim=True)  # noqa: E731
    average = of_prompt(given) / of_prompt(torch.ones_like(given)).clamp(min=1)
    best = of_prompt(given * norms) / of_prompt(norms).clamp(min=1e-30)
    noise = {
        name: over((given - base).square() * norms, valid)
        for name, base in (("raw", torch.zeros_like(average)), ("mean", average), ("least", best))
    }
    squares = [over((given - base).square(), valid) for base in (average, 0.0)]
    equal = squares[0] / squares[1] if squares[1] else float("nan")
    tokens = {"right_tokens": over(lengths, right), "wrong_tokens": over(lengths, wrong)}
    lengths_of = {"right": over(norms, right), "wrong": over(norms, wrong)}
    return {
        "reward": over(given, valid),
        **lengths_of,
        **tokens,
        **noise,
        "best": float(best.mean()),
        "if_equal": equal,
    }
