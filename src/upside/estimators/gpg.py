"""GPG, Group Policy Gradient (Chu et al. 2025, arXiv 2504.02546).

    (6)  A_i = (r_i - mean_G(r)) / F_norm,       F_norm = 1
    (7)  g^ = alpha g,   alpha = B / (B - M)     B responses in the batch, M of them in groups of equal rewards

Groups of equal rewards have no gradient but stay in the loss's denominator; alpha gives that share back.
Equation 8 scales the objective, which is the same as scaling every advantage.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from upside.chains import StageOutput
from upside.metrics import ZERO
from upside.registry import register_stage
from upside.rollouts import Rollouts


@register_stage("gpg_rescale", kind="scale", formula="A_i * B / (B - M)", source="GPG equation 7 (arXiv 2504.02546)")
def gpg_rescale(
    rollouts: Rollouts,
    advantages: Tensor,
    *,
    idle: Literal["equal_rewards", "zero_advantages", "zero_rewards"] = "equal_rewards",
) -> StageOutput:
    """Multiply by alpha = B / (B - M); unchanged when every response is idle.

    idle: what M counts. "equal_rewards": responses of groups whose rewards are all equal (the paper).
    "zero_advantages": responses whose advantage is 0 by now (right after reference_margin, where a group of equal
    rewards still trains). "zero_rewards": responses with reward 0.
    Differs from the released code in verl 0.9, which is idle="zero_rewards": one all-correct and one mixed group
    of four give 1.6 there and 2 here.
    """
    groups, valid = rollouts.grouping, rollouts.valid
    if idle == "equal_rewards":
        active = ~groups.spread(groups.constant(rollouts.scores))
    elif idle == "zero_advantages":
        active = advantages.abs() > ZERO  # r - mean(r) may leave a rounding residue that hangs on the row order
    else:
        active = rollouts.scores != 0
    total, working = float(valid.sum()), float((active & valid).sum())
    alpha = total / working if working else 1.0
    return StageOutput(advantages * alpha, {"gpg_alpha": alpha})
