"""What `algorithm` of verl's configuration says about Upside.

algorithm.adv_estimator=upside +algorithm.upside.spec='canon:metric=length,mu=0.5 > adora_weight'
algorithm.adv_estimator=upside_canon_inter +algorithm.upside.options.metric=length
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from upside.chains import Estimator
from upside.chains import estimator as make_estimator
from upside.registry import nearest

PREFIX = "upside"
REFERENCES = ("fresh", "table")


@dataclass(frozen=True)
class Options:
    """The keys under `algorithm.upside`.

    spec: the estimator, for adv_estimator=upside. options: of the preset, for adv_estimator=upside_<preset>.
    correct: key of the reward function's dict that says whether a response is right. None: `correct`, else `acc`.
    reference: where AAPO's reference rewards come from: "fresh" samples a frozen copy of the initial model on GPUs of
        its own (`reference_gpus` of them on each of `reference_nodes` machines), "table" reads the data's column
        `reference_column`: one number, or a list with at least rollout.n of them, per prompt.
    run_folder: a folder made by `upside train` in which the trainer writes metrics.jsonl and rollouts.
    """

    spec: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    correct: str | None = None
    reference: str = "fresh"
    reference_column: str = "reference_rewards"
    reference_gpus: int = 1
    reference_nodes: int = 1
    run_folder: str | None = None

    def __post_init__(self) -> None:
        if self.reference not in REFERENCES:
            raise ValueError(f"algorithm.upside.reference={self.reference!r} must be one of {', '.join(REFERENCES)}")
        if not isinstance(self.options, Mapping):
            raise ValueError(f"algorithm.upside.options={self.options!r} must hold keys, such as options.metric=length")
        for name in ("reference_gpus", "reference_nodes"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"algorithm.upside.{name}={value!r} must be a whole number of at least 1")


def read(algorithm: Any) -> Options:
    """The options of verl's `algorithm` section (a mapping or None). ValueError for an unknown key."""
    given = _plain(algorithm.get(PREFIX) if algorithm is not None else None)
    if not isinstance(given, Mapping):
        raise ValueError(f"algorithm.upside={given!r} must hold keys, such as algorithm.upside.spec={given!r}")
    known = [f.name for f in fields(Options)]
    for key in given:
        if key not in known:
            raise ValueError(f"algorithm.upside has no key {key!r}.{nearest(str(key), known)}")
    return Options(**given)


def _plain(section: Any) -> Any:
    from omegaconf import OmegaConf

    return OmegaConf.to_container(section, resolve=True) if OmegaConf.is_config(section) else section or {}


def is_ours(adv_estimator: Any) -> bool:
    """Whether this `algorithm.adv_estimator` names a function of Upside."""
    return isinstance(adv_estimator, str) and (adv_estimator == PREFIX or adv_estimator.startswith(f"{PREFIX}_"))


def build(adv_estimator: str, options: Options) -> Estimator:
    """The estimator that verl's configuration asks for. ValueError names the key at fault."""
    preset = adv_estimator.removeprefix(PREFIX).removeprefix("_")
    if preset:
        if options.spec is not None:
            raise ValueError(
                f"algorithm.adv_estimator={adv_estimator} and algorithm.upside.spec={options.spec!r} both name an "
                f"estimator; with a spec use algorithm.adv_estimator={PREFIX}"
            )
        return make_estimator(preset, **options.options)
    if options.spec is None:
        raise ValueError(
            f"algorithm.adv_estimator={PREFIX} needs an estimator: +algorithm.upside.spec='canon:metric=length'; "
            f"or name a preset: algorithm.adv_estimator={PREFIX}_grpo"
        )
    return make_estimator(options.spec, **options.options)
