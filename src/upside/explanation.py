"""Why did this response get this advantage? One row per response, with what each stage saw and did."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from upside.chains import Estimator
from upside.chains import estimator as build
from upside.rollouts import Rollouts


def explain(estimator: Estimator | str, rollouts: Rollouts) -> list[dict[str, Any]]:
    """One dict per response, in row order, of plain Python values.

    Keys: row, group, valid, reward; each optional field that the batch has (length, entropy, correct, truncated,
    reference_reward, named metrics); what stages noted (metric, half: 1 high, 0 low, between: shared; weight, tas,
    success, margin); `after_<stage>` for the value after each stage in order; advantage, the last of them.
    Names that occur twice are told apart by a number: after_whiten, after_whiten_2.
    """
    chain = build(estimator)
    outputs = chain.trace(rollouts)
    columns: dict[str, list[Any]] = {
        "row": list(range(len(rollouts))),
        "group": _group_ids(rollouts),
        "valid": rollouts.valid.tolist(),
        "reward": rollouts.rewards.tolist(),
    }
    named = {
        "length": rollouts.lengths,
        "entropy": rollouts.entropy,
        "correct": rollouts.correct,
        "truncated": rollouts.truncated,
        "reference_reward": rollouts.reference_rewards,
        **rollouts.metrics,
    }
    columns |= {name: value.tolist() for name, value in named.items() if value is not None}
    for stage, output in zip(chain.stages, outputs, strict=True):
        for name, value in output.columns.items():
            columns[_free(name, columns)] = value.tolist()
        columns[_free(f"after_{stage.info.name}", columns)] = output.values.tolist()
    columns["advantage"] = outputs[-1].values.tolist()
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _group_ids(rollouts: Rollouts) -> list[Any]:
    ids = rollouts.group_ids
    ids = ids.tolist() if isinstance(ids, Tensor) else ids
    return [ids[i] for i in rollouts.group_index.tolist()]


def _free(name: str, taken: dict[str, list[Any]]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free
