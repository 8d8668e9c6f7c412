"""A recipe in verl's words: the overrides of `verl.trainer.main_ppo`'s configuration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import upside
from upside.rewards import SHAPES
from upside.training.recipe import Recipe, RecipeError

LOSSES: dict[str, tuple[str, str]] = {
    "dapo": ("vanilla", "token-mean"),
    "grpo": ("vanilla", "seq-mean-token-mean"),
    "dr_grpo": ("vanilla", "seq-mean-token-sum-norm"),
    "cross_entropy": ("gpg", "token-mean"),
}
"""loss of a recipe -> policy_loss.loss_mode and loss_agg_mode of verl. verl's cispo and sapo clip by other
rules than TRL's, and its token mean is always the whole batch's, so bnpo and cross_entropy_micro have no match."""

PLAIN_ATTENTION: dict[str, Any] = {
    "actor_rollout_ref.model.use_remove_padding": False,
    "+actor_rollout_ref.model.override_config.attn_implementation": "sdpa",
}

NO_BOUND = 1e6
"""verl's dual clip has no off switch: a ratio never gets this far."""


def check(recipe: Recipe) -> None:
    """RecipeError for what verl has no counterpart of."""
    if recipe.loss not in LOSSES:
        raise RecipeError(f"loss: {recipe.loss!r} has no counterpart in verl; use one of {', '.join(LOSSES)}")
    if recipe.mask_truncated:
        raise RecipeError("mask_truncated: verl cannot; write '> mask_truncated' at the end of the estimator")
    if recipe.trl:
        raise RecipeError("trl: these fields are TRL's; leave them out with --engine verl")
    if recipe.importance == "sequence" and recipe.loss != "grpo":
        raise RecipeError(f"importance: sequence goes with loss=grpo in verl (gspo), not with {recipe.loss}")
    if recipe.delta is not None and recipe.delta <= 1:
        raise RecipeError(
            f"delta: {recipe.delta} must be above 1 with verl, whose dual clip bounds the ratio from there"
        )
    if recipe.schedule not in ("constant", "cosine", "cosine_with_min_lr"):
        raise RecipeError(f"schedule: {recipe.schedule!r} has no counterpart in verl; use constant or cosine")
    if recipe.prompts_per_step % recipe.minibatches:
        raise RecipeError(
            f"minibatches: {recipe.minibatches} does not divide prompts_per_step={recipe.prompts_per_step}; "
            "verl cuts minibatches between prompts"
        )
    if recipe.reference == "table" and recipe.reference_missing == "fresh":
        raise RecipeError(
            "reference_missing: fresh is not for verl, whose data hold the table; build it for all problems"
        )
    for entry in recipe.rewards:
        name = entry if isinstance(entry, str) else entry["name"]
        if getattr(SHAPES.get(name), "needs_groups", False):
            raise RecipeError(f"rewards: {name!r} compares the responses to a prompt; verl scores each alone")


def overrides(recipe: Recipe, model: str, folder: Path, cpu: bool, workers: int) -> dict[str, Any]:
    """verl's configuration keys with their values.

    model: folder or hub name. folder: the run's. cpu: the smoke platform instead of vLLM on GPUs. workers: GPUs, or
    processes that stand for them. Raises RecipeError as `check` does.
    """
    check(recipe)
    mode, aggregation = LOSSES[recipe.loss]
    fresh = "reference_rewards" in upside.estimator(recipe.estimator).needs and recipe.reference == "fresh"
    share = recipe.responses // recipe.minibatches // workers
    held = range(1, min(recipe.micro_batch or 16, share) + 1)
    micro = max((n for n in held if share % n == 0), default=1)  # verl cuts evenly
    values = {
        "data.train_files": folder / "data" / "train.parquet",
        "data.val_files": folder / "data" / "val.parquet",
        "data.train_batch_size": recipe.prompts_per_step,
        "data.max_prompt_length": recipe.max_prompt_tokens,
        "data.max_response_length": recipe.max_new_tokens,
        "data.shuffle": False,  # the rows stand in the order of training
        "data.seed": recipe.seed,
        "actor_rollout_ref.model.path": model,
        "actor_rollout_ref.actor.ppo_mini_batch_size": recipe.prompts_per_step // recipe.minibatches,
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": micro,
        "actor_rollout_ref.actor.ppo_epochs": recipe.num_iterations,
        "actor_rollout_ref.actor.data_loader_seed": recipe.seed,
        "actor_rollout_ref.actor.strategy": "fsdp2",
        "actor_rollout_ref.actor.policy_loss.loss_mode": "gspo" if recipe.importance == "sequence" else mode,
        "actor_rollout_ref.actor.loss_agg_mode": aggregation,
        "actor_rollout_ref.actor.loss_scale_factor": recipe.max_new_tokens,  # of dr_grpo
        "actor_rollout_ref.actor.clip_ratio": recipe.epsilon,
        "actor_rollout_ref.actor.clip_ratio_low": recipe.epsilon,
        "actor_rollout_ref.actor.clip_ratio_high": recipe.epsilon
        if recipe.epsilon_high is None
        else recipe.epsilon_high,
        "actor_rollout_ref.actor.clip_ratio_c": NO_BOUND if recipe.delta is None else recipe.delta,
        "actor_rollout_ref.actor.use_kl_loss": recipe.beta > 0,
        "actor_rollout_ref.actor.kl_loss_coef": recipe.beta,
        "actor_rollout_ref.actor.kl_loss_type": "low_var_kl",  # k3, as in TRL
        "actor_rollout_ref.actor.entropy_coeff": recipe.entropy_bonus,
        "actor_rollout_ref.actor.optim.lr": recipe.lr,
        "actor_rollout_ref.actor.optim.weight_decay": recipe.weight_decay,
        "actor_rollout_ref.actor.optim.clip_grad": recipe.max_grad_norm,
        "actor_rollout_ref.actor.optim.lr_scheduler_type": recipe.schedule.removesuffix("_with_min_lr"),
        "actor_rollout_ref.actor.optim.min_lr_ratio": recipe.min_lr_ratio if "min_lr" in recipe.schedule else 0.0,
        **_warmup(recipe),
        "actor_rollout_ref.rollout.n": recipe.group_size,
        "actor_rollout_ref.rollout.temperature": recipe.temperature,
        "actor_rollout_ref.rollout.top_p": recipe.top_p,
        "actor_rollout_ref.rollout.top_k": recipe.top_k or -1,
        "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": micro,
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": micro,
        "actor_rollout_ref.rollout.name": "vllm",
        "algorithm.adv_estimator": "upside",
        "+algorithm.upside.spec": recipe.estimator,
        "+algorithm.upside.run_folder": folder,
        "+algorithm.upside.reference": recipe.reference,
        "algorithm.use_kl_in_reward": False,
        "reward.reward_manager.source": "importlib",
        "reward.reward_manager.name": "RecipeRewards",
        "reward.reward_manager.module.path": "pkg://upside.engines.verl.rewards",
        "+reward.reward_kwargs.recipe": folder / "recipe.yaml",
        "trainer.v1.trainer_mode": "upside",
        "trainer.n_gpus_per_node": workers,
        "trainer.nnodes": 1,
        "trainer.project_name": "upside",
        "trainer.experiment_name": recipe.name,
        "trainer.logger": ["console", *recipe.report_to],
        "trainer.total_epochs": 1,
        "trainer.total_training_steps": recipe.steps,
        "trainer.save_freq": recipe.save_every,
        "actor_rollout_ref.actor.checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
        "trainer.max_actor_ckpt_to_keep": recipe.keep_checkpoints,
        "trainer.default_local_dir": folder / "checkpoints",
        "trainer.resume_mode": "auto" if recipe.resume else "disable",
        "trainer.val_before_train": False,
        "trainer.test_freq": -1,
    }
    return values | (_float32() if recipe.dtype == "float32" else {}) | (_on_cpu(workers + fresh) if cpu else {})


def arguments(values: dict[str, Any]) -> list[str]:
    """The overrides as Hydra reads them on its command line: key=value, texts and paths in quotes."""

    def text(value: Any) -> str:
        if isinstance(value, list):
            return f"[{','.join(map(text, value))}]"
        if isinstance(value, str | Path):
            escaped = re.sub(r'(\\*)("|\Z)', lambda m: m[1] * 2 + ("\\" + m[2] if m[2] else ""), str(value))
            return f'"{escaped}"'
        return str(value)

    return [f"{key}={text(value)}" for key, value in values.items()]


def _float32() -> dict[str, Any]:
    """verl computes in bfloat16 unless told otherwise; flash attention and packed batches know nothing else."""
    precision = {
        f"+actor_rollout_ref.{role}.fsdp_config.mixed_precision.{kind}_dtype": "fp32"
        for role in ("actor", "ref")
        for kind in ("param", "reduce", "buffer")
    }
    return precision | PLAIN_ATTENTION


def _warmup(recipe: Recipe) -> dict[str, Any]:
    optim = "actor_rollout_ref.actor.optim"
    if recipe.warmup < 1:
        return {f"{optim}.lr_warmup_steps_ratio": recipe.warmup}
    return {f"{optim}.lr_warmup_steps": int(recipe.warmup)}


def _on_cpu(gpus: int) -> dict[str, Any]:
    """What the smoke platform needs; gpus: how many Ray shall believe in."""
    return {
        **PLAIN_ATTENTION,
        "data.dataloader_num_workers": 0,
        "actor_rollout_ref.actor.use_torch_compile": False,
        "actor_rollout_ref.rollout.name": "upside_cpu",
        "actor_rollout_ref.rollout.free_cache_engine": False,
        "actor_rollout_ref.rollout.agent.num_workers": 1,
        "reward.num_workers": 1,
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
        "trainer.device": "cpu",
        "+ray_kwargs.ray_init.num_gpus": gpus,
        "ray_kwargs.ray_init.num_cpus": 24,
        "+ray_kwargs.ray_init.include_dashboard": False,
    }
