"""Whole runs with two gloo processes over the real command line and the bundled model.

3 prompts x 4 responses are six rows a process: the second group straddles the two.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet
import pytest
from rich.console import Console

import upside
from upside.tasks import load_task
from upside.training.folder import RunFolder
from upside.training.reference import build

pytestmark = pytest.mark.slow

GROWING = str(Path(__file__).with_name("growing_cli.py"))
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
CHAIN = "canon:metric=entropy,mu=0.5 > adora_weight > growing"
SIZE = ["train_problems=64", "prompts_per_step=3", "group_size=4", "eval.problems=0", "save_every=2"]
FSDP = {
    "ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "false", "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT",
    "FSDP_RESHARD_AFTER_FORWARD": "true",
}  # fmt: skip


def start(folder: Path, *arguments: str, program: str = "-m upside.cli", env: dict | None = None) -> subprocess.Popen:
    folder.mkdir(parents=True, exist_ok=True)
    return subprocess.Popen(
        [*TORCHRUN, *program.split(), "train", *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1", **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(folder: Path, *arguments: str, fails: bool = False, **options: Any) -> str:
    process = start(folder, *arguments, **options)
    try:
        output, _ = process.communicate(timeout=300)
    finally:
        process.kill()
    assert (process.returncode != 0) == fails, output[-4000:]
    return output


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if not k.startswith("seconds")} for row in RunFolder(folder).metrics()]


def rollouts(folder: Path) -> dict[str, list[Any]]:
    return pyarrow.parquet.read_table(folder / "rollouts").to_pydict()


def until(condition: Callable[[], bool], process: subprocess.Popen, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[0][-4000:]
        assert time.monotonic() < deadline
        time.sleep(0.1)


def logged(folder: Path) -> int:
    return len(RunFolder(folder).metrics())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four steps in one go; the folder of the run."""
    folder = tmp_path_factory.mktemp("processes")
    run(
        folder,
        *SIZE,
        "steps=4",
        f"estimator={CHAIN}",
        "output=whole",
        "eval.problems=8",
        "eval.every=2",
        program=GROWING,
    )
    return folder / "whole"


def test_groups_are_whole_and_everything_is_written_once(whole: Path) -> None:
    assert sorted(path.name for path in (whole / "rollouts").iterdir()) == [
        f"step-0000{i}.parquet" for i in range(1, 5)
    ]
    assert [row["step"] for row in metrics(whole)] == [1, 2, 3, 4]
    saved = [json.loads((whole / f"checkpoints/checkpoint-{n}/advantage_estimator.json").read_text()) for n in (2, 4)]
    assert saved == [{"2:growing": {"seen": 2}}, {"2:growing": {"seen": 4}}]
    summary = RunFolder(whole).summary()
    assert [row["step"] for row in summary["during"]] == [2]  # the main process evaluates, the other waits
    assert summary["before"]["greedy"]["n"] == summary["after"]["greedy"]["n"] == 8
    from upside.training.recipe import load

    assert load(whole / "recipe.yaml", [f"estimator={CHAIN.rpartition(' > ')[0]}"]).processes == 2


def test_metrics_and_advantages_are_those_of_one_process_on_the_same_rollouts(whole: Path) -> None:
    for row in metrics(whole):
        table = pyarrow.parquet.read_table(whole / "rollouts" / f"step-0000{row['step']}.parquet").to_pydict()
        assert table["group"] == [i // 4 for i in range(12)]
        assert [len(set(table["prompt"][at : at + 4])) for at in (0, 4, 8)] == [1, 1, 1]
        batch = upside.Rollouts(
            rewards=table["reward"], groups=table["group"], lengths=table["length"], entropy=table["entropy"],
            correct=table["correct"], truncated=table["truncated"], step=row["step"], total_steps=4,
        )  # fmt: skip
        found = upside.estimator(CHAIN.rpartition(" > ")[0])(batch)
        growth = 1 + row["step"] / 100
        assert table["advantage"] == pytest.approx([growth * v for v in found.values.tolist()], abs=1e-6)
        assert row["reward"] == pytest.approx(sum(table["reward"]) / 12)
        assert row["reward_std"] == pytest.approx(float(batch.rewards.std()))
        assert row["accuracy"] == pytest.approx(sum(table["correct"]) / 12)
        assert row["length"] == pytest.approx(sum(table["length"]) / 12)
        tokens = [e * n for e, n in zip(table["entropy"], table["length"], strict=True)]
        assert row["entropy"] == pytest.approx(sum(tokens) / sum(table["length"]), rel=1e-5)
        for name, value in found.metrics.items():
            grown = growth if name == "advantage_abs_max" else 1
            assert row[name] == pytest.approx(grown * value, abs=1e-6), name


def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(whole: Path, tmp_path: Path) -> None:
    parts = tmp_path / "whole"
    shutil.copytree(whole, parts)
    shutil.rmtree(parts / "checkpoints/checkpoint-4")
    (parts / "summary.json").unlink()
    run(tmp_path, "whole/recipe.yaml", "resume=true", program=GROWING)
    assert metrics(parts) == metrics(whole)
    assert rollouts(parts) == rollouts(whole)
    same = [(path / "model/model.safetensors").read_bytes() for path in (whole, parts)]
    assert same[0] == same[1]
    states = [(path / "checkpoints/checkpoint-4/advantage_estimator.json").read_text() for path in (whole, parts)]
    assert states[0] == states[1]


def test_a_run_of_two_processes_is_not_resumed_by_one(whole: Path) -> None:
    done = subprocess.run(
        [sys.executable, GROWING, "train", str(whole / "recipe.yaml"), "resume=true"],
        capture_output=True, text=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "processes: 2 asked for, there is one process; use: torchrun --standalone --nproc_per_node 2" in done.stderr


@pytest.mark.parametrize("way", ["SIGTERM to the launcher", "Ctrl-C in the terminal"])
def test_a_signal_saves_a_checkpoint_and_says_how_to_go_on(tmp_path: Path, way: str) -> None:
    process = start(tmp_path, *SIZE, "steps=5000", "output=run")
    folder = RunFolder(tmp_path / "run")
    try:
        until(lambda: logged(tmp_path / "run") >= 3, process)
        if way == "SIGTERM to the launcher":
            process.send_signal(signal.SIGTERM)
        else:  # the terminal sends it to all three
            for each in [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]:
                each.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    done = logged(tmp_path / "run")
    assert folder.last_checkpoint() == folder.checkpoints / f"checkpoint-{done}"
    command = "torchrun --standalone --nproc_per_node 2 -m upside.cli train run/recipe.yaml resume=true"
    assert output.count(f"; continue with: {command}") == 1
    assert "Error:" not in output.replace("SignalException", "")
    assert len(rollouts(tmp_path / "run")["step"]) == 12 * done


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_ends_the_run_and_leaves_a_usable_checkpoint(tmp_path: Path, rank: int) -> None:
    process = start(tmp_path, *SIZE, "steps=5000", "output=run")
    try:
        until(lambda: logged(tmp_path / "run") >= 5, process)
        workers = psutil.Process(process.pid).children(recursive=True)
        next(each for each in workers if each.environ().get("RANK") == str(rank)).send_signal(signal.SIGKILL)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode != 0
    assert f"process {1 - rank} of 2 lost the others" in output
    folder = RunFolder(tmp_path / "run")
    checkpoint = folder.last_checkpoint()
    assert checkpoint is not None
    step = int(checkpoint.name.rpartition("-")[2])
    assert step >= 4
    assert f"the last checkpoint is of step {step}; continue with: torchrun " in output
    if rank == 0:
        command = output.partition("continue with: ")[2].splitlines()[0]
        words = shlex.split(command)
        assert words[:4] == ["torchrun", "--standalone", "--nproc_per_node", "2"]
        run(tmp_path, *words[words.index("train") + 1 :], f"steps={step + 1}")
        assert logged(tmp_path / "run") == step + 1


def test_a_reward_that_raises_on_one_process_ends_both_and_loses_no_step(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "moods.py").write_text(
        "import os\n\ncalls = []\n\n\ndef moody(responses):\n    calls.append(1)\n"
        "    if os.environ['RANK'] == '1' and len(calls) == 4 and os.path.exists('moody'):\n"
        "        raise RuntimeError('no scorer')\n    return [0.0 for _ in responses]\n"
    )
    (tmp_path / "moody").touch()
    rewards = "rewards=[verdict,'python:moods:moody']"
    env = {"PYTHONPATH": str(tmp_path)}
    started = time.monotonic()
    arguments = [*SIZE, "steps=4", f"estimator={CHAIN}", rewards, "output=run"]
    output = run(tmp_path, *arguments, fails=True, program=GROWING, env=env)
    assert time.monotonic() - started < 100
    assert output.count("Error: process 1: at step 4: ") == 2  # both say whose it was
    assert "RuntimeError: no scorer" in output
    assert "once it is mended, continue with: torchrun --standalone --nproc_per_node 2" in output
    assert logged(tmp_path / "run") == 3
    (tmp_path / "moody").unlink()
    run(tmp_path, "run/recipe.yaml", "resume=true", program=GROWING, env=env)
    pick = ("response", "advantage")
    table, expected = rollouts(tmp_path / "run"), rollouts(whole)
    assert {name: table[name] for name in pick} == {name: expected[name] for name in pick}


def test_a_reference_table_is_drawn_from_in_the_order_of_the_whole_batch(tmp_path: Path) -> None:
    table = tmp_path / "table.parquet"
    build(
        "bundled", "reasoner", table, samples=6, problems=64, max_new_tokens=96, temperature=1.0,
        console=Console(quiet=True),
    )  # fmt: skip
    content = pyarrow.parquet.read_table(table)
    numbers = [i / 1000 for i in range(len(content))]
    pyarrow.parquet.write_table(content.set_column(2, "reward", pyarrow.array(numbers)), table)
    place = dict(
        zip(zip(content["problem"].to_pylist(), content["sample"].to_pylist(), strict=True), numbers, strict=True)
    )
    run(tmp_path, *SIZE, "steps=3", "estimator=aapo", "reference=table", "reference_table=table.parquet", "output=run")
    ids = {problem.prompt: problem.id for problem in load_task("reasoner").problems("train", 64, 0)}
    found = rollouts(tmp_path / "run")
    expected = [
        place[ids[prompt], ((step - 1) * 4 + row % 4) % 6]
        for row, (step, prompt) in enumerate(zip(found["step"], found["prompt"], strict=True))
    ]
    assert found["reference_reward"] == pytest.approx(expected, abs=1e-6)


def test_uneven_batches_are_refused_with_the_numbers_that_work(tmp_path: Path) -> None:
    output = run(tmp_path, "prompts_per_step=5", "group_size=3", "output=run", fails=True)
    assert "5 x 3 responses in 1 minibatches are 15 an optimiser step, which 2 processes cannot share evenly" in output
    assert "use prompts_per_step=4 or prompts_per_step=6, or one of 1, 3, 5, 15 processes" in output
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_taken_is_said_by_all_and_left_alone(whole: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*")}
    output = run(whole.parent, *SIZE, "output=whole", fails=True)
    assert "already holds a run; add resume=true" in output
    assert "lost the others" not in output
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*")} == before


# ---- parameters cut over the processes ---------------------------------------------------------------------------


def test_fsdp2_trains_saves_evaluates_and_resumes(whole: Path, tmp_path: Path) -> None:
    program = str(Path(__file__).parents[1] / "engines" / "sharding_cli.py")
    chain = "canon:metric=entropy,mu=0.5 > reference_margin > adora_weight"
    arguments = [*SIZE, f"estimator={chain}", "eval.problems=8", "eval.every=2"]
    run(tmp_path, *arguments, "steps=4", "output=cut", program=program, env=FSDP)
    run(tmp_path, *arguments, "steps=4", "output=kept")
    cut, kept = tmp_path / "cut", tmp_path / "kept"
    assert (cut / "checkpoints/checkpoint-4/pytorch_model_fsdp.bin").is_file()
    assert not (kept / "checkpoints/checkpoint-4/pytorch_model_fsdp.bin").exists()
    for name in ("response", "advantage", "reference_reward"):
        assert rollouts(cut)[name][:12] == rollouts(kept)[name][:12]  # the first step is the same whichever way
    for mine, other in zip(metrics(cut)[:1], metrics(kept)[:1], strict=True):
        assert mine["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-3)
    summary = RunFolder(cut).summary()
    assert [row["step"] for row in summary["during"]] == [2]
    assert summary["after"]["greedy"]["n"] == 8
    parts = tmp_path / "parts"
    shutil.copytree(cut, parts)
    shutil.rmtree(parts / "checkpoints/checkpoint-4")
    run(tmp_path, *arguments, "steps=4", "output=parts", "resume=true", program=program, env=FSDP)
    assert metrics(parts) == metrics(cut)
    assert rollouts(parts) == rollouts(cut)
    assert (parts / "model/model.safetensors").read_bytes() == (cut / "model/model.safetensors").read_bytes()


def test_fsdp_on_a_cpu_is_refused_where_accelerate_would_keep_the_parameters_whole(tmp_path: Path) -> None:
    output = run(tmp_path, *SIZE, "output=run", fails=True, env=FSDP)
    assert "FSDP: accelerate cuts parameters on GPUs only, on CPUs it would keep them whole (DDP)" in output
    assert not (tmp_path / "run").exists()
