"""An estimator is a chain of stages: rewards -> baseline -> scale -> augment -> weight -> advantages."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from upside import registry
from upside.metrics import batch_metrics
from upside.registry import Preset, StageInfo
from upside.rollouts import Rollouts
from upside.spec import format_call, parse_chain


@dataclass(frozen=True)
class StageOutput:
    """What a stage may return instead of a bare tensor, when it has more to say.

    values: (N,) the advantages after the stage. metrics: plain floats about the batch.
    columns: name -> (N,) per-response facts for `upside.explain` (half, weight, margin, …).
    """

    values: Tensor
    metrics: Mapping[str, float] = field(default_factory=dict)
    columns: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """One bound link of a chain: what the registry knows, the chosen options, the callable that does the work."""

    info: StageInfo
    options: Mapping[str, Any]
    run: Callable[[Rollouts, Tensor], Tensor | StageOutput]

    @property
    def needs(self) -> frozenset[str]:
        return frozenset(getattr(self.run, "needs", self.info.needs))

    @property
    def zero_on_constant(self) -> bool:
        return bool(getattr(self.run, "zero_on_constant", self.info.zero_on_constant))

    @property
    def group_local(self) -> bool:
        return bool(getattr(self.run, "group_local", self.info.group_local))

    @property
    def why(self) -> Callable[..., Any] | None:
        """What it says about its work (upside.sentences), if it says anything."""
        return getattr(self.run, "why", self.info.why)

    def __str__(self) -> str:
        return format_call(self.info.name, self.options)


@dataclass(frozen=True)
class Advantages:
    """values: (N,) float32, in the order and on the device of the rewards. metrics: plain floats."""

    values: Tensor
    metrics: dict[str, float]


class Estimator:
    """A chain of stages, called with a batch. Made by `upside.estimator` and `upside.chain`.

    spec: the chain as text; `upside.estimator(spec)` gives the same chain back. stages: its links in order.
    """

    def __init__(self, spec: str, stages: tuple[Stage, ...]) -> None:
        self.spec, self.stages = spec, stages
        self._check_order()

    def _check_order(self) -> None:
        kinds = [s.info.kind for s in self.stages]
        if not kinds or kinds[0] != "baseline":
            first = self.stages[0].info.name if kinds else "nothing"
            raise ValueError(
                f"estimator {self.spec!r} starts with {first}, which is no baseline; "
                "start with one, such as grpo, rloo, canon or group_mean"
            )
        weight = None
        for stage in self.stages[1:]:
            if stage.info.kind == "baseline":
                raise ValueError(
                    f"estimator {self.spec!r} has a second baseline, {stage.info.name}: "
                    f"a baseline turns rewards into advantages and stands first, once"
                )
            if stage.info.kind == "scale" and weight:
                raise ValueError(
                    f"estimator {self.spec!r} normalises ({stage.info.name}) after a weight ({weight}), "
                    "which would undo the weight; put the weight last"
                )
            weight = stage.info.name if stage.info.kind == "weight" else weight

    def __call__(self, rollouts: Rollouts) -> Advantages:
        """Advantages of every response. Raises ValueError when a needed field is missing or the groups are wrong."""
        outputs = self.trace(rollouts)
        metrics = batch_metrics(rollouts, outputs[-1].values)
        for output in outputs:
            metrics.update({k: float(v) for k, v in output.metrics.items()})
        return Advantages(outputs[-1].values.float(), metrics)

    def trace(self, rollouts: Rollouts) -> list[StageOutput]:
        """The output of each stage in order; values are float64 and 0 on invalid rows."""
        if not isinstance(rollouts, Rollouts):
            raise ValueError(
                f"expected an upside.Rollouts, got {type(rollouts).__name__}; upside.Rollouts(rewards, groups)"
            )
        for stage in self.stages:
            for name in sorted(stage.needs):
                rollouts.require(name, stage.info.name)
        self._check_groups(rollouts)
        if not bool(rollouts.valid.any()):
            warnings.warn("no response of the batch has a reward; every advantage is 0", stacklevel=3)
        outputs, values = [], rollouts.scores
        for stage in self.stages:
            output = stage.run(rollouts, values.clone())  # a stage may work in place on what it is handed
            if not isinstance(output, StageOutput):
                output = StageOutput(output)
            values = _checked(stage.info.name, output.values, rollouts)
            outputs.append(StageOutput(values, output.metrics, output.columns))
        return outputs

    def _check_groups(self, rollouts: Rollouts) -> None:
        if not any(s.info.group_relative for s in self.stages):
            return
        sizes = rollouts.grouping.full_size
        singles = int((sizes == 1).sum())
        if not singles:
            return
        keeps_reward = any(getattr(s.run, "singleton", s.options.get("singleton")) == "reward" for s in self.stages)
        if singles == len(sizes) and not keeps_reward:
            raise ValueError(
                f"groups: every one of the {singles} groups holds a single response, so there is nothing to compare; "
                "responses to one prompt must share one group id (and the group size must be at least 2)"
            )
        if not keeps_reward:
            warnings.warn(
                f"{singles} of {len(sizes)} groups hold a single response; their group advantage is 0", stacklevel=4
            )

    @property
    def needs(self) -> frozenset[str]:
        """Optional Rollouts fields (or named metrics) the chain cannot work without."""
        return frozenset().union(*(s.needs for s in self.stages))

    @property
    def zero_on_constant(self) -> bool:
        """Whether a group of equal rewards gets exactly 0."""
        return all(s.zero_on_constant for s in self.stages)

    @property
    def group_local(self) -> bool:
        """Whether a response's advantage hangs on its own group alone: then many steps may be computed at once."""
        return all(s.group_local for s in self.stages)

    def state_dict(self) -> dict[str, Any]:
        """JSON-able state of the stages that keep any: {"0:name": state}."""
        return {k: s.run.state_dict() for k, s in self._stateful().items()}  # type: ignore[attr-defined]

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore `state_dict()`. Raises ValueError when it comes from another chain."""
        stateful = self._stateful()
        if set(state) != set(stateful):
            raise ValueError(
                f"state of stages {sorted(state)} does not fit {self.spec!r}, which has {sorted(stateful)}"
            )
        for key, stage in stateful.items():
            stage.run.load_state_dict(state[key])  # type: ignore[attr-defined]

    def _stateful(self) -> dict[str, Stage]:
        return {f"{i}:{s.info.name}": s for i, s in enumerate(self.stages) if hasattr(s.run, "state_dict")}

    def __str__(self) -> str:
        return self.spec

    def __repr__(self) -> str:
        return f"upside.estimator({self.spec!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Estimator) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.spec)


def _checked(name: str, values: Any, rollouts: Rollouts) -> Tensor:
    """Float64 values of the right shape, finite (as the float32 they become) on valid rows, 0 on the others."""
    if not isinstance(values, Tensor) or values.shape != rollouts.rewards.shape:
        shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        raise ValueError(f"stage {name} returned {shape}; expected a tensor of shape ({len(rollouts)},)")
    values = torch.where(rollouts.valid, values.double(), 0.0)
    finite = values.float().isfinite()
    if not bool(finite.all()):
        row = int((~finite).nonzero()[0])
        raise ValueError(
            f"stage {name} gave {float(values[row])} to row {row}; look at its options and that row's fields"
        )
    return values


def stage(name: str, **options: Any) -> Stage:
    """A stage with options, to be put in a chain. ValueError names an unknown stage or option."""
    registry.load_plugins()
    info = registry.STAGES.get(name)
    if info is None:
        hint = registry.nearest(name, registry.STAGES)
        kind = "is a preset, not a stage: give its name to upside.chain" if name in registry.PRESETS else "is unknown."
        raise ValueError(f"stage {name!r} {kind}{'' if name in registry.PRESETS else hint}")
    registry.check_values(name, info.options_of, options)
    needs_instance = isinstance(info.build, type)
    run = info.build(**options) if needs_instance else functools.partial(info.build, **options)
    return Stage(info, options, run)


def _part(name: str, options: Mapping[str, Any]) -> tuple[str, tuple[Stage, ...]]:
    found = registry.look_up(name)
    if isinstance(found, Preset):
        registry.check_values(name, found.options_of, options)
        stages = found.build(**options)
    else:
        stages = (stage(name, **options),)
    return format_call(name, options), stages


def chain(*links: str | Stage | Estimator) -> Estimator:
    """An estimator from presets, stages and spec strings, in order.

    chain("grpo", "reference_margin", stage("adora_weight", mode="attenuate"))
    Raises ValueError unless a baseline stands first and only once.
    """
    specs: list[str] = []
    stages: list[Stage] = []
    for link in links:
        if isinstance(link, str):
            parts = [_part(name, options) for name, options in parse_chain(link)]
        elif isinstance(link, Stage):
            parts = [(str(link), (link,))]
        elif isinstance(link, Estimator):
            parts = [(link.spec, link.stages)]
        else:
            raise ValueError(
                f"chain: {link!r} is neither a name, a stage nor an estimator; "
                "register a function with @upside.register_stage and give its name"
            )
        for spec, part in parts:
            specs.append(spec)
            stages.extend(part)
    return Estimator(" > ".join(specs), tuple(stages))


def estimator(spec: str | Estimator, **options: Any) -> Estimator:
    """An estimator from a preset name with options, or from a whole chain as text.

    estimator("canon", metric="length", mu=0.5, alpha=0.96)
    estimator("canon:metric=entropy,mu=0.5 > adora_weight:mode=attenuate")
    Raises ValueError naming an unknown estimator, option or value, with the nearest known one.
    """
    if isinstance(spec, Estimator):
        if options:
            raise ValueError(f"{spec!r} is already built; give options {sorted(options)} where it is made")
        return spec
    if not isinstance(spec, str):
        raise ValueError(f"estimator: expected a name or a spec string, got {spec!r}; upside.chain joins stages")
    parts = parse_chain(spec)
    if options and len(parts) > 1:
        raise ValueError(
            f"options {sorted(options)} have no stage to go to in {spec!r}; write them into the spec string"
        )
    if options:
        twice = sorted(set(options) & set(parts[0][1]))
        if twice:
            raise ValueError(f"options {twice} stand both in {spec!r} and in the call")
    built = [_part(name, {**given, **options}) for name, given in parts]
    return Estimator(" > ".join(text for text, _ in built), tuple(s for _, part in built for s in part))
