"""Score a padded batch in length-sorted parts, so that short rows do not pay for the padding of long ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def in_buckets(
    score: Callable[..., tuple],
    input_ids: Tensor,
    attention_mask: Tensor,
    keep: int,
    buckets: int,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None, None]:
    """`score(ids, mask, keep, **kwargs)` over `buckets` parts of the rows, trimmed to each part's longest row.

    input_ids, attention_mask: (B, P+T), prompts left-padded, completions right-padded; keep: T.
    Returns log-probabilities and entropies (B, T) in the order of the input, 0 at padding, and None for the
    auxiliary loss. Equal to one pass over all rows up to rounding.
    """
    rows, prompt = input_ids.shape[0], input_ids.shape[1] - keep
    width = torch.arange(1, keep + 1, device=input_ids.device)
    order = (attention_mask[:, prompt:] * width).amax(1).argsort(stable=True)
    logps, entropies = [], []
    for part in order.chunk(min(buckets, rows)):
        mask = attention_mask[part]
        right = max(1, int((mask[:, prompt:] * width).amax()))
        left = int((mask[:, :prompt] == 0).all(0).long().cumprod(0).sum())
        columns = slice(left, prompt + right)
        logp, entropy, _ = score(input_ids[part, columns], mask[:, columns], right, **kwargs)
        logps.append(torch.nn.functional.pad(logp, (0, keep - right)))
        if entropy is not None:
            entropies.append(torch.nn.functional.pad(entropy, (0, keep - right)))
    back = order.argsort()
    return torch.cat(logps)[back], torch.cat(entropies)[back] if entropies else None, None
