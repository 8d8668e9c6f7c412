"""From a recipe to the objects of a run: model, tokenizer, problems, rewards, TRL's configuration."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import DistributedType, PartialState
from transformers import PreTrainedModel
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK
from trl import GRPOConfig

from upside.engines.sampler import samples_pictures
from upside.engines.sharded import fsdp_asked, zero3
from upside.models import loading
from upside.registry import nearest
from upside.rewards import Rewards, load_rewards
from upside.tasks import Problem, Task, load_task
from upside.tasks.prompts import Reader, prompt_ids
from upside.training.prompts import fitting
from upside.training.recipe import Recipe, RecipeError
from upside.training.world import size


@dataclass(frozen=True)
class Problems:
    """What a run trains on and is judged by.

    dropped: reason -> how many rows the task left out (`upside.tasks.rows`), and under `too_long` the training prompts
    over the token limit. examples: reason -> the first of them.
    """

    task: Task
    train: list[Problem]
    held_out: list[Problem]
    dropped: dict[str, int]
    examples: dict[str, str]

    def notes(self, limit: int) -> list[str]:
        """A line for each reason; limit: tokens a prompt may have."""
        words = {reason: f"rows: {reason}" for reason in self.dropped}
        words["too_long"] = f"prompts longer than max_prompt_tokens={limit}"
        return [f"dropped {n} {words[reason]} (first: {self.examples[reason]})" for reason, n in self.dropped.items()]


def load_model(recipe: Recipe, path: str | Path | None = None) -> tuple[PreTrainedModel, Reader]:
    """The recipe's model in float32 and its tokenizer or processor (see `upside.models.loading.load_model`).

    path: load from there instead of the recipe's model. Raises RecipeError when there is no such model.
    """
    try:
        return loading.load_model(path or recipe.model, revision=None if path else recipe.revision, dtype=torch.float32)
    except (ValueError, FileNotFoundError) as error:
        raise RecipeError(f"model: {error}") from error


def load_problems(recipe: Recipe, reader: Reader) -> Problems:
    """Training and held-out problems, every picture of theirs loaded once. ValueError when nothing is left to train on,
    PictureError for a picture that cannot be shown."""
    task = load_task(recipe.task, **recipe.task_options)
    try:
        train = task.problems("train", recipe.train_problems, recipe.seed)
    except ValueError as error:
        asked = f" (train_problems={recipe.train_problems}; null takes all there are)" if recipe.train_problems else ""
        raise RecipeError(f"task: {error}{asked}") from error
    train, too_long = fitting(train, reader, recipe.max_prompt_tokens, recipe.prompts_per_step)
    if size() > 1:
        _check_alike(train)
    try:
        held_out = task.problems("test", recipe.eval.problems, seed=0) if recipe.eval.problems else []
    except ValueError as error:
        raise RecipeError(f"task: {error} (eval.problems={recipe.eval.problems}; 0: no evaluation)") from error
    for problem in held_out:
        prompt_ids(reader, problem)  # what cannot be asked, a picture among it, is told before the training
    dropped, examples = dict(getattr(task, "dropped", {})), dict(getattr(task, "examples", {}))
    if too_long:
        dropped["too_long"], examples["too_long"] = len(too_long), f"problem {too_long[0].id!r}"
    return Problems(task, train, held_out, dropped, examples)


def _check_alike(problems: Sequence[Problem]) -> None:
    """RecipeError where some problems have pictures and others none: of several processes one would use the part of
    the model that sees and another not, and each would wait for the other's gradients."""
    seeing, blind = (next((p for p in problems if bool(p.images) == shown), None) for shown in (True, False))
    if seeing and blind:
        raise RecipeError(
            f"task: problem {blind.id!r} has no picture, {seeing.id!r} has; with several processes all must have one "
            "or none. Train in one process, or leave the one kind out"
        )


def sampler_for(recipe: Recipe, model: PreTrainedModel, problems: Problems) -> str:
    """The recipe's sampler; `transformers` for pictures that the package's own does not show to this kind of model."""
    seeing = any(problem.images for problem in (*problems.train, *problems.held_out))
    own = recipe.sampler == "upside" and seeing and not samples_pictures(model)
    return "transformers" if own else recipe.sampler


def make_rewards(recipe: Recipe, task: Task) -> Rewards:
    """The recipe's rewards over the task's verdict."""
    return load_rewards(recipe.rewards, task)


def trainer_config(recipe: Recipe, output: Path) -> GRPOConfig:
    """The recipe in TRL's words. RecipeError when the batch cannot be cut as asked."""
    world = size()
    per_update = recipe.responses // recipe.minibatches
    micro = min(recipe.micro_batch or per_update // world, per_update // world)
    if (per_update // world) % micro:
        raise RecipeError(f"micro_batch: {micro} does not divide the {per_update // world} responses of an update")
    on_gpu = torch.cuda.is_available()
    for name in recipe.report_to:
        if name not in INTEGRATION_TO_CALLBACK:
            raise RecipeError(f"report_to: {name!r} is unknown.{nearest(name, INTEGRATION_TO_CALLBACK)}")
    for key, name in [*(("report_to", name) for name in recipe.report_to), ("sampler", recipe.sampler)]:
        if name in ("tensorboard", "wandb", "trackio", "vllm") and importlib.util.find_spec(name) is None:
            raise RecipeError(f"{key}: {name} is not installed; install it with: pip install {name}")
    if recipe.sampler == "vllm" and not on_gpu:
        raise RecipeError("sampler: vllm needs a GPU; on this machine use sampler=upside")
    values: dict[str, Any] = {
        "output_dir": str(output),
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": per_update // world // micro,
        "steps_per_generation": recipe.responses // world // micro,
        "num_generations": recipe.group_size,
        "num_iterations": recipe.num_iterations,
        "max_steps": recipe.steps * recipe.updates,
        "max_completion_length": recipe.max_new_tokens,
        "temperature": recipe.temperature,
        "top_p": recipe.top_p,
        "top_k": recipe.top_k,
        "loss_type": recipe.loss,
        "epsilon": recipe.epsilon,
        "epsilon_high": recipe.epsilon_high,
        "delta": recipe.delta,
        "importance_sampling_level": recipe.importance,
        "mask_truncated_completions": recipe.mask_truncated,
        "beta": recipe.beta,
        "entropy_coef": recipe.entropy_bonus,
        "learning_rate": recipe.lr,
        "lr_scheduler_type": _schedule(recipe),
        "lr_scheduler_kwargs": {"min_lr_rate": recipe.min_lr_ratio} if recipe.schedule == "cosine_with_min_lr" else {},
        "warmup_steps": recipe.warmup if recipe.warmup < 1 else int(recipe.warmup),
        "weight_decay": recipe.weight_decay,
        "max_grad_norm": recipe.max_grad_norm,
        "seed": recipe.seed,
        "shuffle_dataset": False,  # the order is fixed when the data set is built
        "bf16": recipe.dtype == "bfloat16",
        "use_cpu": not on_gpu,
        "use_vllm": recipe.sampler == "vllm",
        "gradient_checkpointing": on_gpu,
        "logging_steps": 1,
        "save_strategy": "steps",
        "save_steps": recipe.save_every * recipe.updates,
        "save_total_limit": recipe.keep_checkpoints,
        "report_to": recipe.report_to,
        "disable_tqdm": True,
        "dataloader_num_workers": 0,
        "dataloader_pin_memory": on_gpu,
    }
    try:
        config = GRPOConfig(**{**values, **recipe.trl})
    except TypeError as error:
        raise RecipeError(f"trl: {error}; see the fields of trl.GRPOConfig") from None
    _check_sharding(recipe)
    return config


def _check_sharding(recipe: Recipe) -> None:
    """RecipeError for what cannot be done with parameters that are cut over the processes."""
    if fsdp_asked() and PartialState().distributed_type == DistributedType.MULTI_CPU:
        raise RecipeError("FSDP: accelerate cuts parameters on GPUs only, on CPUs it would keep them whole (DDP)")
    if not zero3():
        return
    if recipe.sampler == "upside":
        raise RecipeError("sampler: upside cannot sample from the parts of ZeRO-3; use sampler=transformers or vllm")
    if recipe.eval.problems:
        raise RecipeError(
            "eval.problems: ZeRO-3 leaves no process a whole model to evaluate; use eval.problems=0, and afterwards "
            f"upside evaluate {recipe.folder / 'model'} --data {recipe.task}"
        )


def _schedule(recipe: Recipe) -> str:
    return "constant_with_warmup" if recipe.schedule == "constant" and recipe.warmup else recipe.schedule
