"""The saved batches of tests/data/rollout_batch.json, for the core and as verl holds them."""

import json
from pathlib import Path

import torch

import upside

BATCHES = json.loads((Path(__file__).parents[1] / "data" / "rollout_batch.json").read_text())
del BATCHES["about"]
PER_ROW = ("lengths", "truncated", "entropy", "correct", "valid", "reference_rewards")


def core_values(spec, batch, only=None):
    """The core's advantages. only: the optional fields to give it (None: all)."""
    given = {name: value for name, value in batch.items() if only is None or name in ("rewards", "groups", *only)}
    return upside.estimator(spec)(upside.Rollouts(**given)).values


def verl_tensors(batch, rows):
    """token_level_rewards, response_mask (R, T) and uids of these rows; a row beyond the last is padding.

    The reward stands on the last token, NaN where there is none.
    """
    n, width = len(batch["rewards"]), max(batch["lengths"])
    rewards, mask = torch.zeros(len(rows), width), torch.zeros(len(rows), width, dtype=torch.long)
    for i, row in enumerate(rows):
        if row < n:
            reward = batch["rewards"][row]
            mask[i, : batch["lengths"][row]] = 1
            rewards[i, batch["lengths"][row] - 1] = torch.nan if reward is None else reward
    return rewards, mask, [batch["groups"][row] if row < n else "pad0" for row in rows]


def supplied_fields(batch, rows):
    """What Upside's trainer adds, None for padding."""

    def taken(values):
        return [values[row] if row < len(values) else None for row in rows]

    fields = {name: taken(batch[name]) for name in PER_ROW}
    fields["metrics"] = {name: taken(values) for name, values in batch["metrics"].items()}
    return {**fields, "step": batch["step"], "total_steps": batch["total_steps"]}
