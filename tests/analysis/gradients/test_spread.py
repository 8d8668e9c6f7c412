from __future__ import annotations

import pytest
import torch

from upside.analysis.gradients import Sample
from upside.analysis.gradients.spread import spread


def test_by_hand():
    # one prompt, half right; squared score norms 1 when right, 3 when wrong
    rewards = torch.tensor([[1.0, 0.0] * 8], dtype=torch.float64)
    norms = torch.where(rewards > 0.5, 1.0, 3.0).double()
    lengths = torch.where(rewards > 0.5, 10.0, 20.0).double()
    found = spread(Sample(rewards, torch.ones(1, 16, 1), norms, {"lengths": lengths}), blocks=4)
    assert (found.right.value, found.wrong.value) == (1.0, 3.0)
    assert (found.right_tokens.value, found.wrong_tokens.value) == (10.0, 20.0)
    assert found.best.value == 0.25  # (1 * 1) / (1 + 3)
    # (1 * 1 + 0 * 3) / 2; (1/4 * 1 + 1/4 * 3) / 2; (9/16 * 1 + 1/16 * 3) / 2
    assert (found.raw.value, found.mean.value, found.least.value) == (0.5, 0.5, 0.375)
    assert found.if_equal.value == 0.5  # (1/4) / (1/2)
    assert (found.wrong_to_right.value, found.mean_to_raw.value) == (pytest.approx(3), 1.0)


def test_without_a_right_answer_there_is_nothing_to_compare():
    found = spread(Sample(torch.zeros(2, 8).double(), torch.ones(2, 8, 1), torch.ones(2, 8).double()))
    assert found.right.value is None
    assert found.wrong_to_right.value is None
    assert found.if_equal.value is None
