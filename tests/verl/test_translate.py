"""A recipe in verl's words, held against verl's own configuration."""

from pathlib import Path
from types import SimpleNamespace

import hydra
import pytest
import verl
from omegaconf import OmegaConf
from PIL import Image
from smoke import documented
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config
from verl.utils.dataset.rl_dataset import RLHFDataset

from upside.engines.verl import launch
from upside.engines.verl.options import build, read
from upside.engines.verl.translate import arguments, overrides
from upside.models import bundled
from upside.training.recipe import RecipeError, load

ODD = Path("runs") / "a b, c=d's \\\"[x]\\"


def composed(*changes, cpu=True, workers=2):
    """verl's whole configuration for the default recipe with these changes, as `main_ppo` builds it."""
    recipe = load(None, ["schedule=constant", *changes])
    values = overrides(recipe, str(bundled()), ODD, cpu, workers)
    folder = str(Path(verl.__file__).parent / "trainer" / "config")
    with hydra.initialize_config_dir(folder, version_base=None):
        return hydra.compose("ppo_trainer", arguments(values))


@pytest.mark.parametrize("cpu", [True, False])
@pytest.mark.parametrize(
    "changes",
    [
        ["estimator=canon:metric=entropy,mu=0.5 > adora_weight"],
        ["estimator=aapo", "loss=cross_entropy"],
        ["loss=dr_grpo", "beta=0.04", "minibatches=2", "num_iterations=2"],
        ["loss=grpo", "importance=sequence", "dtype=bfloat16", "schedule=cosine_with_min_lr", "warmup=5"],
    ],
)
def test_verl_accepts_every_key(changes, cpu):
    config = composed(*changes, cpu=cpu)
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    assert actor.ppo_mini_batch_size > 0
    spec = changes[0].removeprefix("estimator=") if "estimator" in changes[0] else load(None, []).estimator
    assert str(build(config.algorithm.adv_estimator, read(config.algorithm))) == spec


def test_the_documented_keys_name_estimator_and_trainer():
    folder = str(Path(verl.__file__).parent / "trainer" / "config")
    with hydra.initialize_config_dir(folder, version_base=None):
        config = hydra.compose("ppo_trainer", documented())
    found = build(config.algorithm.adv_estimator, read(config.algorithm))
    assert str(found) == "canon:metric=entropy,mu=0.5 > adora_weight"
    assert config.trainer.v1.trainer_mode == "upside"


def test_the_numbers_of_the_recipe_arrive():
    config = composed(
        "prompts_per_step=12", "group_size=4", "minibatches=3", "lr=0.002", "top_k=7", "delta=4", "seed=5"
    )
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    assert (config.data.train_batch_size, rollout.n, actor.ppo_mini_batch_size) == (12, 4, 4)
    assert (actor.optim.lr, rollout.top_k, actor.clip_ratio_c, config.data.seed) == (0.002, 7, 4, 5)
    assert OmegaConf.select(config, "algorithm.upside.run_folder") == str(ODD)
    assert actor.fsdp_config.mixed_precision.param_dtype == "fp32"
    assert config.ray_kwargs.ray_init.num_gpus == 2


@pytest.mark.parametrize(
    ("changes", "workers", "micro"),
    [
        (["prompts_per_step=3"], 1, 12),  # 24 rows, at most 16 at once
        (["prompts_per_step=3", "micro_batch=5"], 2, 4),
        (["prompts_per_step=7", "group_size=7"], 1, 7),
        (["prompts_per_step=1", "group_size=2"], 2, 1),
    ],
)
def test_micro_batches_divide_what_a_worker_holds(changes, workers, micro):
    actor = composed(*changes, workers=workers).actor_rollout_ref.actor
    assert actor.ppo_micro_batch_size_per_gpu == micro  # verl asserts that they do, in its first update


def test_a_function_that_compares_within_a_group_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("comparing_rewards.py").write_text("def best(responses, groups):\n    return [0.0] * len(responses)\n")
    changes = ["schedule=constant", "rewards=[verdict,'python:comparing_rewards:best']", "output=run"]
    with pytest.raises(RecipeError, match="compares the responses to a prompt"):
        launch.train(load(None, changes))
    assert not Path("run").exists()


def test_a_data_file_is_found_from_verls_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("sums.jsonl").write_text('{"prompt": "1+1", "answer": "2"}\n' * 2)
    seen = []
    monkeypatch.setattr(launch, "_run", lambda recipe, *rest: seen.append((recipe.task, recipe.task_options)))
    launch.train(load(None, ["schedule=constant", "task=sums.jsonl", "task_options={test_path: sums.jsonl}"]))
    launch.train(load(None, ["schedule=constant", "task=gsm8k", "task_options={path: sums.jsonl, test_share: 0.5}"]))
    launch.train(load(None, ["schedule=constant", "task=arithmetic"]))
    file = str(tmp_path / "sums.jsonl")
    assert seen == [
        (file, {"test_path": file}), ("gsm8k", {"path": file, "test_share": 0.5}), ("arithmetic", {})
    ]  # fmt: skip


def test_a_launcher_before_it_is_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RecipeError, match="a launcher started 2 here; leave torchrun out"):
        launch.train(load(None, ["schedule=constant"]), dry_run=True)


@pytest.mark.parametrize(("sampler", "engine"), [("vllm", "vllm"), ("upside", "upside_cpu")])
def test_a_dry_run_with_vllm_is_for_gpus_wherever_it_is_made(sampler, engine, monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    launch.train(load(None, ["schedule=constant", f"sampler={sampler}", "processes=8"]), dry_run=True)
    said = capsys.readouterr().out
    assert f'rollout.name="{engine}"' in said
    assert ("VERL_PLATFORM=cpu" in said) is (sampler == "upside")


def test_workers_that_cannot_share_a_step_get_numbers_that_can():
    with pytest.raises(RecipeError, match="3 processes cannot share evenly; use prompts_per_step=15 or"):
        launch.train(load(None, ["schedule=constant", "processes=3"]), dry_run=True)


def test_a_fresh_reference_gets_a_gpu_of_its_own():
    assert composed("estimator=aapo").ray_kwargs.ray_init.num_gpus == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("loss=vespo", "loss: 'vespo' has no counterpart in verl; use one of dapo, grpo"),
        ("mask_truncated=true", "write '> mask_truncated' at the end of the estimator"),
        ("schedule=linear", "schedule: 'linear' has no counterpart"),
        ("trl.cast_lm_head_to_fp32=true", "trl: these fields are TRL's"),
        ("delta=0.5", "delta: 0.5 must be above 1 with verl"),
        ("importance=sequence", "importance: sequence goes with loss=grpo"),
        ("minibatches=32", "minibatches: 32 does not divide prompts_per_step=16"),
        ("rewards=[verdict,length_ratio]", "'length_ratio' compares the responses to a prompt"),
    ],
)
def test_what_verl_cannot_do_is_refused(change, message):
    with pytest.raises(RecipeError, match=message):
        composed(change)


def test_a_reference_table_goes_into_the_data(tmp_path):
    from upside.engines.verl.launch import _rows
    from upside.models.loading import load_tokenizer
    from upside.tasks import load_task
    from upside.training import reference

    file = tmp_path / "table.parquet"
    reference.build("bundled", "reasoner", file, samples=3, problems=16, max_new_tokens=4)
    changes = ["estimator=aapo", "reference=table", f"reference_table={file}", "train_problems=16", "max_new_tokens=4"]
    recipe = load(None, [*changes, "prompts_per_step=4", "group_size=2", "steps=4"])
    task, tokenizer = load_task("reasoner"), load_tokenizer("bundled")
    problems = task.problems("train", 16, 0)
    table = {index: [index + sample / 10 for sample in range(3)] for index in range(16)}
    assert set(reference.for_run(recipe, problems, tokenizer)) == set(table)
    rows = _rows(recipe, task, problems, tokenizer, table)
    assert len(rows) == 16
    for at, row in enumerate(rows):
        index = [problem.id for problem in problems].index(row["extra_info"]["problem"])
        first = (at // 4) * 2
        assert row["reference_rewards"] == [index + first % 3 / 10, index + (first + 1) % 3 / 10]
    config = composed(*changes)
    assert config.algorithm.upside.reference == "table"
    assert config.ray_kwargs.ray_init.num_gpus == 2
    with pytest.raises(RecipeError, match="reference_missing: fresh is not for verl"):
        composed(*changes, "reference_missing=fresh")


def test_pictures_go_into_the_data_as_verl_reads_them(tmp_path):
    from upside.engines.verl.launch import _rows, _write_data, _write_pictures
    from upside.models import vision
    from upside.tasks import load_task

    folder, tokenizer = tmp_path / "run" / "data", vision.tokenizer()
    # what is asked of a processor here; the transformers of verl's environment makes none without torchvision
    reader = SimpleNamespace(image_processor=None, tokenizer=tokenizer, chat_template=vision.TEMPLATE)
    recipe = load(None, ["task=shapes", f"output={tmp_path / 'run'}", "prompts_per_step=2", "steps=3"])
    task = load_task("shapes")
    problems = task.problems("train", 4, 0)
    rows = _rows(recipe, task, problems, reader)
    _write_pictures(folder, problems)
    _write_data(folder, rows)
    config = OmegaConf.create({"max_prompt_length": 64, "filter_overlong_prompts": False})
    read_back = RLHFDataset(str(folder / "train.parquet"), tokenizer, config, reader)
    by_id = {problem.id: problem for problem in problems}
    assert len(read_back) == 6
    for i, row in enumerate(rows):
        problem = by_id[row["extra_info"]["problem"]]
        (message,) = read_back[i]["raw_prompt"]
        assert message["content"] == [
            {"type": "image", "image": row["images"][0]}, {"type": "text", "text": problem.prompt}
        ]  # fmt: skip
        assert Image.open(row["images"][0]).tobytes() == problem.images[0].load().tobytes()
        assert read_back[i]["extra_info"]["upside_pictures"] == [
            Path(row["images"][0]).name
        ]  # what the rollouts refer to
