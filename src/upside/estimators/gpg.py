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
from upside.sentences import Seen, Why, num

Idle = Literal["equal_rewards", "zero_advantages", "zero_rewards"]
WORKING = {
    "equal_rewards": "are in groups whose rewards differ",
    "zero_advantages": "have an advantage",
    "zero_rewards": "have a reward other than 0",
}


def _counts(rollouts: Rollouts, advantages: Tensor, idle: Idle) -> tuple[float, float]:
    """B and B - M."""
    groups, valid = rollouts.grouping, rollouts.valid
    if idle == "equal_rewards":
        active = ~groups.spread(groups.constant(rollouts.scores))
    elif idle == "zero_advantages":
        active = advantages.abs() > ZERO  # r - mean(r) may leave a rounding residue that hangs on the row order
    else:
        active = rollouts.scores != 0
    return float(valid.sum()), float((active & valid).sum())


def _why(seen: Seen) -> Why:
    idle = seen.options["idle"]
    total, working = _counts(seen.rollouts, seen.before, idle)
    if not working:
        return Why([""] * len(seen.before))
    text = f"times {num(total / working)}, as {working:.0f} of the batch's {total:.0f} responses {WORKING[idle]}"
    return Why(seen.by_row([text] * seen.groups.count))


@register_stage(
    "gpg_rescale",
    kind="scale",
    formula="A_i * B / (B - M)",
    source="GPG equation 7 (arXiv 2504.02546)",
    why=_why,
)
def gpg_rescale(rollouts: Rollouts, advantages: Tensor, *, idle: Idle = "equal_rewards") -> StageOutput:
    """Multiply by alpha = B / (B - M); unchanged when every response is idle.

    idle: what M counts. "equal_rewards": responses of groups whose rewards are all equal (the paper).
    "zero_advantages": responses whose advantage is 0 by now (right after reference_margin, where a group of equal
    rewards still trains). "zero_rewards": responses with reward 0.
    Differs from the released code in verl 0.9, which is idle="zero_rewards": one all-correct and one mixed group
    of four give 1.6 there and 2 here.
    """
    total, working = _counts(rollouts, advantages, idle)
    alpha = total / working if working else 1.0
    return StageOutput(advantages * alpha, {"gpg_alpha": alpha})
