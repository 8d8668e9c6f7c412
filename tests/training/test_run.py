"""Whole runs of `upside train` on a tiny model: the folder, determinism, resumption, signals, bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

import upside
from upside.training.folder import RunFolder, RunFolderError
from upside.training.recipe import load
from upside.training.run import train


def run(*overrides: str) -> dict[str, Any]:
    return train(load("small.yaml", overrides))


def metrics(folder: str) -> list[dict[str, Any]]:
    """metrics.jsonl without what may differ between two runs of one seed."""
    rows = RunFolder(Path(folder)).metrics()
    return [{k: v for k, v in row.items() if not k.startswith("seconds")} for row in rows]


def rollouts(folder: str) -> dict[str, list[Any]]:
    return pyarrow.parquet.read_table(Path(folder) / "rollouts").to_pydict()


@pytest.mark.usefixtures("workplace")
def test_run_folder() -> None:
    summary = run()
    folder = Path("run")
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "recipe.yaml", "versions.json", "metrics.jsonl", "rollouts", "checkpoints", "model", "curves.png",
        "summary.json", "held_out.jsonl",
    }  # fmt: skip
    rows = metrics("run")
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6]
    keys = {"step", "reward", "accuracy", "length", "entropy", "zero_advantage_share", "loss", "grad_norm", "lr"}
    assert all(
        keys <= set(row) and "seconds" in raw for row, raw in zip(rows, RunFolder(folder).metrics(), strict=True)
    )
    assert all(row["entropy"] > 0 and row["length"] > 0 and row["grad_norm"] > 0 for row in rows)
    assert {path.name for path in (folder / "checkpoints").glob("checkpoint-*")} == {"checkpoint-3", "checkpoint-6"}
    assert (folder / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert json.loads((folder / "versions.json").read_text())["trl"]
    for when in ("before", "after"):
        assert summary[when]["greedy"]["n"] == 6
        assert summary[when]["sampled"]["samples"] == 2
        assert 0 <= summary[when]["accuracy"] <= 1
        greedy = summary[when]["greedy"]  # trl#5787: of the task's verdicts, whatever the rewards add to them
        assert greedy["outcomes"]["correct"] == greedy["accuracy"]
        assert sum(greedy["outcomes"].values()) == pytest.approx(1)
    for mode, after in (item for item in summary["after"].items() if isinstance(item[1], dict)):
        assert after["gain"]["value"] == pytest.approx(after["accuracy"] - summary["before"][mode]["accuracy"])
        assert after["gain"]["low"] <= after["gain"]["value"] <= after["gain"]["high"]
    assert summary == json.loads((folder / "summary.json").read_text())
    assert set(summary["seconds"]) >= {"load", "evaluate_before", "train", "evaluate_after"}
    assert set(summary["cpu_seconds"]) == set(summary["seconds"]) - {"steps"}
    kept = {(line["step"], line["mode"]): line for line in RunFolder(folder).held_out()}
    assert list(kept) == [(0, "greedy"), (0, "sampled"), (6, "greedy"), (6, "sampled")]
    for (step, mode), line in kept.items():
        assert len(line["right"]) == len(line["tokens"]) == 6
        assert sum(line["drawn"]) == 6 * summary["before"][mode]["samples"]
        shares = [right / judged for right, judged in zip(line["right"], line["judged"], strict=True)]
        assert sum(shares) / 6 == pytest.approx(summary["after" if step else "before"][mode]["accuracy"])
    trained = AutoModelForCausalLM.from_pretrained(folder / "model")
    initial = AutoModelForCausalLM.from_pretrained(load("small.yaml").model)
    moved = [not (a == b).all() for a, b in zip(trained.parameters(), initial.parameters(), strict=True)]
    assert all(moved)
    assert AutoTokenizer.from_pretrained(folder / "model").eos_token_id == 1
    assert load(folder / "recipe.yaml").estimator == load("small.yaml").estimator


@pytest.mark.usefixtures("workplace")
def test_rollouts_hold_every_stage_and_what_was_trained() -> None:
    run("steps=2", "eval.problems=0")
    table = rollouts("run")
    assert {
        "step", "group", "prompt", "response", "reward", "correct", "length", "entropy", "truncated",
        "reference_reward", "after_canon", "after_adora_weight", "weight", "half", "advantage",
    } <= set(table)  # fmt: skip
    assert len(table["step"]) == 2 * 16
    for step in (1, 2):
        at = [i for i, s in enumerate(table["step"]) if s == step]
        pick = lambda name, at=at: [table[name][i] for i in at]  # noqa: E731
        fields = {"rewards": pick("reward"), "groups": pick("group"), "lengths": pick("length")}
        batch = upside.Rollouts(**fields, correct=pick("correct"), step=step)
        again = upside.estimator(load("small.yaml").estimator)(batch)
        assert pick("advantage") == pytest.approx(again.values.tolist(), abs=1e-6)
        assert pick("advantage") == pytest.approx(pick("after_adora_weight"), abs=1e-6)
        row = metrics("run")[step - 1]
        assert row["reward"] == pytest.approx(sum(pick("reward")) / 16)
        assert row["accuracy"] == pytest.approx(sum(pick("correct")) / 16)
        assert row["length"] == pytest.approx(sum(pick("length")) / 16)
        zero = sum(abs(a) <= 1e-8 for a in pick("advantage")) / 16
        assert row["zero_advantage_share"] == pytest.approx(zero)


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize("extra", [[], ["minibatches=2", "num_iterations=2"], ["estimator=aapo", "loss=cross_entropy"]])
def test_same_seed_same_numbers_and_another_seed_others(extra: list[str]) -> None:
    # verl#1683, open-instruct#648: a run cannot be reproduced
    run("output=a", "steps=3", *extra)
    run("output=b", "steps=3", *extra)
    assert metrics("a") == metrics("b")
    assert rollouts("a") == rollouts("b")
    run("output=c", "steps=3", "seed=1", *extra)
    assert metrics("c") != metrics("a")


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize(
    "extra",
    [
        [],
        ["minibatches=2", "num_iterations=2"],
        ["estimator=aapo", "sampler=transformers"],
        ["eval.every=2", "schedule=cosine", "warmup=0.5"],
    ],
)
def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(extra: list[str]) -> None:
    # ms-swift#9935, trl#3148, OpenRLHF#1322: random state, buffered batch or prompts lost on resume
    run("output=whole", *extra)
    folder = Path("parts")
    run("output=parts", *extra)
    # as after a kill during step 5: the last checkpoint is that of step 3, later steps are logged, half a line too
    for path in sorted((folder / "checkpoints").glob("checkpoint-*"))[1:]:
        (path / "trainer_state.json").unlink()
    for path in (folder / "summary.json", folder / "curves.png"):
        path.unlink()
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(lines[:5]) + lines[5][:20])
    run("output=parts", "resume=true", *extra)
    assert metrics("parts") == metrics("whole")
    assert rollouts("parts") == rollouts("whole")
    summaries = [json.loads((Path(name) / "summary.json").read_text()) for name in ("whole", "parts")]
    assert summaries[0]["after"] == summaries[1]["after"]


@pytest.mark.usefixtures("workplace")
def test_a_finished_run_can_be_resumed_to_more_steps() -> None:
    # open-instruct#1823: the resume flag did nothing
    run("output=long", "steps=6", "eval.problems=0")
    run("output=grown", "steps=3", "eval.problems=0")
    run("output=grown", "steps=6", "eval.problems=0", "resume=true")
    assert metrics("grown") == metrics("long")
    again = run("output=grown", "steps=6", "eval.problems=0", "resume=true")
    assert again["steps"] == 6
    assert metrics("grown") == metrics("long")


@pytest.mark.usefixtures("workplace")
def test_a_run_resumed_with_other_held_out_problems_pairs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    run("steps=1", "eval.problems=6")
    assert "│ before  " in capsys.readouterr().out
    after = run("steps=2", "eval.problems=3", "resume=true")["after"]
    assert after["greedy"]["n"] == 3
    assert "gain" not in after["greedy"]
    assert "│ before  " not in capsys.readouterr().out  # no response beside another problem's


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_signal_saves_a_checkpoint_and_says_how_to_resume(workplace: Path, name: str) -> None:
    command = [sys.executable, "-m", "upside.cli", "train", "small.yaml", "steps=5000", "eval.problems=0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, cwd=workplace, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        log = workplace / "run" / "metrics.jsonl"
        while time.monotonic() < deadline and not (log.exists() and len(log.read_text().splitlines()) >= 4):
            time.sleep(0.1)
        process.send_signal(getattr(signal, name))
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert f"stopped by {name}; continue with: upside train run/recipe.yaml resume=true" in output
    folder = RunFolder(workplace / "run")
    done = folder.metrics()[-1]["step"]
    assert folder.last_checkpoint() == folder.checkpoints / f"checkpoint-{done}"
    resumed = train(load("run/recipe.yaml", ["resume=true", f"steps={done + 1}"]))
    assert resumed["steps"] == done + 1


# ---- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("workplace")
def test_a_run_cannot_be_resumed_to_fewer_steps_than_it_has() -> None:
    run("steps=2", "eval.problems=0")
    with pytest.raises(RunFolderError, match=r"steps: run is at step 2 already; 1 would be fewer"):
        run("steps=1", "eval.problems=0", "resume=true")
    assert load("run/recipe.yaml").steps == 2


def test_a_file_is_no_output_folder(workplace: Path) -> None:
    (workplace / "taken").write_text("mine")
    with pytest.raises(RunFolderError, match="taken is a file"):
        run("output=taken")
    assert (workplace / "taken").read_text() == "mine"


@pytest.mark.usefixtures("workplace")
def test_a_run_on_verl_counts_its_steps_by_verls_checkpoints() -> None:
    recipe = load("small.yaml", ["output=run", "steps=12"])
    folder = RunFolder.open_for(recipe, "verl")
    assert folder.steps_done(recipe) == 0
    (folder.checkpoints / "latest_checkpointed_iteration.txt").write_text("12")
    assert folder.steps_done(recipe) == 12
    again = replace(recipe, resume=True)
    with pytest.raises(RunFolderError, match="is at step 12 already; 3 would be fewer"):
        RunFolder.open_for(replace(again, steps=3), "verl")
    assert RunFolder.open_for(replace(again, steps=20), "verl").path == folder.path
    with pytest.raises(RunFolderError, match=r"was run with --engine verl; .* resume=true --engine verl` or give"):
        RunFolder.open_for(again)


@pytest.mark.usefixtures("workplace")
def test_a_folder_that_holds_a_run_is_left_alone() -> None:
    run("steps=1", "eval.problems=0")
    before = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    with pytest.raises(RunFolderError, match=r"already holds a run; add resume=true .* or give another output="):
        run("steps=1")
    with pytest.raises(RunFolderError, match=r"was run with lr=0\.01, now it is 0\.5"):
        run("steps=1", "resume=true", "lr=0.5")
    with pytest.raises(RunFolderError, match=r"run with --engine trl; continue with `upside train \S+ resume=true`"):
        RunFolder.open_for(replace(load(Path("run") / "recipe.yaml"), resume=True), "verl")
    assert {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()} == before


def test_a_folder_with_other_things_in_it_is_left_alone(workplace: Path) -> None:
    (workplace / "run").mkdir()
    (workplace / "run" / "thesis.tex").write_text("precious")
    with pytest.raises(RunFolderError, match="is not empty and holds no run"):
        run()
    with pytest.raises(RunFolderError, match="holds no run to resume"):
        run("resume=true", "output=nowhere")


def test_long_prompts_are_dropped_and_counted(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # trl#4358, trl#3569, unsloth#1642: over-long prompts crash in mid-run
    with (workplace / "sums.jsonl").open("a") as file:
        for i in range(40):
            file.write(json.dumps({"prompt": f"{'1+' * 20}{i}=", "answer": str(20 + i)}) + "\n")
    summary = run("max_prompt_tokens=10", "task_options.test_share=0", "steps=1", "eval.problems=0")
    assert summary["dropped_prompts"] == 40
    assert "dropped 40 prompts longer than max_prompt_tokens=10" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"max_prompt_tokens: all .* are longer than 2 tokens"):
        run("max_prompt_tokens=2", "output=other", "eval.problems=0")
    assert not Path("other").exists()


def test_data_files(workplace: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"summs.jsonl.*sums.jsonl"):
        run("task=summs.jsonl")
    (workplace / "empty.jsonl").write_text("")
    with pytest.raises(ValueError, match="empty data set"):
        run("task=empty.jsonl")
    lines = (workplace / "sums.jsonl").read_text().splitlines()
    (workplace / "bad.jsonl").write_text("\n".join([*lines[:6], '{"prompt": "1+', *lines[6:]]))
    with pytest.raises(ValueError, match=r"bad.jsonl, line 7: not valid JSON"):
        run("task=bad.jsonl")
    with pytest.raises(ValueError, match="prompts_per_step: 400 distinct prompts a step, but the task has"):
        run("prompts_per_step=400", "eval.problems=0")
    assert not Path("run").exists()


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("report_to=[wandb]", "report_to: wandb is not installed"),
        ("sampler=vllm", "sampler: vllm"),
        ("micro_batch=5", "micro_batch: 5 does not divide the 16 responses"),
        ("trl.no_such_field=1", "trl: .*no_such_field"),
    ],
)
def test_what_this_machine_or_trl_cannot_do(change: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(change)
    assert not Path("run").exists()


@pytest.mark.usefixtures("workplace")
def test_missing_model() -> None:
    with pytest.raises(ValueError, match="model: cannot load 'no/such/model'"):
        run("model=no/such/model")


@pytest.mark.usefixtures("workplace")
def test_a_reward_that_raises_names_itself_and_keeps_the_run() -> None:
    with pytest.raises(ValueError, match=r"tiny_rewards:broken.*RuntimeError.*no scorer"):
        run("rewards=['python:tiny_rewards:broken']")
    assert json.loads(Path("run/summary.json").read_text())["before"]["greedy"]["n"] == 6


def test_a_reward_that_raises_midway_loses_no_step(workplace: Path) -> None:
    run("output=whole", "eval.problems=0", "estimator=aapo", "rewards=['python:tiny_rewards:moody']")
    (workplace / "moody").touch()
    with pytest.raises(ValueError, match=r"at step 5.*moody.*continue with: upside train run/recipe.yaml resume=true"):
        run("eval.problems=0", "estimator=aapo", "rewards=['python:tiny_rewards:moody']")
    assert [row["step"] for row in metrics("run")] == [1, 2, 3, 4]
    (workplace / "moody").unlink()
    train(load("run/recipe.yaml", ["resume=true"]))
    assert metrics("run") == metrics("whole")
    assert rollouts("run") == rollouts("whole")


@pytest.mark.usefixtures("workplace")
def test_report_to_reaches_tensorboard() -> None:
    run("steps=1", "eval.problems=0", "report_to=[tensorboard]")
    assert list(Path("run").rglob("events.out.tfevents*"))


def test_shown_problems_go_from_easy_to_hard() -> None:
    from upside.tasks import Problem
    from upside.training.run import easy_to_hard

    problems = [Problem(str(i), "", "", level) for i, level in enumerate([3, 1, 2, 1, 3])]
    assert [problems[i].level for i in easy_to_hard(problems)] == [1, 2, 3]
    assert easy_to_hard(problems[:2]) == [1, 0]


def test_reporting_to_nobody_known_is_refused_before_anything_is_written(workplace: Path) -> None:
    with pytest.raises(ValueError, match=r"report_to: 'tensorbord' is unknown.*tensorboard"):
        train(load("small.yaml", ["report_to=[tensorbord]"]))
    assert not (workplace / "run").exists()


def test_more_problems_than_a_file_has_names_key_and_remedy(workplace: Path) -> None:
    with pytest.raises(ValueError, match=r"task: .*train_problems=5000; null takes all"):
        train(load("small.yaml", ["train_problems=5000"]))
    with pytest.raises(ValueError, match=r"task: .*eval\.problems=99; 0: no evaluation"):
        train(load("small.yaml", ["train_problems=null", "eval.problems=99"]))
