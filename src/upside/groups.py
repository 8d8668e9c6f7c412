"""Segment arithmetic over groups: every statistic of every estimator, without a Python loop over rows or groups.

A group is the set of responses to one prompt. Rows may stand in any order and groups may have any size, so
nothing here reshapes: sums are scatter-adds over a dense group index, in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor


def factorize(ids: Any, device: torch.device) -> tuple[Tensor, list[Any] | Tensor]:
    """Opaque ids -> (dense index (N,) in [0, K), the K ids by index). One dict pass for anything but int tensors.

    Raises ValueError naming the row of an id that is None, NaN or unhashable.
    """
    if hasattr(ids, "dtype") and not isinstance(ids, Tensor) and getattr(ids.dtype, "kind", "") in "iu":
        ids = torch.as_tensor(ids)  # numpy integers
    if isinstance(ids, Tensor):
        if ids.is_floating_point() or ids.is_complex() or ids.ndim != 1:
            raise ValueError(
                f"groups: expected a 1-D tensor of integers, got {ids.dtype} with shape {tuple(ids.shape)}; "
                "give each prompt one integer or one uid string"
            )
        labels, index = torch.unique(ids, return_inverse=True)
        return index.to(device), labels
    slots: dict[Any, int] = {}
    try:
        index = torch.tensor([slots.setdefault(uid, len(slots)) for uid in ids], dtype=torch.long, device=device)
    except TypeError:
        raise ValueError(
            f"groups[{_first_unhashable(ids)}] is not hashable; use an int or a string per prompt"
        ) from None
    if any(isinstance(uid, Tensor) for uid in slots):  # a tensor is a key by identity, not by value
        return factorize([uid.tolist() if isinstance(uid, Tensor) else uid for uid in ids], device)
    for uid, slot in slots.items():
        if uid is None or uid != uid:
            row = int((index == slot).nonzero()[0])
            raise ValueError(f"groups[{row}] is {uid}; every response needs the id of its prompt")
    return index, list(slots)


def _first_unhashable(ids: Sequence[Any]) -> int:
    for row, uid in enumerate(ids):
        try:
            hash(uid)
        except TypeError:
            return row
    return -1


class Groups:
    """The partition of a batch into groups, restricted to its valid rows.

    index: (N,) long, group of each row, in [0, count).
    valid: (N,) bool; rows outside never enter a statistic.
    Per-group results are (K,) float64; `spread` brings them back to rows (N,).
    """

    def __init__(self, index: Tensor, count: int, valid: Tensor) -> None:
        self.index, self.count, self.valid = index, count, valid

    def spread(self, per_group: Tensor) -> Tensor:
        """(K,) -> (N,)"""
        return per_group[self.index]

    def sum(self, x: Tensor) -> Tensor:
        """Sum over the valid rows of each group. (N,) -> (K,)"""
        x = torch.where(self.valid, x.double(), 0.0)
        return torch.zeros(self.count, dtype=torch.float64, device=x.device).index_add_(0, self.index, x)

    @cached_property
    def size(self) -> Tensor:
        """Valid rows per group. (K,)"""
        return self.sum(torch.ones_like(self.index))

    @cached_property
    def full_size(self) -> Tensor:
        """All rows per group, valid or not. (K,) long"""
        return torch.bincount(self.index, minlength=self.count)

    def mean(self, x: Tensor) -> Tensor:
        """Mean over the valid rows of each group; 0 for a group without any. (N,) -> (K,)"""
        return self.sum(x) / self.size.clamp(min=1)

    def std(self, x: Tensor, ddof: int = 1) -> Tensor:
        """Two-pass standard deviation; 0 where a group has at most `ddof` valid rows. (N,) -> (K,)"""
        centered = x.double() - self.spread(self.mean(x))
        return (self.sum(centered**2) / (self.size - ddof).clamp(min=1)).sqrt()

    def max(self, x: Tensor) -> Tensor:
        """Maximum over valid rows, -inf for a group without any. (N,) -> (K,)"""
        x = torch.where(self.valid, x.double(), -torch.inf)
        start = torch.full((self.count,), -torch.inf, dtype=torch.float64, device=x.device)
        return start.scatter_reduce_(0, self.index, x, reduce="amax")

    def min(self, x: Tensor) -> Tensor:
        """Minimum over valid rows, +inf for a group without any. (N,) -> (K,)"""
        return -self.max(-x.double())

    def any(self, flag: Tensor) -> Tensor:
        """(N,) bool -> (K,) bool"""
        return self.sum(flag) > 0

    def constant(self, x: Tensor) -> Tensor:
        """Groups whose valid rows all hold exactly the same value: max == min, no tolerance. (N,) -> (K,) bool"""
        return self.max(x) <= self.min(x)

    def where(self, keep: Tensor) -> Groups:
        """The same groups seen through a subset of their valid rows."""
        return Groups(self.index, self.count, self.valid & keep)

    def order(self, x: Tensor) -> Tensor:
        """Row numbers sorted by (group, x), ties in row order. (N,) -> (N,) long"""
        by_value = torch.argsort(x, stable=True)
        return by_value[torch.argsort(self.index[by_value], stable=True)]
