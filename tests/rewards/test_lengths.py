"""Rewards on length: values by hand from the formulas of DAPO, AAPO and CANON."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upside.rewards import Completions, RewardError, load_reward
from upside.tasks import Problem


def batch(lengths, correct=None, groups=None, texts=None):
    n = len(lengths)
    return Completions([Problem("p", "q", "a")] * n, texts or ["x"] * n, lengths, [False] * n, groups, correct)


def test_overlong_is_equation_13_of_dapo():
    reward = load_reward("overlong", max_length=20, cache=8)
    scores = reward(batch([0, 12, 14, 16, 20, 25]))
    assert scores.values == [0.0, 0.0, -0.25, -0.5, -1.0, -1.0]
    assert scores.correct is None
    published = load_reward("overlong", max_length=20480, cache=4096)
    assert published(batch([16384, 18432, 20480])).values == [0.0, -0.5, -1.0]


def test_cosine_as_released_by_aapo():
    """Right after 500 characters 0.75, wrong after 250 -0.0732, right after 1000 0.5; with format 1 + 2 x."""
    reward = load_reward("cosine")
    texts = ["a" * 500, "a" * 250, "a" * 1000, "", "", "a" * 1000, "a" * 2000]
    scores = reward(batch([1] * 7, [True, False, True, True, False, False, True], texts=texts)).values
    assert scores == pytest.approx([0.75, -0.5 + 0.25 * (1 + math.sqrt(0.5)), 0.5, 1.0, 0.0, -0.5, 1.0])
    weighted = [1 + 2 * scores[0], 1 + 2 * scores[1], 0 + 2 * scores[2]]
    assert weighted == pytest.approx([2.5, 0.8535534, 1.0])


def test_cosine_counts_characters_not_bytes_and_can_count_tokens():
    right = [True]
    assert load_reward("cosine", max_length=4)(batch([9], right, texts=["é€"])).values == pytest.approx([0.75])
    assert load_reward("cosine", max_length=18, unit="tokens")(batch([9], right)).values == pytest.approx([0.75])


def test_cosine_options():
    values = {"right_short": 2.0, "right_long": 1.0, "wrong_short": -2.0, "wrong_long": -1.0}
    both = batch([0, 0, 10, 10, 20, 20], [True, False] * 3)
    plain = load_reward("cosine", max_length=10, unit="tokens", **values)(both)
    assert plain.values == pytest.approx([2, -2, 1, -1, 2, -2])  # past max_length the wave rises again, as released
    capped = load_reward("cosine", max_length=10, unit="tokens", cap=True, **values)(both)
    assert capped.values == pytest.approx([2, -2, 1, -1, 1, -1])


def test_cosine_needs_a_judgement():
    """cookbook#335: a gold that cannot be read gives no score, where the released code gives 1.0 to everyone."""
    assert load_reward("cosine")(batch([1, 1], [None, True], texts=["", ""])).values == [None, 1.0]
    with pytest.raises(RewardError, match="'cosine' needs to know which answers are right"):
        load_reward("cosine")(batch([1]))


def test_length_ratio_is_canons_first_baseline():
    reward = load_reward("length_ratio")
    scores = reward(batch([100, 300, 200, 50, 50], groups=["a", "a", "a", "b", "b"])).values
    assert scores == pytest.approx([1.0, 200 / 300 - 1, 0.0, 0.0, 0.0])
    unknown = batch([100, 300, 900], [True, False, None], groups=[0, 0, 0])
    assert reward(unknown).values == pytest.approx([1.0, 200 / 300 - 1, None])
    assert reward(batch([0, 3], groups=[0, 0])).values == pytest.approx([1.0, 2 / 3 - 1])


def test_length_sigmoid_is_canons_second_baseline():
    reward = load_reward("length_sigmoid")
    lengths, right = [100, 200, 300, 9999, 7, 50], [True, True, True, False, None, True]
    scores = reward(batch(lengths, right, [0, 0, 0, 0, 0, 1])).values
    sigmoid = lambda z: 1 / (1 + math.exp(-z))  # noqa: E731
    # mean 200 and unbiased std 100 of the right ones; alone in its group the last has std 1
    assert scores[:3] == pytest.approx([-sigmoid(-1), -0.5, -sigmoid(1)], abs=1e-8)
    assert scores[3:] == [0.0, None, -0.5]
    assert reward(batch([5, 6], [False, False], [0, 0])).values == [0.0, 0.0]
    assert reward(batch([70, 70, 70], [True] * 3, [0] * 3)).values == [-0.5] * 3
    extreme = reward(batch([1, *[10**9] * 999], [True] * 1000, [0] * 1000)).values
    assert extreme[0] == pytest.approx(0.0, abs=1e-6)
    assert all(-1 <= v <= 0 for v in extreme)


@pytest.mark.parametrize("name", ["length_ratio", "length_sigmoid"])
def test_without_groups_the_error_says_what_is_missing(name):
    """trl#3896"""
    with pytest.raises(RewardError, match=rf"{name}' compares the responses of a group.*Completions\(groups=\.\.\.\)"):
        load_reward(name)(batch([1, 2], [True, True]))


@given(
    rows=st.lists(st.tuples(st.integers(1, 50), st.sampled_from([True, False, None]), st.integers(0, 2)), min_size=1),
    order=st.randoms(use_true_random=False),
)
def test_the_order_of_rows_does_not_matter(rows, order):
    shuffled = list(range(len(rows)))
    order.shuffle(shuffled)
    for name in ("length_ratio", "length_sigmoid"):
        scores = load_reward(name)(batch(*map(list, zip(*rows, strict=True)))).values
        again = load_reward(name)(batch(*map(list, zip(*(rows[i] for i in shuffled), strict=True)))).values
        assert again == pytest.approx([scores[i] for i in shuffled])
