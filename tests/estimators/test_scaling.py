"""A large batch goes through whole-array operations: no Python work per row or per group."""

import sys
import uuid

import pytest
import torch
from batches import SPECS

import upside


def large(n, size=16, ids=None):
    g = torch.Generator().manual_seed(n)
    uniform = lambda: torch.rand(n, generator=g, dtype=torch.float64)  # noqa: E731
    rewards = (uniform() < 0.5).double()
    index = torch.arange(n) // size
    index = index[torch.randperm(n, generator=g)]
    return {
        "rewards": rewards,
        "groups": index if ids is None else [ids[i] for i in index.tolist()],
        "lengths": torch.randint(1, 500, (n,), generator=g),
        "entropy": uniform(),
        "correct": rewards == 1,
        "truncated": uniform() < 0.1,
        "reference_rewards": (uniform() < 0.5).double(),
        "metrics": {"baseline": uniform(), "difficulty": uniform()},
        "step": 5,
        "total_steps": 10,
    }


def python_calls(work):
    """Calls of Python and C functions while `work` runs."""
    count = 0

    def note(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("spec", SPECS)
def test_the_number_of_calls_does_not_grow_with_the_batch(spec):
    estimator = upside.estimator(spec)
    few, many = (python_calls(lambda n=n: estimator(upside.Rollouts(**large(n)))) for n in (2_000, 20_000))
    assert abs(many - few) <= 200  # 18,000 rows and 1,125 groups more; the slack is the garbage collector's hooks


def test_string_ids_cost_one_pass():
    ids = [str(uuid.UUID(int=i)) for i in range(1_250)]
    given = {n: large(n, ids=ids) for n in (2_000, 20_000)}
    few, many = (python_calls(lambda n=n: upside.Rollouts(**given[n])) for n in given)
    # one look-up in a dict, and its size, per row; a check or two per id (1,125 more of them)
    assert many - few <= 2 * 18_000 + 3 * 1_125 + 200


def test_every_estimator_on_two_hundred_thousand_responses():
    n = 200_000
    ids = [str(uuid.UUID(int=i * 2**64)) for i in range(n // 16)]
    batch = upside.Rollouts(**large(n, ids=ids))
    by_number = upside.Rollouts(**large(n))
    for spec in SPECS:
        values = upside.estimator(spec)(batch).values
        assert values.shape == (n,)
        assert values.isfinite().all()
        assert torch.equal(values, upside.estimator(spec)(by_number).values)
    assert batch.grouping.count == n // 16
