"""Schedules: a number that follows the run. CANON's mu takes one.

A schedule is called with the batch and returns a float; it keeps no state, so a resumed run needs nothing.
Spec strings write them as a name with constants: `mu=cosine_first_inter(total=300,warmup=60)`.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from upside.registry import check_values, nearest
from upside.rollouts import Rollouts
from upside.spec import format_call, parse_call


@dataclass(frozen=True)
class Schedule:
    """Base of the schedules below: a callable `(rollouts) -> float` that can be written as text."""

    name = "schedule"

    def __post_init__(self) -> None:
        check_values(f"schedule {self.name!r}", type(self), vars(self))

    @property
    def needs(self) -> frozenset[str]:
        """Optional Rollouts fields it cannot work without."""
        return frozenset()

    def __call__(self, rollouts: Rollouts) -> float:
        raise TypeError(f"{type(self).__name__} does not say how to compute its value; define __call__(rollouts)")

    def __str__(self) -> str:
        fields = dataclasses.fields(self)
        changed = {f.name: getattr(self, f.name) for f in fields if getattr(self, f.name) != f.default}
        return format_call(self.name, changed, "(", ")")


@dataclass(frozen=True)
class FirstInterLaterIntra(Schedule):
    """mu = 1 - accuracy of the current batch (CANON section 5.2)."""

    name = "first_inter_later_intra"

    def __call__(self, rollouts: Rollouts) -> float:
        return 1.0 - float(rollouts.accuracy())


@dataclass(frozen=True)
class FirstIntraLaterInter(Schedule):
    """mu = accuracy of the current batch (CANON section 5.2; the line the released `_annel` estimator ships)."""

    name = "first_intra_later_inter"

    def __call__(self, rollouts: Rollouts) -> float:
        return float(rollouts.accuracy())


@dataclass(frozen=True)
class Cosine(Schedule):
    """Cosine from high to low with linear warm-up and restarts; step k counts from 1.

        f(k) = high (k+1)/W                                            k < W
             = low + (high-low)/2 (1 + cos(pi ((k-W) mod L)/L))        else,   L = (T-W) // cycles

    total T, warmup W: in steps. scale: stretch T and W to Rollouts.total_steps (the paper gives no rule for runs
    of another length). After T it keeps cycling, as the released code does; hold=True stays at `low` instead.
    """

    name = "cosine"
    high: float = 1.0
    low: float = 0.0
    total: int = 150
    warmup: int = 30
    cycles: int = 3
    scale: bool = False
    hold: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for end in ("high", "low"):
            if not 0 <= getattr(self, end) <= 1:
                raise ValueError(f"{self.name}: {end}={getattr(self, end)} must lie in [0, 1]")
        if self.high < self.low:
            raise ValueError(f"{self.name}: high={self.high} is below low={self.low}; the wave falls from high to low")
        if self.warmup < 0 or self.cycles < 1 or self.total - self.warmup < self.cycles:
            raise ValueError(
                f"{self.name}: total={self.total}, warmup={self.warmup}, cycles={self.cycles} leave no step per cycle; "
                "total - warmup must be at least cycles"
            )

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"total_steps"} if self.scale else ())

    def wave(self, rollouts: Rollouts) -> float:
        total, warmup, k = self.total, self.warmup, rollouts.step
        if self.scale:
            planned = _total_steps(rollouts, self.name)
            warmup = round(warmup * planned / total)
            total = max(planned, warmup + self.cycles)
        if k < warmup:
            return self.high * (k + 1) / warmup
        if self.hold and k >= total:
            return self.low
        length = (total - warmup) // self.cycles
        phase = ((k - warmup) % length) / length
        return self.low + 0.5 * (self.high - self.low) * (1 + math.cos(math.pi * phase))

    def __call__(self, rollouts: Rollouts) -> float:
        return self.wave(rollouts)


@dataclass(frozen=True)
class CosineFirstInter(Cosine):
    """Cosin-First-Inter-Later-Intra: mu = f(k; 1.0 -> 0.4). Constants from the released code (`_cosine_restart_r`)."""

    name = "cosine_first_inter"
    high: float = 1.0
    low: float = 0.4


@dataclass(frozen=True)
class CosineFirstIntra(Cosine):
    """Cosin-First-Intra-Later-Inter: mu = 1 - f(k; 0.6 -> 0.0). Constants as released (`_cosine_restart`)."""

    name = "cosine_first_intra"
    high: float = 0.6
    low: float = 0.0

    def __call__(self, rollouts: Rollouts) -> float:
        return 1.0 - self.wave(rollouts)


@dataclass(frozen=True)
class Linear(Schedule):
    """From `start` at step 1 to `end` at Rollouts.total_steps (or at step `over`), then constant."""

    name = "linear"
    start: float = 1.0
    end: float = 0.0
    over: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for side in ("start", "end"):
            if not 0 <= getattr(self, side) <= 1:
                raise ValueError(f"linear: {side}={getattr(self, side)} must lie in [0, 1]")
        if self.over is not None and self.over < 1:
            raise ValueError(f"linear: over={self.over} must be at least 1 step")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset(() if self.over else {"total_steps"})

    def __call__(self, rollouts: Rollouts) -> float:
        over = self.over or _total_steps(rollouts, self.name)
        done = min(max(rollouts.step - 1, 0) / max(over - 1, 1), 1.0)
        return self.start + (self.end - self.start) * done


SCHEDULES: dict[str, type[Schedule]] = {
    cls.name: cls
    for cls in (FirstInterLaterIntra, FirstIntraLaterInter, Cosine, CosineFirstInter, CosineFirstIntra, Linear)
}


def schedule(text: str) -> Schedule:
    """'linear(start=1,end=0.5)' -> Linear(start=1, end=0.5). ValueError names an unknown schedule or constant."""
    name, constants = parse_call(text)
    if name not in SCHEDULES:
        raise ValueError(f"unknown schedule {name!r}.{nearest(name, SCHEDULES)}")
    check_values(f"schedule {name!r}", SCHEDULES[name], constants)
    return SCHEDULES[name](**constants)


def _total_steps(rollouts: Rollouts, user: str) -> int:
    if not rollouts.total_steps:
        raise ValueError(f"{user} needs Rollouts.total_steps: the planned number of steps of the run")
    return rollouts.total_steps
