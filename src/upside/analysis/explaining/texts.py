"""Texts of a model within a budget: the longest are cut in the middle, and say how much is missing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SHORTEST = 80


def within(texts: Sequence[str | None], budget: int) -> list[str]:
    """The texts, cut to one common length where all together have more than `budget` characters (but 80 are kept)."""
    longest = max(_cap([len(text or "") for text in texts], budget), SHORTEST)
    return [cut(whole(text or ""), longest) for text in texts]


def whole(text: str) -> str:
    """Without lone surrogates, which no file can hold: each is U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def cut(text: str, longest: int) -> str:
    """Beginning and end, with what is left out between them: the answer stands at the end."""
    if len(text) <= longest:
        return text
    head = longest - longest // 3
    return f"{text[:head]} … {len(text) - longest:,} more characters … {text[-(longest // 3) :]}"


def _cap(lengths: Sequence[int], budget: int) -> int:
    """The largest c with sum(min(length, c)) <= budget."""
    ascending = np.sort(np.asarray(lengths, dtype=np.int64))
    before = np.concatenate([[0], np.cumsum(ascending)[:-1]]) if len(ascending) else ascending
    shares = (budget - before) // np.arange(len(ascending), 0, -1)  # what each of the rest may have
    over = ascending > shares
    return int(shares[np.argmax(over)]) if over.any() else int(ascending[-1]) if len(ascending) else 0
