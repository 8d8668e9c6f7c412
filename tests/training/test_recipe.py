"""Recipes: round trip, overrides, errors that name key, line and remedy, and every shipped file."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from upside.training.outlook import outlook
from upside.training.recipe import Recipe, RecipeError, load, shipped, to_yaml

FOLDER = Path(__file__).parents[2] / "recipes"
SHIPPED = [path for path in sorted(FOLDER.rglob("*.yaml")) if path.parent.name != "accelerate"]


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_recipes_are_valid_and_survive_a_round_trip(path: Path, tmp_path: Path) -> None:
    recipe = load(path)
    assert recipe.name == path.stem
    if recipe.model.startswith("./"):  # made by `upside model import` first, as the recipe says
        recipe = dataclasses.replace(recipe, model="bundled")
    assert outlook(recipe)
    assert load(write(tmp_path, to_yaml(recipe))) == recipe


def test_every_paper_has_its_settings() -> None:
    names = {path.stem for path in SHIPPED}
    assert {
        "reasoner", "adora_llm_paper", "adora_llm_released", "adora_llm_author", "adora_vl", "canon_inter_7b",
        "canon_intra_7b", "canon_dynamic_7b", "canon_dynamic_1.5b", "canon_dynamic_llama", "canon_eff_7b", "aapo_1.5b",
        "aapo_7b", "aapo_llama",
    } <= names  # fmt: skip


def test_published_numbers() -> None:
    """A few that are easy to get wrong; papers' tables and released scripts."""
    canon = load(shipped("papers/canon_inter_7b"))
    assert (canon.prompts_per_step, canon.group_size, canon.minibatches, canon.lr) == (512, 16, 16, 1e-6)
    assert (canon.epsilon, canon.epsilon_high, canon.delta, canon.beta, canon.loss) == (0.2, 0.28, 3.0, 0.0, "dr_grpo")
    assert load(shipped("papers/canon_eff_7b")).max_new_tokens == 3072
    aapo = load(shipped("papers/aapo_1.5b"))
    assert (aapo.group_size, aapo.prompts_per_step, aapo.micro_batch, aapo.top_k) == (6, 4, 6, 50)
    assert (aapo.temperature, aapo.loss, aapo.max_new_tokens) == (0.7, "cross_entropy_micro", 3584)
    adora = load(shipped("papers/adora_vl"))
    assert (adora.group_size, adora.prompts_per_step, adora.minibatches, adora.beta) == (8, 128, 8, 1e-3)


def test_the_default_is_the_reasoner() -> None:
    recipe = load()
    assert (recipe.name, recipe.model, recipe.task, recipe.estimator) == ("reasoner", "bundled", "reasoner", "grpo")
    assert recipe.folder == Path("runs/reasoner-grpo-s0")


def test_shipped_recipes_go_by_name() -> None:
    assert load("papers/aapo_7b") == load("recipes/papers/aapo_7b.yaml") == load(shipped("papers/aapo_7b"))


def test_overrides(tmp_path: Path) -> None:
    path = write(tmp_path, "lr: 1e-4\neval: {problems: 9}\n")
    recipe = load(path, ["estimator=canon:metric=length,mu=0.5 > adora_weight", "eval.greedy=false", "steps=7"])
    assert recipe.estimator == "canon:metric=length,mu=0.5 > adora_weight"
    assert (recipe.eval.greedy, recipe.eval.problems, recipe.steps, recipe.lr) == (False, 9, 7, 1e-4)
    assert recipe.name == "mine"
    assert load(path, ["trl.gradient_checkpointing=false"]).trl == {"gradient_checkpointing": False}


def test_the_folder_is_named_after_recipe_estimator_and_seed(tmp_path: Path) -> None:
    recipe = load(write(tmp_path, "estimator: 'canon:mu=0.5 > adora_weight'\nseed: 4\n"))
    assert recipe.folder == Path("runs/mine-canon-mu=0.5-adora_weight-s4")


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        ("lr: 1\nstepz: 3\n", [], r"mine.yaml, line 2: unknown key 'stepz'; did you mean 'steps'"),
        ("eval:\n  greedy: true\n  problem: 3\n", [], r"line 3: unknown key 'eval.problem'; did you mean 'problems'"),
        ("", ["grop_size=3"], r"command line: unknown key 'grop_size'; did you mean 'group_size'"),
        ("\nlr: fast\n", [], r"line 2: lr: Value 'fast' of type 'str' could not be converted to Float"),
        ("", ["steps=many"], r"command line: steps: Value 'many' .* Integer"),
        ("", ["steps"], r"cannot read 'steps'; write key=value"),
        ("- lr\n", [], r"must hold `key: value` lines"),
        ("lr: [1\n", [], r"is not valid YAML"),
        ("lr: 1\nlr: 2\n", [], r"duplicate key lr"),
        ("group_size: 1\n", [], r"group_size: 1 must be at least 2; a group of one"),
        ("estimator: cannon\n", [], r"estimator: unknown estimator or stage 'cannon'. Did you mean 'canon'"),
        ("estimator: 'canon:mew=1'\n", [], r"estimator: canon has no option 'mew'"),
        ("estimator: 'canon:mu=1.5'\n", [], r"estimator: .*mu"),
        ("loss: dappo\n", [], r"loss: 'dappo' is unknown; did you mean 'dapo'"),
        ("temperature: 0\n", [], r"temperature: 0.0 must be positive"),
        ("top_p: 0\n", [], r"top_p"),
        ("minibatches: 3\n", [], r"minibatches: 3 does not divide the 128 responses"),
        ("loss: cross_entropy\nbeta: 0.1\n", [], r"beta: 0.1 has no place in loss=cross_entropy"),
        ("rewards: []\n", [], r"rewards: the list is empty"),
        ("estimator: 'canon:metric=surprise'\n", [], r"estimator: .* needs surprise, which a recipe cannot supply"),
        ("trl: {num_generations: 4}\n", [], r"trl.num_generations: the recipe says this itself; use group_size"),
        ("trl: {max_steps: 1}\n", [], r"trl.max_steps: .* use steps"),
        ("eval: {greedy: false, samples: 0}\n", [], r"eval: nothing to measure with greedy=false and samples=0"),
    ],
)
def test_bad_recipes(tmp_path: Path, text: str, overrides: list[str], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        load(write(tmp_path, text), overrides)


def test_missing_recipe(tmp_path: Path) -> None:
    write(tmp_path, "")
    with pytest.raises(FileNotFoundError, match=r"did you mean .*mine.yaml"):
        load(tmp_path / "mein.yaml")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["task=resoner"], "unknown task 'resoner'"),
        (["task=arithmetic", "task_options.lvls=3"], "lvls"),
        (["rewards=[verdikt]"], "unknown reward 'verdikt'"),
        (["rewards=[{name: overlong, max_len: 3}]"], "no option 'max_len'"),
    ],
)
def test_outlook_finds_what_does_not_exist(changes: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        outlook(load(None, changes))


def test_outlook_names_what_a_run_still_lacks(tmp_path: Path) -> None:
    lines = "\n".join(outlook(load(write(tmp_path, "task: data/absent.parquet\nmodel: org/name\n"))))
    assert "not here yet: data/absent.parquet" in lines
    assert "model org/name is not a folder here" in lines


def test_a_cut_that_no_response_can_reach_is_pointed_out() -> None:
    lines = outlook(load(shipped("papers/adora_llm_released")))
    assert any("caution: adora_weight counts failures of 3900 tokens" in line for line in lines)
    assert not any("caution" in line for line in outlook(load(shipped("papers/adora_llm_author"))))


def test_recipe_defaults_are_valid() -> None:
    from upside.training.recipe import check

    check(Recipe())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["trl.learning_rat=3"], r"trl: unknown key 'learning_rat'; did you mean 'learning_rate'"),
        (["rewards=[{name: verdict, weight: abc}]"], r"rewards\[0\]: weight 'abc' is no finite number"),
        (["epsilon=nan"], r"epsilon: nan must be at least 0"),
        (["model=/nonexistent/folder"], r"model: there is no folder /nonexistent/folder"),
        (["eval=3"], r"eval: 3 must hold keys, such as eval\.problems=3"),
        (["report_to=wandb"], r"report_to: 'wandb' must be a list, such as \[wandb\]"),
        (["task=reasonr"], r"task: unknown task 'reasonr'"),
        (["rewards=[verdikt]"], r"rewards\[0\]: unknown reward 'verdikt'"),
    ],
)
def test_a_dry_run_names_the_key_of_a_value_that_cannot_be_used(changes: list[str], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        outlook(load(None, changes))


@pytest.mark.parametrize("text", ["a: [1\nb: 2\n", "steps: 1\nsteps: 2\n"])
def test_broken_yaml_names_file_and_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(RecipeError, match=r"(?s).*line 2") as caught:
        load(write(tmp_path, text))
    assert "unicode string" not in str(caught.value)
