"""The gradients of estimators on shared batches, kept as the inner products that the figures need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from upside.analysis.gradients.sample import Sample
from upside.chains import Estimator
from upside.metrics import ZERO

Aggregate = Literal["sum", "sequence", "token"]
"""How the loss adds up tokens: every token counts alike and a response counts by its length (sum: the policy
gradient), each response counts once (sequence: divided by its own length), or the sum over the batch is divided by the
batch's tokens (token)."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """What one estimator did at one group size on S blocks, each of G responses to every prompt.

    A block is cut into batches. v_s is the mean gradient of a block's batches, u_s the mean of these gradients at
    length 1, o_s the block's part of the oracle. Blocks share no response, so products of two different ones
    estimate products of expectations without bias.

    vv, vo, oo, uo: (S, S) inner products, row from the first. square: (S,) mean |g|^2 over a block's batches.
    idle: (S,) share of responses with advantage 0.
    """

    vv: Array
    vo: Array
    oo: Array
    uo: Array
    square: Array
    idle: Array


def moments(
    sample: Sample,
    estimators: Sequence[Estimator],
    group_size: int,
    prompts_per_batch: int,
    *,
    aggregate: Aggregate = "sum",
    seed: int = 0,
    step: int = 1,
    total_steps: int | None = None,
) -> list[Moments]:
    """One Moments an estimator, all on the same batches. Which prompts share a batch is drawn anew in every block.
    Responses that fill no block are left out."""
    draw = torch.Generator().manual_seed(seed)
    blocks = sample.samples // group_size
    mean, unit = torch.zeros(2, len(estimators), blocks, sample.scores.shape[-1]).unbind()
    oracle = torch.zeros(blocks, sample.scores.shape[-1])
    square, idle = torch.zeros(2, len(estimators), blocks, dtype=torch.float64).unbind()
    weights = sample.oracle_weights()
    for block in range(blocks):
        responses = slice(block * group_size, (block + 1) * group_size)
        batches = torch.randperm(sample.prompts, generator=draw).split(prompts_per_batch)
        for prompts in batches:
            scores = sample.scores[prompts, responses].reshape(-1, oracle.shape[1])  # (N, K)
            rollouts = sample.rollouts(prompts, responses, step, total_steps)
            advantages = torch.stack([each(rollouts).values.double() for each in estimators])  # (E, N)
            scale = token_scale(sample.lengths[prompts, responses].reshape(-1), aggregate)
            gradients = (advantages * scale / len(scores)).float() @ scores  # (E, K)
            norms = gradients.norm(dim=1, keepdim=True)
            mean[:, block] += gradients
            unit[:, block] += torch.where(norms > 0, gradients / norms.clamp(min=1e-30), 0.0)
            square[:, block] += norms[:, 0].double().square()
            idle[:, block] += (advantages.abs() <= ZERO).double().mean(1)
            oracle[block] += weights[prompts, responses].reshape(-1).float() @ scores
        for total in (mean, unit, square, idle):
            total[:, block] /= len(batches)
    oracle /= sample.prompts * group_size
    oo = _products(oracle, oracle)
    return [
        Moments(_products(v, v), _products(v, oracle), oo, _products(u, oracle), s.numpy(), i.numpy())
        for v, u, s, i in zip(mean, unit, square, idle, strict=True)
    ]


def token_scale(lengths: Tensor, aggregate: Aggregate) -> Tensor:
    """What the loss multiplies each response's gradient by. lengths: (N,) tokens. (N,)"""
    tokens = lengths.double().clamp(min=1)
    if aggregate == "sum":
        return torch.ones_like(tokens)
    return 1 / tokens if aggregate == "sequence" else torch.full_like(tokens, float(1 / tokens.mean()))


def _products(left: Tensor, right: Tensor) -> Array:
    found: Array = (left.double() @ right.double().T).numpy()
    return found
