"""Which responses were sampled for one prompt at one step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc


def codes(column: Any) -> np.ndarray:
    """Values as numbers 0, 1, …, -1 where null. (N,) int64"""
    known = pc.drop_null(pc.unique(column))  # encoding as a dictionary takes a dictionary per chunk
    return np.asarray(pc.fill_null(pc.index_in(column, value_set=known), -1), dtype=np.int64)


def pair_codes(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """One code per pair, ascending in `first`. (N,), (N,) -> (N,)"""
    width = int(second.max(initial=0)) + 2
    first = np.unique(first, return_inverse=True)[1]  # a time in microseconds as a step would overflow
    return np.unique(first * width + second + 1, return_inverse=True)[1].astype(np.int64)


def by_prompt(step: np.ndarray, prompt: np.ndarray, notes: list[str]) -> np.ndarray:
    """Groups where no id was logged: the same prompt at the same step. (N,), (N,) -> (N,)

    A prompt that was drawn k times in a step gives a block k times as large as the usual one. Its responses are told
    apart only where they stand in k runs of the usual size; else the block stays one group, and a note says so.
    """
    block = pair_codes(step, prompt)
    sizes = np.bincount(block)
    usual = int(np.bincount(sizes).argmax())
    large = (sizes > usual) & (sizes % usual == 0)
    if usual < 2 or not large.any():
        return block
    run = np.concatenate([[True], block[1:] != block[:-1]]).cumsum() - 1  # (N,) runs of rows of one block
    whole = np.ones(len(sizes), bool)
    np.logical_and.at(whole, block[np.flatnonzero(np.diff(run, prepend=-1))], np.bincount(run) % usual == 0)
    split = large & whole
    order = np.argsort(block, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[block[order]]
    if split.any():
        notes.append(
            f"{int(split.sum())} times a prompt stood more than once in a step; its responses were split into groups "
            f"of {usual}, the usual size, in the order they were logged in."
        )
    if merged := int((large & ~whole).sum()):
        notes.append(
            f"{merged} times a prompt seems to stand more than once in a step (its block is a multiple of {usual}); "
            "without a group id these responses cannot be told apart and count as one group."
        )
    return pair_codes(block, np.where(split[block], rank // usual, 0))
