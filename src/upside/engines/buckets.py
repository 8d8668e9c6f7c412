"""Cheaper scoring passes over a padded batch: length-sorted parts, and no work for rows that train nothing.

A scoring pass is `score(input_ids, attention_mask, keep, **kwargs) -> (log-probabilities, entropies or None, None)`
with input_ids and attention_mask (B, P+T), prompts left-padded and responses right-padded, and keep = T.
Log-probabilities and entropies are (B, T). Further arguments that have something for each row (pictures) go along with
the rows. What is built here is such a pass again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from upside.engines.pictures import of_rows, sighted

Scores = tuple[Tensor, Tensor | None, Any]
Score = Callable[..., Scores]


def in_buckets(
    score: Score, buckets: int, input_ids: Tensor, attention_mask: Tensor, keep: int, **kwargs: Any
) -> Scores:
    """`score` over `buckets` parts of the rows, each trimmed to its longest prompt and response; rows with and without
    pictures apart.

    Rows come back in their order, padding positions as 0; equal to one pass up to rounding.
    """
    prompt = input_ids.shape[1] - keep
    width = torch.arange(1, keep + 1, device=input_ids.device)
    order = (attention_mask[:, prompt:] * width).amax(1).argsort(stable=True)
    seeing = sighted(kwargs, input_ids)[order]
    parts = [part for alike in (order[seeing], order[~seeing]) for part in alike.chunk(buckets) if len(part)]
    logps, entropies = [], []
    for part in parts:
        mask = attention_mask[part]
        right = max(1, int((mask[:, prompt:] * width).amax()))
        left = int((mask[:, :prompt] == 0).all(0).long().cumprod(0).sum())
        columns = slice(left, prompt + right)
        logp, entropy, _ = score(input_ids[part, columns], mask[:, columns], right, **of_rows(kwargs, part, columns))
        logps.append(pad(logp, (0, keep - right)))
        if entropy is not None:
            entropies.append(pad(entropy, (0, keep - right)))
    back = torch.cat(parts).argsort()
    return torch.cat(logps)[back], torch.cat(entropies)[back] if entropies else None, None


@dataclass(frozen=True)
class IdleRows:
    """Rows of advantage 0, and what stands in for their scores.

    idle: (B,) bool. old_logps: (B, T) log-probabilities at sampling time, None where the ratio is 1 by construction.
    entropy: (B,) mean entropy of each response, given to each of its tokens.
    """

    idle: Tensor
    old_logps: Tensor | None
    entropy: Tensor


def without_idle(
    score: Score, rows: IdleRows, input_ids: Tensor, attention_mask: Tensor, keep: int, **kwargs: Any
) -> Scores:
    """`score` over the rows that are not idle. Idle rows get a ratio of 1 and their known entropy."""
    live = (~rows.idle).nonzero()[:, 0]
    logp, entropy, _ = score(input_ids[live], attention_mask[live], keep, **of_rows(kwargs, live))
    filler = logp.new_zeros(len(input_ids), keep) if rows.old_logps is None else rows.old_logps.to(logp.dtype)
    logps = filler.index_copy(0, live, logp)
    if entropy is None:
        return logps, None, None
    known = rows.entropy.to(entropy.dtype)[:, None].expand(-1, keep).clone()
    return logps, known.index_copy(0, live, entropy), None
