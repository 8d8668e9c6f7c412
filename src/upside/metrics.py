"""What every estimator reports about a batch, whatever its stages."""

from __future__ import annotations

import torch
from torch import Tensor

from upside.rollouts import Rollouts

ZERO = 1e-8  # |A| up to this carries no signal


def batch_metrics(rollouts: Rollouts, values: Tensor) -> dict[str, float]:
    """Shares without a signal (by response, group and batch), group sizes, all-correct and all-wrong groups.

    Shares of responses are over all rows, invalid ones included (they train nothing); shares of groups are over
    the groups with at least one valid row. `group_size/n` counts the groups of n rows.
    """
    groups = rollouts.grouping
    live = groups.size > 0
    n_live = max(int(live.sum()), 1)
    zero = values.abs() <= ZERO
    success = groups.sum(rollouts.success())
    share = lambda flag: float((flag & live).sum()) / n_live  # noqa: E731
    metrics = {
        "zero_advantage_share": float(zero.double().mean()),
        "zero_group_share": share(groups.sum(~zero) == 0),
        "zero_batch": float(bool(zero.all())),
        "constant_group_share": share(groups.constant(rollouts.scores)),
        "all_correct_share": share(success == groups.size),
        "all_wrong_share": share(success == 0),
        "invalid_share": float((~rollouts.valid).double().mean()),
        "advantage_abs_max": float(values.abs().max()),
        "groups": float(groups.count),
        "singleton_groups": float((groups.full_size == 1).sum()),
    }
    sizes, counts = torch.unique(groups.full_size, return_counts=True)
    metrics.update({f"group_size/{n}": float(c) for n, c in zip(sizes.tolist(), counts.tolist(), strict=True)})
    return metrics
