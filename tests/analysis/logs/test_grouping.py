"""Which responses belong together where no id says it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from upside.analysis.logs.grouping import by_prompt, codes, pair_codes


def test_codes_and_pairs() -> None:
    assert codes(pa.chunked_array([pa.array(["b", None]), pa.array(["a", "b"])])).tolist() == [0, -1, 1, 0]
    assert pair_codes(np.array([2, 1, 2, 1]), np.array([0, 0, 0, 5])).tolist() == [2, 0, 2, 1]
    late = np.array([2**53 - 1, 2**53, 2**53])  # times its width this is beyond int64
    assert pair_codes(late, np.array([0, 4000, 0])).tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    ("prompts", "groups", "said"),
    [
        ("aabb", [0, 0, 1, 1], ""),
        ("abab", [0, 1, 0, 1], ""),
        ("aabbaacc", [0, 0, 2, 2, 1, 1, 3, 3], "split into groups of 2"),  # a twice, its rows in two runs
        ("aaaabbcc", [0, 0, 1, 1, 2, 2, 3, 3], "split into groups of 2"),
        ("abacabcc", [0, 1, 0, 2, 0, 1, 2, 2], ""),  # 3, 2, 3: unequal, nothing to split
        ("abacaabbccdd", [0, 1, 0, 2, 0, 0, 1, 1, 2, 2, 3, 3], ""),
        ("abaabaccdd", [0, 1, 0, 0, 1, 0, 2, 2, 3, 3], "cannot be told apart"),  # a twice, its rows scattered
    ],
)
def test_by_prompt(prompts: str, groups: list[int], said: str) -> None:
    notes: list[str] = []
    found = by_prompt(np.zeros(len(prompts), np.int64), codes(pa.array(list(prompts))), notes)
    assert found.tolist() == groups
    assert said in " ".join(notes) if said else not notes


def test_a_prompt_at_two_steps_is_two_groups() -> None:
    assert by_prompt(np.array([1, 1, 2, 2]), np.zeros(4, np.int64), []).tolist() == [0, 0, 1, 1]
