"""A run as one YAML file: typed fields, `key=value` overrides, errors that name the key, the line and the remedy."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

import upside
from upside.engines.calls import MEASURED
from upside.rewards import check_rewards

LOSSES = (
    "grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo", "cross_entropy", "cross_entropy_micro",
)  # fmt: skip
CHOICES: dict[str, tuple[str, ...]] = {
    "loss": LOSSES,
    "dtype": ("float32", "bfloat16"),
    "schedule": ("constant", "linear", "cosine", "cosine_with_min_lr"),
    "importance": ("token", "sequence"),
    "sampler": ("upside", "transformers", "vllm"),
    "reference": ("fresh", "table"),
    "reference_missing": ("error", "fresh"),
}

OWN_KEYS = {  # fields of GRPOConfig that would contradict what the run counts by -> the keys of a recipe for them
    "num_generations": "group_size",
    "max_steps": "steps",
    "num_train_epochs": "steps",
    "num_iterations": "num_iterations",
    "per_device_train_batch_size": "prompts_per_step, minibatches and micro_batch",
    "gradient_accumulation_steps": "prompts_per_step, minibatches and micro_batch",
    "steps_per_generation": "prompts_per_step, minibatches and micro_batch",
    "generation_batch_size": "prompts_per_step and group_size",
    "max_completion_length": "max_new_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "loss_type": "loss",
    "beta": "beta",
    "seed": "seed",
    "output_dir": "output",
    "resume_from_checkpoint": "resume",
}


class RecipeError(ValueError):
    """A recipe that cannot be used; the message names the key, where it stands and what to write instead."""


@dataclass
class Evaluation:
    """Held-out evaluation before and after training."""

    problems: int = 512  # from the task's test split; 0: no evaluation
    greedy: bool = True  # the likeliest response
    samples: int = 1  # and this many sampled ones per problem, as in training
    every: int = 0  # also every so many steps (0: only before and after)
    max_new_tokens: int | None = None  # None: as in training
    batch_size: int = 256  # responses generated at once


@dataclass
class Recipe:
    """Everything a run depends on. A step is one batch of fresh responses; lengths are in tokens."""

    name: str = "run"

    # what is trained
    model: str = "bundled"  # "bundled", a folder, or a name on the hub
    revision: str | None = None
    dtype: str = "float32"  # bfloat16: mixed precision
    task: str = "reasoner"  # see upside.tasks.load_task
    task_options: dict[str, Any] = field(default_factory=dict)
    train_problems: int | None = None  # None: all that the task has

    # what a response is worth
    estimator: str = "grpo"
    rewards: list[Any] = field(default_factory=lambda: ["verdict"])  # see upside.rewards.load_rewards
    reference: str = "fresh"  # AAPO's reference responses: sampled at every step, or read from a "table"
    reference_table: str | None = None  # the file of `upside reference build`
    reference_missing: str = "error"  # problems that the table lacks; "fresh": sample for them

    # how much
    steps: int = 150
    prompts_per_step: int = 16
    group_size: int = 8  # responses per prompt
    minibatches: int = 1  # optimiser steps per batch of responses
    num_iterations: int = 1  # passes over each batch of responses
    micro_batch: int | None = None  # responses per forward pass and process; None: as many as a minibatch holds

    # how responses are sampled
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_prompt_tokens: int = 512  # longer prompts are dropped at load and counted
    max_new_tokens: int = 96
    sampler: str = "upside"  # "transformers": generate(); "vllm": needs a GPU

    # how the policy moves
    loss: str = "dapo"
    epsilon: float = 0.2
    epsilon_high: float | None = None
    delta: float | None = None  # upper bound of the ratio for negative advantages (two-sided clip)
    importance: str = "token"
    mask_truncated: bool = False
    beta: float = 0.0  # weight of the KL term to the initial model
    entropy_bonus: float = 0.0
    lr: float = 1e-6
    schedule: str = "constant"
    min_lr_ratio: float = 0.1  # floor of cosine_with_min_lr
    warmup: float = 0.0  # below 1: share of the run; from 1: optimiser steps
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0

    # what is kept
    eval: Evaluation = field(default_factory=Evaluation)
    seed: int = 0
    output: str | None = None  # None: runs/<name>-<estimator>-s<seed>
    save_every: int = 50  # steps between checkpoints
    keep_checkpoints: int = 2
    resume: bool = False
    report_to: list[str] = field(default_factory=list)  # tensorboard, wandb, trackio
    processes: int | None = None  # how many must be there (torchrun starts them); None: as many as were started
    threads: int | None = None  # CPU threads of a process; None: one per free core, at most 4
    length_buckets: int = 4  # parts of similar length in which a batch is scored
    skip_zero_advantage: bool = True  # no forward and backward pass for responses that train nothing
    trl: dict[str, Any] = field(default_factory=dict)  # further fields of trl.GRPOConfig, as they are

    @property
    def responses(self) -> int:
        """Responses per step over all processes."""
        return self.prompts_per_step * self.group_size

    @property
    def updates(self) -> int:
        """Optimiser steps per step."""
        return self.minibatches * self.num_iterations

    @property
    def folder(self) -> Path:
        """Where the run is written."""
        if self.output is not None:
            return Path(self.output)
        safe = "".join(c if c.isalnum() or c in "_.=-" else "-" for c in self.estimator.replace(" ", ""))
        return Path("runs") / f"{self.name}-{safe}-s{self.seed}"


def shipped(name: str = "reasoner") -> Path:
    """The recipe of that name that comes with the package. FileNotFoundError when there is none."""
    found = Path(str(files("upside"))) / "recipes" / f"{name}.yaml"
    source = Path(__file__).parents[3] / "recipes" / f"{name}.yaml"
    for path in (found, source):
        if path.is_file():
            return path
    raise FileNotFoundError(f"no recipe {name!r} comes with the package")


def load(path: str | Path | None = None, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of a YAML file (None: the shipped default) with `key=value` overrides, validated.

    A bare name such as `reasoner` or `papers/aapo_7b` means a shipped recipe when no such file exists.
    Raises RecipeError or FileNotFoundError.
    """
    file = _find(path)
    text = file.read_text(encoding="utf-8")
    base = OmegaConf.structured(Recipe)
    try:
        content = OmegaConf.create(text) if text.strip() else OmegaConf.create({})
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        raise RecipeError(f"{file} is not valid YAML: {str(error).replace('<unicode string>', str(file))}") from None
    if not OmegaConf.is_dict(content):
        raise RecipeError(f"{file} must hold `key: value` lines, not a list")
    _check_keys(OmegaConf.to_container(content), _lines(text), str(file))
    dots = _dotted(overrides)
    _check_keys(OmegaConf.to_container(dots), {}, "the command line")
    for origin, part in ((str(file), content), ("the command line", dots)):
        try:
            base = OmegaConf.merge(base, part)
        except OmegaConfBaseException as error:
            raise RecipeError(_wrong_value(error, origin, _lines(text) if part is content else {})) from None
    recipe = OmegaConf.to_object(base)
    assert isinstance(recipe, Recipe)
    if "name" not in content and "name" not in dots:
        recipe.name = file.stem
    check(recipe)
    return recipe


def to_yaml(recipe: Recipe) -> str:
    """The resolved recipe; `load` of it gives the same recipe back."""
    return OmegaConf.to_yaml(OmegaConf.structured(recipe))


def check(recipe: Recipe) -> None:
    """Raise RecipeError for values that cannot be used, estimator and rewards included."""
    for key, choices in CHOICES.items():
        value = getattr(recipe, key)
        if value not in choices:
            raise RecipeError(f"{key}: {value!r} is unknown;{_nearest(value, choices)} known: {', '.join(choices)}")
    least = {
        "steps": 1, "prompts_per_step": 1, "group_size": 2, "minibatches": 1, "num_iterations": 1, "micro_batch": 1,
        "max_prompt_tokens": 1, "max_new_tokens": 1, "top_k": 0, "save_every": 1, "keep_checkpoints": 1, "threads": 1,
        "processes": 1, "length_buckets": 1, "train_problems": 1, "beta": 0, "warmup": 0, "weight_decay": 0,
        "epsilon": 0, "seed": 0,
        "eval.problems": 0, "eval.samples": 0, "eval.every": 0, "eval.batch_size": 1, "eval.max_new_tokens": 1,
    }  # fmt: skip
    for key, low in least.items():
        value = OmegaConf.select(OmegaConf.structured(recipe), key)
        if value is not None and not value >= low:
            why = "; a group of one has nothing to compare with" if key == "group_size" else ""
            raise RecipeError(f"{key}: {value} must be at least {low}{why}")
    for key in ("lr", "temperature", "max_grad_norm"):
        if not getattr(recipe, key) > 0:
            raise RecipeError(f"{key}: {getattr(recipe, key)} must be positive")
    if not 0 < recipe.top_p <= 1:
        raise RecipeError(f"top_p: {recipe.top_p} must be above 0 and at most 1")
    if recipe.loss.startswith("cross_entropy") and recipe.beta:
        raise RecipeError(f"beta: {recipe.beta} has no place in loss={recipe.loss}, which has no KL term; set beta=0")
    if recipe.responses % recipe.minibatches:
        raise RecipeError(
            f"minibatches: {recipe.minibatches} does not divide the {recipe.responses} responses of a step "
            f"(prompts_per_step x group_size)"
        )
    if recipe.eval.problems and not (recipe.eval.greedy or recipe.eval.samples):
        raise RecipeError("eval: nothing to measure with greedy=false and samples=0; for no evaluation set problems=0")
    if (recipe.reference == "table") != (recipe.reference_table is not None):
        raise RecipeError(
            f"reference_table: {recipe.reference_table} does not go with reference={recipe.reference}; give "
            "reference=table and reference_table=FILE together (upside reference build makes the file)"
        )
    if not recipe.rewards:
        raise RecipeError("rewards: the list is empty; leave it out for the task's own verdict")
    try:
        check_rewards(recipe.rewards)
    except ValueError as error:
        raise RecipeError(str(error)) from error
    if recipe.trl and find_spec("trl"):  # not there: an environment of verl's, whose engine refuses these fields
        from trl import GRPOConfig  # slow to import, and rarely needed

        _check_known("trl", recipe.trl, [f.name for f in dataclasses.fields(GRPOConfig)])
        for name, key in OWN_KEYS.items():
            if name in recipe.trl:
                raise RecipeError(f"trl.{name}: the recipe says this itself; use {key}")
        _check_vllm(recipe)
    try:
        needs = upside.estimator(recipe.estimator).needs
    except ValueError as error:
        raise RecipeError(f"estimator: {error}") from None
    if unknown := sorted(needs - MEASURED):
        raise RecipeError(
            f"estimator: {recipe.estimator!r} needs {', '.join(unknown)}, which a recipe cannot supply; a run measures "
            f"{', '.join(sorted(MEASURED))}; for a metric of your own pass response_metrics to AdvantageTrainer"
        )


def _check_vllm(recipe: Recipe) -> None:
    """vLLM runs as TRL runs it: `trl.vllm_mode` server (its own GPUs, `trl vllm-serve`) or colocate."""
    settings = sorted(name for name in recipe.trl if name.startswith("vllm_"))
    if settings and recipe.sampler != "vllm":
        raise RecipeError(f"trl.{settings[0]}: has no effect with sampler={recipe.sampler}; use sampler=vllm")
    mode = recipe.trl.get("vllm_mode", "colocate")
    if mode not in ("server", "colocate"):
        raise RecipeError(f"trl.vllm_mode: {mode!r} is unknown; known: server, colocate")


def _check_known(key: str, content: dict[str, Any], known: Sequence[str]) -> None:
    for name in content:
        if name not in known:
            raise RecipeError(f"{key}: unknown key {name!r};{_nearest(name, known) or ' see trl.GRPOConfig'}")


def _wrong_value(error: OmegaConfBaseException, origin: str, lines: dict[str, int]) -> str:
    key = str(getattr(error, "full_key", None) or getattr(error, "key", None) or "")
    where = f"{origin}, line {lines[key]}" if key in lines else origin
    return f"{where}: {f'{key}: ' if key else ''}{str(error).splitlines()[0]}"


def _find(path: str | Path | None) -> Path:
    if path is None:
        return shipped()
    if Path(path).is_file():
        return Path(path)
    try:
        return shipped(str(path).removesuffix(".yaml").removeprefix("recipes/"))
    except FileNotFoundError:
        raise FileNotFoundError(f"no recipe file {path}{_neighbours(Path(path))}") from None


def _neighbours(path: Path) -> str:
    folder = path.parent
    names = [p.name for p in folder.glob("*.yaml")] if folder.is_dir() else []
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.4)
    return f"; did you mean {folder / close[0]}?" if close else f" (from {os.path.relpath(folder)})"


def _dotted(overrides: Sequence[str]) -> Any:
    for item in overrides:
        key, equals, _ = item.partition("=")
        if not equals or not key.strip():
            raise RecipeError(f"cannot read {item!r}; write key=value, such as steps=50")
    try:
        return OmegaConf.from_dotlist(list(overrides))
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        raise RecipeError(f"the command line: {str(error).splitlines()[0]}") from None


def _check_keys(content: Any, lines: dict[str, int], origin: str) -> None:
    """RecipeError for a key that the dataclasses do not have, with the nearest one that they have."""
    for path, known in _keys(content, Recipe, ""):
        parent, _, key = path.rpartition(".")
        if key not in known:
            where = f"{origin}, line {lines[path]}" if path in lines else origin
            near = _nearest(key, known) or f" {parent or 'a recipe'} has: {', '.join(known)}"
            raise RecipeError(f"{where}: unknown key {path!r};{near}")


def _keys(content: Any, schema: type, prefix: str) -> Iterator[tuple[str, list[str]]]:
    fields = {f.name: f for f in dataclasses.fields(schema)}
    for key, value in content.items():
        path = f"{prefix}{key}"
        yield path, list(fields)
        if key in ("rewards", "report_to") and not isinstance(value, list):
            raise RecipeError(f"{path}: {value!r} must be a list, such as [{value}]")
        if key == "eval" and not prefix:
            if not isinstance(value, dict):
                raise RecipeError(f"eval: {value!r} must hold keys, such as eval.problems={value}")
            yield from _keys(value, Evaluation, f"{path}.")


def _lines(text: str) -> dict[str, int]:
    """Dotted key -> line number, from 1."""
    found: dict[str, int] = {}

    def walk(node: Any, prefix: str) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                path = f"{prefix}{key.value}"
                found[path] = key.start_mark.line + 1
                walk(value, f"{path}.")
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                walk(value, f"{prefix}{index}.")

    walk(yaml.compose(text, Loader=yaml.SafeLoader), "")
    return found


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(str(name), known, n=2, cutoff=0.5)
    return f" did you mean {' or '.join(repr(c) for c in close)}?" if close else ""
