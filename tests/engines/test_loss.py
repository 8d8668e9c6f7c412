"""The cross-entropy policy loss of GPG and AAPO: worked example E5 of the AAPO notes, and TRL's own arithmetic."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny
import torch

import upside
from upside.engines.loss import policy_gradient_loss
from upside.engines.trl import AdvantageTrainer

REWARDS = [1, 0, 0, 0, 1, 1, 1, 1]
REFERENCE = [0, 0, 1, 0, 1, 0, 1, 0]
LOGPS = [[-0.5] * 2, [-1.0] * 4, [-0.2] * 3, [-2.0], [-0.1] * 5, [-0.5, -1.5], [-1.0] * 2, [-0.4]]


def example() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    batch = upside.Rollouts(rewards=REWARDS, groups=[0] * 4 + [1] * 4, reference_rewards=REFERENCE)
    logps = torch.zeros(8, 5, dtype=torch.float64)
    mask = torch.zeros(8, 5)
    for row, values in enumerate(LOGPS):
        logps[row, : len(values)] = torch.tensor(values, dtype=torch.float64)
        mask[row, : len(values)] = 1
    return upside.estimator("aapo")(batch).values.double(), logps.requires_grad_(), mask


def test_worked_example() -> None:
    advantages, logps, mask = example()
    loss = policy_gradient_loss(logps, advantages, mask, mask.sum())
    assert loss.item() == pytest.approx(-0.0483820, abs=1e-6)
    loss.backward()
    expected = [-0.0889850, 0.0249950, 0.0349950, 0.0249950, 0, -0.014, 0, -0.014]
    for row, value in enumerate(expected):
        n = len(LOGPS[row])
        assert logps.grad[row, :n].tolist() == pytest.approx([value] * n, abs=1e-6)
        assert logps.grad[row, n:].tolist() == [0.0] * (5 - n)


def test_micro_batches_of_one_group_average_their_token_means() -> None:
    """E5b: the second group's responses twice as long. One token mean and the mean of token means then differ."""
    advantages, logps, mask = example()
    long = torch.cat([logps[4:], logps[4:]], dim=1)
    long_mask = torch.cat([mask[4:], mask[4:]], dim=1)
    halves = [
        policy_gradient_loss(logps[:4], advantages[:4], mask[:4], mask[:4].sum()),
        policy_gradient_loss(long, advantages[4:], long_mask, long_mask.sum()),
    ]
    assert (sum(halves) / 2).item() == pytest.approx(-0.0483820, abs=1e-6)
    tokens = mask[:4].sum() + long_mask.sum()
    total = policy_gradient_loss(logps[:4], advantages[:4], mask[:4], tokens)
    total = total + policy_gradient_loss(long, advantages[4:], long_mask, tokens)
    assert total.item() == pytest.approx(-0.0098547, abs=1e-6)


def trained(model: Path, output: Path, loss: str, micro: int) -> AdvantageTrainer:
    changes = {
        "loss_type": loss, "per_device_train_batch_size": micro, "gradient_accumulation_steps": 16 // micro,
        "max_steps": 2,
    }  # fmt: skip
    trainer = AdvantageTrainer(
        model=str(model),
        args=tiny.config(output, **changes),
        reward_funcs=[tiny.reward],
        train_dataset=tiny.dataset(),
        estimator="grpo",
    )
    trainer.train()
    return trainer


def test_gradient_does_not_depend_on_the_micro_batch(model: Path, tmp_path: Path) -> None:
    # trl#3021, open-instruct#1161, verl#3332: the loss depends on the split
    whole = trained(model, tmp_path / "a", "cross_entropy", 16)
    parts = trained(model, tmp_path / "b", "cross_entropy", 4)
    for a, b in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=2e-4, rtol=1e-3)
    norms = [tiny.first(t, "grad_norm") for t in (whole, parts)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-4)


def test_on_policy_gradient_is_that_of_the_ratio_loss(model: Path, tmp_path: Path) -> None:
    """With one update per batch the ratio is 1, so A log pi and the clipped ratio have the same gradient."""
    ours, ratio = trained(model, tmp_path / "a", "cross_entropy", 16), trained(model, tmp_path / "b", "dapo", 16)
    norms = [tiny.first(t, "grad_norm") for t in (ours, ratio)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-4)


def test_micro_batch_mean(model: Path, tmp_path: Path) -> None:
    trainer = trained(model, tmp_path, "cross_entropy_micro", 4)
    assert all(torch.isfinite(p).all() for p in trainer.model.parameters())


def test_kl_weight_is_refused(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no KL term; set beta=0"):
        AdvantageTrainer(
            model=str(model),
            args=tiny.config(tmp_path, loss_type="cross_entropy", beta=0.1),
            reward_funcs=[tiny.reward],
            train_dataset=tiny.dataset(),
            estimator="grpo",
        )
