"""The policy loss that TRL does not have."""

from __future__ import annotations

from torch import Tensor


def policy_gradient_loss(logps: Tensor, advantages: Tensor, mask: Tensor, tokens: Tensor | float) -> Tensor:
    """Plain policy gradient of GPG and AAPO: -sum(m * A * log pi) / tokens, no ratio, no clip, no KL. ()

    logps, mask: (B, T). advantages: (B,) or (B, T), constants. tokens: the normaliser, the number of trained tokens.
    """
    weight = advantages.detach() if advantages.dim() == 2 else advantages.detach()[:, None]
    return -(weight * logps * mask).sum() / tokens
