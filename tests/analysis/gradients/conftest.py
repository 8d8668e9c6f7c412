"""A bandit with three prompts of four arms: small enough for all its groups, rich enough for every estimator."""

from __future__ import annotations

import pytest
import torch

from upside.analysis.gradients import SoftmaxBandit


@pytest.fixture(scope="session")
def bandit() -> SoftmaxBandit:
    return SoftmaxBandit(
        logits=torch.tensor([[0.9, 0.1, -0.4, 0.2], [-0.8, 0.6, 0.3, 0.0], [0.0, -0.7, 0.5, 1.1]]),
        rewards=torch.tensor([[1.0, 0, 1, 0], [1, 1, 0, 0], [0, 0, 1, 0]]).double(),
        fields={
            "lengths": torch.tensor([[2.0, 5, 9, 4], [7, 3, 1, 6], [4, 2, 8, 3]]).double(),
            "entropy": torch.tensor([[0.2, 0.9, 1.4, 0.5], [1.2, 0.1, 0.8, 0.3], [0.7, 0.4, 1.1, 0.6]]).double(),
        },
    )
