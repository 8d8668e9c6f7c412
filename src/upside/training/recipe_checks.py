"""Whether the values of a recipe can be used, alone and together."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from omegaconf import OmegaConf

import upside
from upside.engines.calls import MEASURED
from upside.rewards import check_rewards
from upside.training.recipe_fields import Recipe, RecipeError, nearest

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
    "doctor": ("off", "warn", "halt"),
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


def check(recipe: Recipe) -> None:
    """Raise RecipeError for values that cannot be used, estimator and rewards included."""
    for key, choices in CHOICES.items():
        value = getattr(recipe, key)
        if value not in choices:
            raise RecipeError(f"{key}: {value!r} is unknown;{nearest(value, choices)} known: {', '.join(choices)}")
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
            raise RecipeError(f"{key}: unknown key {name!r};{nearest(name, known) or ' see trl.GRPOConfig'}")
