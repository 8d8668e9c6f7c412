"""Segment statistics against the obvious loop."""

import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from upside import Rollouts
from upside.groups import Groups, factorize

rows = st.lists(st.tuples(st.integers(0, 4), st.floats(-1e3, 1e3), st.booleans()), min_size=1, max_size=30)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(rows)
def test_statistics(given_rows):
    index, x, valid = zip(*given_rows, strict=True)
    groups = Groups(torch.tensor(index), 5, torch.tensor(valid))
    x = torch.tensor(x, dtype=torch.float64)
    got = [
        s.tolist() for s in (groups.size, groups.mean(x), groups.std(x), groups.std(x, 0), groups.max(x), groups.min(x))
    ]
    for g in range(5):
        mine = [v for i, v, ok in zip(index, x.tolist(), valid, strict=True) if i == g and ok]
        expected = [
            len(mine),
            statistics.fmean(mine) if mine else 0,
            statistics.stdev(mine) if len(mine) > 1 else 0,
            statistics.pstdev(mine) if mine else 0,
            max(mine, default=-torch.inf),
            min(mine, default=torch.inf),
        ]
        assert [float(s[g]) for s in got] == pytest.approx(expected, abs=1e-9)
        assert bool(groups.constant(x)[g]) == (len(set(mine)) <= 1)


def test_nan_outside_the_valid_rows_goes_nowhere():
    groups = Groups(torch.tensor([0, 0, 0]), 1, torch.tensor([True, True, False]))
    x = torch.tensor([1.0, 3.0, torch.nan])
    assert [float(s) for s in (groups.sum(x), groups.mean(x), groups.max(x), groups.min(x))] == [4, 2, 3, 1]
    assert float(groups.std(x)) == pytest.approx(2**0.5)


def test_where_is_a_subset_of_the_valid_rows():
    groups = Groups(torch.tensor([0, 0, 1]), 2, torch.tensor([True, False, True]))
    assert groups.where(torch.tensor([True, True, False])).size.tolist() == [1, 0]


def test_order_is_by_group_then_value_then_row():
    groups = Groups(torch.tensor([1, 0, 1, 0, 1]), 2, torch.ones(5, dtype=torch.bool))
    assert groups.order(torch.tensor([2.0, 5.0, 1.0, 5.0, 1.0])).tolist() == [1, 3, 2, 4, 0]


def test_factorize_keeps_ids_apart():
    index, ids = factorize(["1", 1, (1,), "1", "01"], torch.device("cpu"))
    assert index.tolist() == [0, 1, 2, 0, 3]
    assert ids == ["1", 1, (1,), "01"]


def test_constant_has_no_tolerance():
    groups = Groups(torch.tensor([0, 0, 1, 1]), 2, torch.ones(4, dtype=torch.bool))
    x = torch.tensor([1.0, 1.0 + 2**-52, 0.7, 0.7], dtype=torch.float64)
    assert groups.constant(x).tolist() == [False, True]


def test_a_mean_of_large_equal_numbers_is_exact_enough():
    rollouts = Rollouts([1e6 + 0.1] * 7, [0] * 7)
    assert rollouts.grouping.constant(rollouts.scores).all()
