"""The recipes with pictures against what was published, and what --dry-run says of them on both engines."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

import upside
from upside.engines.verl.translate import overrides
from upside.evaluation import run_evaluation
from upside.tasks import load_task
from upside.training.folder import RunFolder
from upside.training.outlook import outlook
from upside.training.recipe import load
from upside.training.run import train

FOLDER = Path(__file__).parents[2] / "recipes"
PUBLISHED: dict[str, Any] = {
    "model": "Qwen/Qwen2.5-VL-7B-Instruct", "group_size": 8, "steps": 240, "prompts_per_step": 128, "lr": 1e-6,
    "warmup": 0.0, "weight_decay": 0.01, "epsilon": 0.2, "beta": 0.001, "entropy_bonus": 0.0, "temperature": 1.0,
    "top_p": 1.0, "max_prompt_tokens": 4096, "max_new_tokens": 4096, "loss": "grpo", "schedule": "cosine_with_min_lr",
    "min_lr_ratio": 0.1, "rewards": ["geometry"], "task": "geometry3k_vision",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a dry run opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_the_published_settings() -> None:
    recipe = load(FOLDER / "adora_geometry3k_qwen2.5-vl-7b.yaml")
    assert {name: getattr(recipe, name) for name in PUBLISHED} == PUBLISHED
    assert recipe.responses // recipe.minibatches == 128  # rollouts of an optimiser step, 8 steps a batch
    batch = upside.Rollouts([1.0, 0.1, 0.0, 0.1] * 2, [0] * 8, lengths=[50, 100, 100, 100] * 2)
    weights = [row["weight"] for row in upside.explain(upside.estimator(recipe.estimator), batch)]
    assert weights == pytest.approx([0.1] * 8)
    assert any("hiyouga/geometry3k" in line for line in outlook(recipe))


def test_the_published_settings_in_verls_words() -> None:
    recipe = load(FOLDER / "adora_geometry3k_qwen2.5-vl-7b.yaml")
    values = overrides(recipe, recipe.model, Path("run"), cpu=False, workers=8)
    actor = "actor_rollout_ref.actor"
    assert values[f"{actor}.ppo_mini_batch_size"] == 16  # prompts: 128 rollouts
    assert values[f"{actor}.kl_loss_coef"] == 0.001
    assert values[f"{actor}.use_kl_loss"] is True
    assert values[f"{actor}.kl_loss_type"] == "low_var_kl"  # k3
    assert values["actor_rollout_ref.rollout.n"] == 8
    assert values["+algorithm.upside.spec"] == recipe.estimator
    assert values[f"{actor}.optim.lr_scheduler_type"] == "cosine"
    assert values[f"{actor}.optim.min_lr_ratio"] == 0.1


@pytest.mark.parametrize("name", ["adora_geometry3k_qwen2.5-vl-7b", "papers/adora_vl"])
def test_the_released_prompt(name: str) -> None:
    """`--system_prompt` of the released script, and `split("<image>")[-1]`: the picture, then the problem alone."""
    recipe = load(FOLDER / f"{name}.yaml")
    options = {**recipe.task_options, "path": str(FOLDER.parent / "tests" / "data" / "geometry3k")}
    redraw = {"redraw": True} if recipe.task == "geometry3k_vision" else {}
    problem = load_task(recipe.task, **options, **redraw, test_share=0.5).problems("train", 1)[0]
    assert problem.system == "Please reason step by step, and put your final answer within \\boxed{}."
    assert "boxed" not in problem.prompt


def test_the_tiny_recipe_trains_and_is_judged_on_different_figures() -> None:
    recipe = load(FOLDER / "adora_geometry_tiny.yaml")
    assert outlook(recipe)
    assert recipe.steps * recipe.prompts_per_step == recipe.train_problems
    assert recipe.task == "shapes"
    assert not recipe.task_options  # all families, other numbers in the test split


def test_the_tiny_recipe_starts_with_mixed_groups_and_keeps_its_pictures(tmp_path: Path) -> None:
    changes = ["steps=2", "train_problems=64", "eval.problems=32", "eval.every=0", f"output={tmp_path / 'run'}"]
    summary = train(load(FOLDER / "adora_geometry_tiny.yaml", changes))
    rows = RunFolder(tmp_path / "run").metrics()
    assert summary["before"]["sampled"]["n"] == 32
    assert all(0.2 < row["accuracy"] < 0.7 for row in rows)
    assert all(row["constant_group_share"] < 0.5 for row in rows)
    assert 16 < len(list((tmp_path / "run" / "pictures").iterdir())) <= 32


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["grpo", "adora"])
def test_the_tiny_recipe_learns_and_what_it_learns_needs_the_picture(estimator: str, tmp_path: Path) -> None:
    changes = [
        f"estimator={estimator}", "steps=50", "train_problems=800", "eval.problems=256", "eval.every=0",
        "eval.greedy=false", f"output={tmp_path / 'run'}",
    ]  # fmt: skip
    recipe = load(FOLDER / "adora_geometry_tiny.yaml", changes)
    summary = train(recipe)
    assert summary["after"]["sampled"]["gain"]["low"] > 0.1  # at a third of the steps
    for options in ({"blind": "figure"}, {"blind": "digits", "families": "sides,composite"}):
        found = run_evaluation(tmp_path / "run" / "model", "shapes", options=options, problems=150, samples=2)
        chance = load_task("shapes", **options).chance("test")["all"]
        assert found["shapes"].accuracy.value <= chance + 0.03, options
