"""What can be written down: true gradients, expectations over all groups."""

from __future__ import annotations

import math

import pytest
import torch

from upside.analysis.gradients import SoftmaxBandit

COIN = SoftmaxBandit(
    torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]).double(), {"entropy": torch.tensor([[0.5, 0.6]]).double()}
)
"""Two arms, one half each, rewards 1 and 0: J = 1/2, gradient (1/4, -1/4)."""


def test_the_true_gradient_by_hand():
    assert COIN.gradient().tolist() == [0.25, -0.25]


def test_the_true_gradient_is_that_of_autograd(bandit):
    logits = bandit.logits.double().requires_grad_()
    (logits.softmax(1) * bandit.rewards).sum(1).mean().backward()
    torch.testing.assert_close(bandit.gradient(), logits.grad.reshape(-1))


def test_scores_are_the_gradients_of_the_log_probabilities(bandit):
    logits = bandit.logits.double().requires_grad_()
    (wanted,) = torch.autograd.grad(logits.log_softmax(1)[1, 2], logits)
    torch.testing.assert_close(bandit.scores()[1, 2], wanted.reshape(-1))


def test_expectations_by_hand():
    # of two pulls half the groups are mixed; there Dr.GRPO gives (1/2, -1/2) and the mean of A s is (1/4, -1/4)
    mean, noise = COIN.expectation("dr_grpo", 2)
    assert mean.tolist() == [0.125, -0.125]
    assert noise == pytest.approx(2 * 0.125**2)  # (1/4, -1/4) or nothing, each half of the time
    mean, _ = COIN.expectation("grpo", 2)
    assert mean[0] == pytest.approx(0.25 * 0.5 / (math.sqrt(0.5) + 1e-4))
    assert COIN.expectation("canon_intra", 2)[0].tolist() == [0.0, 0.0]  # each half holds one response


@pytest.mark.parametrize("size", [2, 3, 4])
def test_raw_reward_and_rloo_are_unbiased_and_dr_grpo_is_short_by_its_factor(bandit, size):
    true = bandit.gradient()
    for name, factor in (("reinforce", 1.0), ("rloo", 1.0), ("dr_grpo", (size - 1) / size)):
        mean, _ = bandit.expectation(name, size)
        torch.testing.assert_close(mean, factor * true, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["grpo", "canon_inter", "canon_intra", "opo"])
def test_others_bend(bandit, name):
    mean, _ = bandit.expectation(name, 4)
    cosine = float(torch.cosine_similarity(mean, bandit.gradient(), dim=0))
    assert 0.5 < cosine < 0.99999
