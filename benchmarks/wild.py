"""Advantage loops as they are found in training code, rewritten from their description.

Each takes rewards (N,), uids (a list of N strings), lengths (N,) and entropy (N,) as tensors and returns (N,).
What matters is their shape: indexing 0-d tensors row by row, dicts of lists of tensors, a mask over the whole batch
for every group.
"""

from collections import defaultdict

import torch
from torch import Tensor


def grpo_dict_of_lists(rewards: Tensor, uids: list[str], lengths: Tensor, entropy: Tensor) -> Tensor:
    """Two Python loops over the rows and one over the groups (the common GRPO of several trainers)."""
    scores = rewards.clone()
    by_uid, mean, std = defaultdict(list), {}, {}
    for i in range(len(scores)):
        by_uid[uids[i]].append(scores[i])
    for uid, found in by_uid.items():
        stacked = torch.stack(found)
        mean[uid], std[uid] = torch.mean(stacked), torch.std(stacked)
    for i in range(len(scores)):
        scores[i] = (scores[i] - mean[uids[i]]) / (std[uids[i]] + 1e-6)
    return scores


def rloo_dict_of_lists(rewards: Tensor, uids: list[str], lengths: Tensor, entropy: Tensor) -> Tensor:
    """The same loops around the leave-one-out baseline."""
    scores = rewards.clone()
    by_uid, mean = defaultdict(list), {}
    for i in range(len(scores)):
        by_uid[uids[i]].append(scores[i])
    for uid, found in by_uid.items():
        mean[uid] = torch.mean(torch.stack(found))
    for i in range(len(scores)):
        n = len(by_uid[uids[i]])
        scores[i] = scores[i] * n / (n - 1) - mean[uids[i]] * n / (n - 1)
    return scores


def adora_mask_per_group(rewards: Tensor, uids: list[str], lengths: Tensor, entropy: Tensor) -> Tensor:
    """For every group a mask over the whole batch, as in ADORA's released text code: groups x rows."""
    scores = rewards.clone()
    for uid in {str(uid) for uid in uids}:
        mask = torch.tensor([str(other) == uid for other in uids])
        success, failure = mask & (rewards > 0.5), mask & (rewards <= 0.5)
        longest = torch.where(success, lengths, -torch.inf).max()
        mean_failed = lengths[failure].mean() if failure.any() else torch.tensor(-torch.inf)
        weight = 1.0 if longest > mean_failed else 0.1
        mine = rewards[mask]
        scores[mask] = (mine - mine.mean()) / (mine.std() + 1e-6) * weight
    return scores


def canon_sorted_zip(rewards: Tensor, uids: list[str], lengths: Tensor, entropy: Tensor) -> Tensor:
    """Per uid a Python sort of (metric, score, row) on 0-d tensors, as in CANON's released code."""
    scores = rewards.clone()
    by_uid = defaultdict(list)
    for i in range(len(scores)):
        by_uid[uids[i]].append((entropy[i], scores[i], i))
    for found in by_uid.values():
        ranked = sorted(found, key=lambda item: item[0])
        cut = len(ranked) // 2
        low = torch.stack([score for _, score, _ in ranked[:cut]]).mean()
        high = torch.stack([score for _, score, _ in ranked[cut:]]).mean()
        for place, (_, score, i) in enumerate(ranked):
            scores[i] = score - (low if place >= cut else high)
    return scores
