from __future__ import annotations

import pytest

from upside.analysis.explaining.texts import SHORTEST, cut, whole, within


def test_cut_keeps_both_ends_and_counts_what_is_missing() -> None:
    assert cut("abcdefghij", 10) == "abcdefghij"
    assert cut("abcdefghijkl", 6) == "abcd … 6 more characters … kl"
    assert "98,000 more characters" in cut("x" * 100_000, 2_000)


@pytest.mark.parametrize(
    ("lengths", "budget", "kept"),
    [
        ([100, 200, 300], 600, [100, 200, 300]),
        ([100, 200, 300], 500, [100, 200, 200]),
        ([100, 900, 900], 500, [100, 200, 200]),
        ([1000, 1000], 10, [SHORTEST, SHORTEST]),
        ([], 10, []),
    ],
)
def test_the_longest_pay_for_the_budget(lengths: list[int], budget: int, kept: list[int]) -> None:
    texts = within(["y" * n for n in lengths], budget)
    assert [text.count("y") for text in texts] == kept


def test_lone_surrogates_and_pairs() -> None:
    assert whole("a\ud800b") == "a\N{REPLACEMENT CHARACTER}b"
    assert whole("\ud83d\ude00") == "\N{GRINNING FACE}"
    assert within([None, "x"], 100) == ["", "x"]
