"""Every group of a log with what its rewards alone say about it, and the choice of the few worth reading."""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from upside.analysis.logs import Log

KINDS = {
    "flipped": "a stage turned the sign of an advantage",
    "rescued": "equal rewards, and yet an advantage",
    "extreme": "holds the step's largest advantage",
    "attenuated": "a weight below 1",
    "amplified": "a weight above 1",
    "truncated": "a response hit the token limit",
    "invalid": "a response has no reward",
    "singleton": "a single response",
    "mixed": "rewards that differ",
    "too_hard": "equal rewards, none right",
    "too_easy": "equal rewards, all right",
    "dead": "equal rewards: nothing to compare",
}
"""Kind -> what it means, the rarest and most telling first."""
TRACED = ("flipped", "rescued", "extreme", "attenuated", "amplified")
"""Kinds that only the estimator can tell."""


class Catalog:
    """The K groups of a log by step, then by first row.

    step: (K,) int64. number: (K,) within the step, from 0. index: (N,) group of each row. kinds: name -> (K,) bool.
    Raises ValueError where the log holds no responses.
    """

    def __init__(self, log: Log) -> None:
        if not len(log):
            raise ValueError(f"{log.source} holds no responses to explain; give a log that has them")
        self.log = log
        _, first, index = np.unique(log.codes("group"), return_index=True, return_inverse=True)
        steps = log.codes("step")[first]
        order = np.lexsort((first, steps))
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        self.index, self.step = rank[index], steps[order]
        starts = np.searchsorted(self.step, self.step, side="left")
        self.number = np.arange(len(order)) - starts
        self.kinds = self._kinds(first[order])

    def __len__(self) -> int:
        return len(self.step)

    def _kinds(self, first: np.ndarray) -> dict[str, np.ndarray]:
        log, k = self.log, len(self)
        reward = log.numbers("reward")
        known = ~np.isnan(reward)
        count = lambda rows: np.bincount(self.index[rows], minlength=k)  # noqa: E731
        size, full = count(known), count(slice(None))
        highest, lowest = np.full(k, -np.inf), np.full(k, np.inf)
        np.maximum.at(highest, self.index[known], reward[known])
        np.minimum.at(lowest, self.index[known], reward[known])
        correct = log.numbers("correct")
        right = count(known & np.where(np.isnan(correct), reward > 0.5, correct == 1))
        dead = (size > 1) & (highest == lowest)
        return {
            "truncated": count(log.numbers("truncated") == 1) > 0,
            "invalid": full > size,
            "singleton": full == 1,
            "mixed": highest > lowest,
            "too_hard": dead & (right == 0),
            "too_easy": dead & (right == size),
            "dead": dead,
        }

    def find(self, step: int | None, group: int | None, prompt: str | None, kind: str | None) -> np.ndarray:
        """The groups that are meant, as positions; group without step: of the last step. ValueError where none is."""
        log, found = self.log, np.ones(len(self), dtype=bool)
        if group is not None and step is None:
            step = int(self.step[-1])
        if kind is not None and kind not in KINDS:
            raise ValueError(f"kind {kind!r}: there are {', '.join(KINDS)}")
        if step is not None:
            found &= self.step == step
            if not found.any():
                raise ValueError(f"{log.source} has no step {step}; it has {len(log.steps)}, {_span(log.steps)}")
        if group is not None:
            numbers = self.number[found].tolist()
            found &= self.number == group
            if not found.any():
                raise ValueError(f"{log.source}: step {step} has no group {group}; it has {_span(numbers)}")
        if prompt is not None:
            found &= self._asks(prompt)
            if not found.any():
                raise ValueError(f"{log.source}: no prompt{'' if step is None else f' of step {step}'} has {prompt!r}")
        if kind is not None and kind not in TRACED:
            found &= self.kinds[kind]
            if not found.any():
                raise ValueError(f"{log.source}: no group is {kind} ({KINDS[kind]})")
        return np.flatnonzero(found)

    def _asks(self, text: str) -> np.ndarray:
        """(K,) bool: the prompt holds the text, whatever its case."""
        if "prompt_text" not in self.log.table.column_names:
            return np.zeros(len(self), dtype=bool)
        column = pc.cast(self.log.table["prompt_text"], pa.large_string())
        has = pc.fill_null(pc.match_substring(column, text, ignore_case=True), False).to_numpy(zero_copy_only=False)
        return np.bincount(self.index[has.astype(bool)], minlength=len(self)) > 0


def _span(numbers: Sequence[int]) -> str:
    return f"{numbers[0]} to {numbers[-1]}"


def evenly(items: Sequence[int], most: int) -> list[int]:
    """At most so many of them, evenly spaced, both ends among them."""
    if len(items) <= most:
        return list(items)
    return [items[round(i)] for i in np.linspace(0, len(items) - 1, most)]


def instructive(kinds: Sequence[Set[str]], limit: int | None) -> list[int]:
    """Positions of at most `limit` groups, in order: of each kind in turn, each spread over the whole log."""
    if limit is None or len(kinds) <= limit:
        return list(range(len(kinds)))
    queues = [_scattered([i for i, own in enumerate(kinds) if kind in own]) for kind in KINDS]
    chosen: dict[int, None] = {}
    while len(chosen) < limit and any(queues):
        for queue in queues:
            while queue and queue[-1] in chosen:
                queue.pop()
            if queue and len(chosen) < limit:
                chosen[queue.pop()] = None
    return sorted(chosen)


def _scattered(items: list[int]) -> list[int]:
    """In an order whose every end part is spread over the whole: by the reversed bits of the position."""
    bits = max(len(items) - 1, 1).bit_length()
    order = sorted(range(len(items)), key=lambda i: int(f"{i:0{bits}b}"[::-1], 2))
    return [items[i] for i in reversed(order)]
