"""A softmax bandit: the smallest policy whose true gradient, and every estimator's expectation, can be written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

import upside
from upside.analysis.gradients.sample import Sample
from upside.chains import Estimator


@dataclass(frozen=True)
class SoftmaxBandit:
    """P prompts, each with K arms to pull; the parameters are the logits (P, K), the policy is their softmax.

    rewards: (P, K) float64 of each arm. fields, metrics: as in Sample, name -> (P, K) per arm (lengths, entropy, …).
    """

    logits: Tensor
    rewards: Tensor
    fields: Mapping[str, Tensor] = field(default_factory=dict)
    metrics: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def policy(self) -> Tensor:
        """(P, K) probabilities."""
        return self.logits.double().softmax(1)

    def gradient(self) -> Tensor:
        """(P * K,) the true gradient of J = mean over prompts of sum_k pi_k r_k: pi_k (r_k - J_p) / P."""
        value = (self.policy * self.rewards).sum(1, keepdim=True)
        return (self.policy * (self.rewards - value) / len(self.logits)).reshape(-1)

    def scores(self) -> Tensor:
        """(P, K, P * K) grad log pi of each arm: the unit vector of the arm minus the policy, in its prompt's block."""
        prompts, arms = self.logits.shape
        within = torch.eye(arms).double() - self.policy[:, None, :]  # (P, K, K)
        scores = torch.zeros(prompts, arms, prompts, arms, dtype=torch.float64)
        index = torch.arange(prompts)
        scores[index, :, index] = within
        return scores.reshape(prompts, arms, -1)

    def sample(self, samples: int, seed: int = 0) -> Sample:
        """M pulls for each prompt."""
        draw = torch.Generator().manual_seed(seed)
        pulled = torch.multinomial(self.policy, samples, replacement=True, generator=draw)  # (P, M)
        of = lambda value: value.gather(1, pulled)  # noqa: E731
        scores = self.scores()[torch.arange(len(pulled))[:, None], pulled]  # (P, M, P * K)
        return Sample(
            of(self.rewards),
            scores.float(),
            scores.square().sum(-1),
            {name: of(value) for name, value in self.fields.items()},
            {name: of(value) for name, value in self.metrics.items()},
        )

    def expectation(self, estimator: Estimator | str, group_size: int) -> tuple[Tensor, float]:
        """(P * K,) the expected gradient of an estimator and its noise E|g - Eg|^2, both exact, for a batch of all
        prompts, by going through all K^G groups of each.

        For estimators that look at nothing beyond their group.
        """
        arms = self.logits.shape[1]
        groups = torch.cartesian_prod(*[torch.arange(arms)] * group_size).reshape(-1, group_size)  # (K^G, G)
        chain, scores, prompts = upside.estimator(estimator), self.scores(), len(self.logits)
        total, noise = torch.zeros(scores.shape[-1], dtype=torch.float64), 0.0
        for prompt in range(prompts):
            chance = self.policy[prompt][groups].prod(1)  # (K^G,)
            advantages = chain(self._groups(prompt, groups)).values.double().reshape(groups.shape)
            gradients = (advantages[..., None] * scores[prompt][groups]).mean(1) / prompts  # (K^G, P * K)
            mean = chance @ gradients
            total += mean
            noise += float(chance @ (gradients - mean).square().sum(1))
        return total, noise

    def _groups(self, prompt: int, groups: Tensor) -> upside.Rollouts:
        """Every group of a prompt as a group of one batch."""
        of = lambda value: value[prompt][groups].reshape(-1)  # noqa: E731
        return upside.Rollouts(
            of(self.rewards),
            torch.arange(len(groups)).repeat_interleave(groups.shape[1]),
            **{name: of(value) for name, value in self.fields.items()},
            metrics={name: of(value) for name, value in self.metrics.items()},
            step=1,
        )
