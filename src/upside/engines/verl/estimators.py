"""The functions in verl's registry of advantage estimators: token rewards in, token advantages out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from upside.chains import Advantages, Estimator
from upside.engines.verl.options import PREFIX, build, read
from upside.registry import presets
from upside.rollouts import Rollouts
from upside.schedules import Cosine, Linear, schedule

TRAINER = "trainer.v1.trainer_mode=upside"
PLAIN = frozenset({"lengths"})
"""Rollouts fields that verl's call of a registered function is enough for."""

AdvantageFn = Callable[..., tuple[Tensor, Tensor]]


@dataclass
class Supply:
    """What a trainer gives an estimator beside verl's own arguments.

    estimator: the one to call, with its state. fields: Rollouts fields, one value per row of the batch.
    speaker: (N,) the row whose advantage each row takes; a row that speaks for itself is a response of the group, the
        others (earlier outputs of one agent session) are not. estimate: filled by the call.
    """

    estimator: Estimator
    fields: dict[str, Any]
    speaker: Sequence[int]
    estimate: Estimate | None = None


@dataclass(frozen=True)
class Estimate:
    """What the estimator read and returned. rows: which rows of verl's batch the batch of responses consists of."""

    rows: list[int]
    batch: Rollouts
    result: Advantages


_supply: ContextVar[Supply | None] = ContextVar("upside_verl_supply", default=None)


@contextmanager
def supplied(supply: Supply) -> Iterator[None]:
    """Within it, the registered functions work with `supply`."""
    token = _supply.set(supply)
    try:
        yield
    finally:
        _supply.reset(token)


def token_advantages(
    estimator: Estimator,
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[Any],
    fields: dict[str, Any] | None = None,
    speaker: Sequence[int] | None = None,
) -> tuple[Tensor, Estimate | None]:
    """Advantages of every generated token (N, T), and how they came about; None for a batch of nothing but padding.

    token_level_rewards, response_mask: (N, T); a response's reward is the sum of its row, its length the sum of its
    mask unless `fields` says otherwise. index: (N,) uids. Rows without any token in the mask (verl's padding, or
    responses rejected as too far off-policy) enter no statistic and get 0. Device and dtype are those of the rewards.
    """
    present = response_mask.bool().any(-1)
    own = torch.arange(len(present), device=present.device)
    speakers = own if speaker is None else torch.as_tensor(speaker, device=present.device)
    rows = (present & (speakers == own)).nonzero()[:, 0]
    values = token_level_rewards.new_zeros(len(present))
    estimate = None
    if len(rows):
        kept = rows.tolist()
        batch = Rollouts(
            rewards=token_level_rewards.double().sum(-1)[rows],
            groups=[index[row] for row in kept],
            **{"lengths": response_mask.sum(-1)[rows], **_select(fields or {}, kept)},
        )
        estimate = Estimate(kept, batch, estimator(batch))
        values[rows] = estimate.result.values.to(values.dtype)
    values = torch.where(present, values[speakers], 0.0)
    return values[:, None] * response_mask.to(values.dtype), estimate


def _select(fields: dict[str, Any], rows: list[int]) -> dict[str, Any]:
    """The given rows of every field; numbers of the whole batch (step, total_steps) as they are."""
    taken: dict[str, Any] = {}
    for name, value in fields.items():
        if name == "metrics":
            taken[name] = _select(value, rows)
        else:
            taken[name] = value if value is None or isinstance(value, int) else [value[row] for row in rows]
    return taken


def check_plain(estimator: Estimator, given: frozenset[str]) -> None:
    """ValueError naming the trainer to choose when verl's own call is not enough for the estimator."""
    missing = sorted(estimator.needs - PLAIN - given)
    if any(_reads_step(stage.options) for stage in estimator.stages):
        missing.append("the step")
    if missing:
        raise ValueError(
            f"estimator {str(estimator)!r} needs {', '.join(missing)}, which verl's trainers do not hand to "
            f"a registered estimator; choose Upside's trainer: {TRAINER}"
        )
    if estimator.state_dict():
        raise ValueError(
            f"estimator {str(estimator)!r} keeps state, which verl's trainers do not save; choose Upside's: {TRAINER}"
        )


def _reads_step(options: Any) -> bool:
    """Whether a stage works by the step of the run: a schedule over it, or halves drawn anew at each."""
    if options.get("metric") == "random":
        return True
    for value in options.values():
        if isinstance(value, str):
            try:
                value = schedule(value)
            except ValueError:
                continue
        if isinstance(value, Cosine | Linear):
            return True
    return False


def _named(adv_estimator: str) -> AdvantageFn:
    """The function to register under that name."""

    def advantages(
        token_level_rewards: Tensor,
        response_mask: Tensor,
        index: Any = None,
        config: Any = None,
        reward_baselines: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor]:
        """(advantages, returns), both (N, T); see `token_advantages`."""
        if index is None:
            raise ValueError(f"{adv_estimator}: verl gave no uids, so responses to one prompt cannot be told")
        supply = _supply.get()
        if supply is None:
            baselines = {} if reward_baselines is None else {"baseline": reward_baselines.tolist()}
            supply = Supply(build(adv_estimator, read(config)), {"metrics": baselines}, range(len(index)))
            check_plain(supply.estimator, frozenset(baselines))
        values, supply.estimate = token_advantages(
            supply.estimator, token_level_rewards, response_mask, index, supply.fields, supply.speaker
        )
        return values, values

    advantages.__name__ = advantages.__qualname__ = adv_estimator
    return advantages


def register() -> list[str]:
    """Put `upside` and `upside_<preset>` for every preset into verl's registry; the names. Again: nothing happens."""
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, register_adv_est

    names = [PREFIX, *(f"{PREFIX}_{preset}" for preset in presets())]
    for name in names:
        if name not in ADV_ESTIMATOR_REGISTRY:
            register_adv_est(name)(_named(name))
    return names
