"""From what verl has stored of a batch to the fields an estimator reads. Rows stand in the order of the batch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

OWN = frozenset({"lengths", "entropy", "correct", "truncated", "reference_rewards", "total_steps", "valid"})
"""Fields with a source of their own; any other need is a metric by name."""


def speakers(keys: Sequence[str]) -> list[int]:
    """The row that speaks for each row, from verl's keys `{uid}_{session}_{output}`. (N,)

    An agent session may have several outputs under one reward; its last one is the response that enters the group,
    and the others take over its advantage, as verl does for GRPO.
    """
    last: dict[str, tuple[int, int]] = {}
    sessions = []
    for row, key in enumerate(keys):
        session, _, output = key.rpartition("_")
        sessions.append(session)
        last[session] = max(last.get(session, (-1, -1)), (int(output), row))
    return [last[session][1] for session in sessions]


def session_numbers(keys: Sequence[str]) -> list[int]:
    """Which of a prompt's responses each row is, from 0. (N,)"""
    return [int(key.rsplit("_", 2)[1]) for key in keys]


def reward_infos(extras: Sequence[Any] | None, rows: int) -> list[Mapping[str, Any]]:
    """What the reward function returned beside the score, from verl's `extra_fields`; {} where there is nothing."""
    return [(extra or {}).get("reward_extra_info") or {} for extra in extras or [None] * rows]


def mean_over_tokens(values: Tensor, mask: Tensor) -> list[float]:
    """Mean over the generated tokens of each row, 0 for a row without any. values, mask: (N, T), padded with 0."""
    mask = mask.double()
    total = torch.where(mask > 0, values.double(), 0.0).mul(mask).sum(-1)
    return (total / mask.sum(-1).clamp(min=1)).tolist()


def truncation(responses: Sequence[Tensor], ends: Collection[int], limit: int) -> list[bool]:
    """Whether each response used up the limit of tokens without an end token. responses: N tensors of token ids."""
    return [len(ids) >= limit and int(ids[-1]) not in ends for ids in responses]


def correctness(infos: Sequence[Mapping[str, Any]], key: str | None, needed: bool) -> list[bool | None] | None:
    """Whether each response is right, None where unknown; None altogether where the reward function does not say.

    infos: what the reward function returned beside the score. key: where in it; None: `correct`, else `acc`. None and
        NaN there are unknown.
    Raises ValueError when it is needed and missing, or neither true nor false.
    """
    name = key or next((name for name in ("correct", "acc") if any(name in info for info in infos)), None)
    if name is None or not any(name in info for info in infos):
        if needed or key is not None:
            raise ValueError(
                f"the reward function says nothing of {name or 'correct'!r}; return a dict such as "
                f"{{'score': 0.7, '{name or 'correct'}': True}} from it"
            )
        return None
    values = [None if value != value else value for value in (info.get(name) for info in infos)]
    wrong = next((value for value in values if value is not None and value not in (0, 1)), None)
    if wrong is not None:
        if not needed and key is None:
            return None  # verl's default puts a shaped score under `acc`
        raise ValueError(
            f"{name!r} of the reward function is {wrong!r}, which is neither true nor false; "
            "return the outcome under a key of its own and name it: +algorithm.upside.correct=KEY"
        )
    return [None if value is None else bool(value) for value in values]


def paired(values: Sequence[Any], numbers: Sequence[int], name: str) -> list[float | None]:
    """One reference reward a row, from a column that holds a number or a list of numbers per prompt. (N,)

    numbers: which of its prompt's responses a row is. Raises ValueError for a list that is too short.
    """
    found: list[float | None] = []
    for value, number in zip(values, numbers, strict=True):
        if isinstance(value, Tensor) or hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, list | tuple):
            if number >= len(value):
                raise ValueError(
                    f"column {name!r} holds {len(value)} reference rewards for a prompt that has more responses "
                    f"(rollout.n is at least {number + 1}); give one per response, or a single number"
                )
            value = value[number]
        found.append(None if value is None else float(value))
    return found


def metric(name: str, infos: Sequence[Mapping[str, Any]], column: Sequence[Any] | None) -> list[float | None]:
    """A metric of that name from the reward function's dict, else from the data's column. (N,)"""
    if any(name in info for info in infos):
        values: Sequence[Any] = [info.get(name) for info in infos]
    elif column is not None:
        values = column
    else:
        raise ValueError(
            f"the estimator needs {name}; return it from the reward function, {{'score': …, {name!r}: …}}, "
            "or give the data a column of that name"
        )
    return [None if value is None else float(value) for value in values]
