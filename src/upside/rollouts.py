"""The batch every estimator reads: one row per response, groups by prompt id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from upside.groups import Groups, factorize

HOW_TO_SUPPLY = {
    "lengths": "generated tokens per response including EOS, before any loss masking",
    "entropy": "mean nats per token of the sampling distribution (after temperature)",
    "correct": "a bool per response: the outcome, independent of reward shaping",
    "truncated": "a bool per response: it hit the token limit",
    "valid": "a bool per response: False where no reward could be computed",
    "reference_rewards": "the reward of a reference-policy response to the same prompt, one per row",
    "total_steps": "the planned number of steps of the run",
}
# Names a further metric cannot have: CANON and `explain` mean something else by them.
RESERVED = {"rewards", "groups", *HOW_TO_SUPPLY, "length", "random", "row", "group", "reward", "advantage", "why"}


@dataclass(frozen=True, eq=False)
class Rollouts:
    """N scored responses to K prompts. Rows may come in any order; groups may have any, unequal, sizes.

    Every per-response field takes a tensor, an array or a list of N numbers, and keeps a copy.

    rewards: (N,) float. None or NaN marks a row whose reward could not be computed: it is never 0 reward.
    groups: (N,) ints or any hashables (uid strings); responses to one prompt share one id.
    lengths: (N,) generated tokens incl. EOS, before any loss masking.
    entropy: (N,) mean nats per token of the sampling distribution (after temperature).
    correct: (N,) bool outcome, independent of reward shaping.
    truncated: (N,) bool, hit the token limit.
    valid: (N,) bool, False = no reward could be computed. Default: rows whose reward is a number.
    reference_rewards: (N,) reward of the paired reference-policy response; None or NaN where missing.
    metrics: name -> (N,) any further per-response number, usable by CANON.
    step: optimisation step of the run, counted from 1 (0: unknown). total_steps: planned number of steps.
    training: False in evaluation; a stage that keeps state must not update it then.

    Raises ValueError naming field, row and remedy for wrong lengths, NaN or infinite metrics, infinite rewards,
    negative lengths or entropies, group ids that are missing, a metric under the name of a field. Optional fields
    may hold None or NaN in invalid rows. In `dataclasses.replace(batch, rewards=…)` the rows that were invalid stay so
    unless `valid` is given anew.
    """

    rewards: Any
    groups: Any
    lengths: Any = None
    entropy: Any = None
    correct: Any = None
    truncated: Any = None
    valid: Any = None
    reference_rewards: Any = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    step: int = 0
    total_steps: int | None = None
    training: bool = True

    # filled by __post_init__
    group_ids: Any = field(init=False, repr=False)  # the K ids by group index
    group_index: Tensor = field(init=False, repr=False)  # (N,) long

    def __post_init__(self) -> None:
        rewards = _numbers("rewards", self.rewards, None, None)
        n, device = len(rewards), rewards.device
        if n == 0:
            raise ValueError("rewards: the batch is empty; give at least one response")
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731  (frozen dataclass)
        for name in ("lengths", "entropy", "reference_rewards"):
            value = getattr(self, name)
            put(name, None if value is None else _numbers(name, value, n, device))
        known = ~rewards.isnan()
        put("valid", known if self.valid is None else known & _flags("valid", self.valid, n, device))
        for name in ("correct", "truncated"):
            value = getattr(self, name)
            put(name, None if value is None else _flags(name, value, n, device, self.valid))
        if not isinstance(self.metrics, Mapping) or not all(isinstance(name, str) for name in self.metrics):
            raise ValueError(f"metrics: expected {{name: one number per response}}, got {type(self.metrics).__name__}")
        if taken := sorted(set(self.metrics) & RESERVED):
            raise ValueError(f"metrics[{taken[0]!r}]: the name is taken; give it as a field of Rollouts or rename it")
        put("metrics", {k: _numbers(f"metrics[{k!r}]", v, n, device) for k, v in self.metrics.items()})
        put("groups", _listed(self.groups))
        if len(self.groups) != n:
            raise ValueError(f"groups: {len(self.groups)} ids for {n} rewards; give one id per response")
        index, ids = factorize(self.groups, device)
        put("group_index", index)
        put("group_ids", ids)
        put("rewards", rewards)
        self._check_values()

    def _check_values(self) -> None:
        _reject("rewards", self.rewards.isinf(), "is infinite; use None or NaN for a reward that could not be computed")
        if self.reference_rewards is not None:
            _reject("reference_rewards", self.reference_rewards.isinf(), "is infinite; use None where it is missing")
        named = {f"metrics[{name!r}]": value for name, value in self.metrics.items()}
        for name, value in {"lengths": self.lengths, "entropy": self.entropy, **named}.items():
            if value is not None:
                bad = ~value.isfinite() & self.valid
                _reject(name, bad, "is NaN or infinite; drop the row with valid=False or repair it")
        for name, least, unknown in (("step", 0, "0"), ("total_steps", 1, "None")):
            value = getattr(self, name)
            if not (isinstance(value, Integral) and int(value) >= least) and (name == "step" or value is not None):
                raise ValueError(f"{name}={value!r} is no step; steps count 1, 2, … ({unknown}: unknown)")
        for name in ("lengths", "entropy"):
            value = getattr(self, name)
            if value is not None:
                _reject(name, (value < 0) & self.valid, f"is negative; expected {HOW_TO_SUPPLY[name]}")

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def device(self) -> torch.device:
        return self.rewards.device

    @cached_property
    def grouping(self) -> Groups:
        """The partition into groups over valid rows."""
        return Groups(self.group_index, len(self.group_ids), self.valid)

    @cached_property
    def scores(self) -> Tensor:
        """Rewards as float64 with 0 in place of the invalid rows. (N,)"""
        return torch.where(self.valid, self.rewards, 0.0)

    def require(self, name: str, user: str) -> Tensor:
        """The field or named metric `name`, or an error that says who needs it and how to supply it."""
        value = self.metrics.get(name)
        if value is None and name in HOW_TO_SUPPLY:
            value = getattr(self, name)
        if value is None:
            known = ", ".join(sorted(self.metrics)) or "none given"
            remedy = HOW_TO_SUPPLY.get(name) or f"Rollouts(metrics={{{name!r}: ...}}) (metrics: {known})"
            raise ValueError(f"{user} needs Rollouts.{name}, which this batch does not have. Supply {remedy}.")
        return value

    def success(self, above: float | None = None) -> Tensor:
        """Which responses solved their prompt. (N,) bool

        above=None: `correct` where the batch has it, else reward > 0.5. A number: reward > above, strictly.
        """
        if above is None and self.correct is not None:
            return self.correct & self.valid
        return (self.scores > (0.5 if above is None else above)) & self.valid

    def accuracy(self) -> Tensor:
        """Share of correct responses in the whole batch, from `correct`, else from rewards that are 0 or 1. ()

        Raises ValueError when there is neither: a shaped reward is no accuracy.
        """
        if self.correct is not None:
            value = self.correct.double()
        else:
            value = self.scores
            off = self.valid & (value != 0) & (value != 1)
            _reject("rewards", off, "is neither 0 nor 1, so it is no accuracy; supply Rollouts.correct")
        return value[self.valid].mean() if bool(self.valid.any()) else value.new_zeros(())


def _reject(name: str, bad: Tensor, why: str) -> None:
    if bool(bad.any()):
        row, count = int(bad.nonzero()[0]), int(bad.sum())
        more = f" ({count} rows in all)" if count > 1 else ""
        raise ValueError(f"{name}[{row}] {why}{more}")


def _numbers(name: str, value: Any, n: int | None, device: torch.device | None) -> Tensor:
    """(N,) float64; None entries become NaN."""
    if "complex" in str(getattr(value, "dtype", "")):
        raise ValueError(f"{name}: expected one real number per response, got {value.dtype}")
    if not isinstance(value, Tensor):
        if getattr(getattr(value, "dtype", None), "kind", "") == "O":
            value = value.tolist()  # a numpy array of objects, some of them None
        if isinstance(value, Sequence) and not isinstance(value, str):
            value = [float("nan") if x is None else x for x in value]
        try:
            value = torch.as_tensor(value, dtype=torch.float64)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"{name}: expected one number per response ({error})") from None
    return _shaped(name, value.detach().to(device=device, dtype=torch.float64, copy=True), n)


def _listed(groups: Any) -> Any:
    """Group ids as something with a length and an order."""
    if isinstance(groups, Mapping | Set) or not hasattr(groups, "__iter__") or getattr(groups, "ndim", 1) == 0:
        kind = type(groups).__name__
        raise ValueError(f"groups: expected one id per response, in the order of the rewards, got {kind}")
    return groups if hasattr(groups, "__len__") else list(groups)


def _flags(name: str, value: Any, n: int, device: torch.device, needed: Tensor | None = None) -> Tensor:
    """(N,) bool; None or NaN is False on rows that are not needed and an error on the others (None: all)."""
    numbers = _numbers(name, value, n, device)
    bad = (numbers != 0) & (numbers != 1)
    if needed is not None:
        bad &= needed | ~numbers.isnan()
    _reject(name, bad, "is neither true nor false; set valid=False for rows without an outcome")
    return numbers == 1


def _shaped(name: str, value: Tensor, n: int | None) -> Tensor:
    if value.ndim != 1:
        raise ValueError(f"{name}: shape {tuple(value.shape)}; expected (N,), one number per response")
    if n is not None and len(value) != n:
        raise ValueError(f"{name}: {len(value)} values for {n} rewards; give one per response")
    return value
