"""How many processes a run has against how many were asked for; the launchers are the real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from upside.training import world
from upside.training.recipe import RecipeError, load

ACCELERATE = str(Path(sys.executable).with_name("accelerate"))


@pytest.mark.usefixtures("workplace")
def test_the_recipe_says_how_many_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    world.check(load("small.yaml"))
    world.check(load("small.yaml", ["processes=1"]))
    with pytest.raises(RecipeError, match=r"processes: 2 asked for, there is one process; use: torchrun --standalone"):
        world.check(load("small.yaml", ["processes=2"]))
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(RecipeError, match=r"processes: 2 asked for, there are 4 processes; .*--nproc_per_node 2 -m"):
        world.check(load("small.yaml", ["processes=2"]))
    world.check(load("small.yaml", ["processes=4"]))


@pytest.mark.usefixtures("workplace")
def test_responses_that_do_not_divide() -> None:
    recipe = load("small.yaml", ["prompts_per_step=5", "group_size=3"])  # 15 responses
    world.check_shares(recipe, 3)
    with pytest.raises(RecipeError, match=r"15 an optimiser step, which 2 .* use prompts_per_step=4 or prompts_per_step=6, or one of 1, 3, 5, 15 processes"):  # fmt: skip  # noqa: E501
        world.check_shares(recipe, 2)
    in_two = load("small.yaml", ["prompts_per_step=4", "group_size=3", "minibatches=2"])  # 6 an update
    with pytest.raises(RecipeError, match=r"use prompts_per_step=8, or one of 1, 2, 3, 6 processes"):
        world.check_shares(in_two, 4)
    world.check_shares(load("small.yaml", ["prompts_per_step=8", "group_size=3", "minibatches=2"]), 4)


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (["python", "/env/bin/accelerate", "launch", "--cpu", "--num_processes", "2", "-m", "upside.cli"], 2),
        (["python", "/env/bin/accelerate-launch", "--num-processes=3", "train.py", "--num_processes", "9"], 3),
        (["python", "-m", "accelerate.commands.launch", "--config_file", "two.yaml", "train.py"], 2),
        (["python", "/env/bin/accelerate", "launch", "--config_file", "open.yaml", "train.py"], None),
        (["bash", "-c", "upside train"], None),
    ],
)
def test_what_accelerate_launch_was_asked(
    words: list[str], number: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    (tmp_path / "two.yaml").write_text("distributed_type: MULTI_GPU\nnum_processes: 2\n")
    (tmp_path / "open.yaml").write_text("distributed_type: MULTI_GPU\nnum_processes: -1\n")
    assert world.number_in(world._after_launch(words)) == number


@pytest.mark.parametrize("way", ["command line", "file"])
def test_accelerate_launch_on_a_cpu_starts_one_process_and_the_run_says_so(workplace: Path, way: str) -> None:
    (workplace / "two.yaml").write_text("distributed_type: 'NO'\nuse_cpu: true\nnum_processes: 2\n")
    asked = ["--cpu", "--num_processes", "2"] if way == "command line" else ["--config_file", "two.yaml"]
    done = subprocess.run(
        [ACCELERATE, "launch", *asked, "-m", "upside.cli", "train", "small.yaml", "steps=1"],
        cwd=workplace,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    expected = (
        "accelerate launch --num_processes: 2 asked for, there is one process; on a CPU accelerate launch starts one, "
        "whatever it is asked; use: torchrun --standalone --nproc_per_node 2 -m upside.cli train small.yaml steps=1"
    )
    assert expected in done.stderr
    assert not (workplace / "run").exists()


def test_the_engine_that_is_not_installed() -> None:
    from click.testing import CliRunner

    from upside.cli import main

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "verl", None)
        done = CliRunner().invoke(main, ["train", "--engine", "verl"])
    assert done.exit_code == 2
    assert "--engine verl:" in done.output
    assert "pip install 'upside[verl]'" in done.output


def test_processes_that_the_launcher_did_not_number() -> None:
    with pytest.raises(
        RecipeError, match=r"processes: RANK and WORLD_SIZE tell of 1, the training library sees 2; start"
    ):
        world.Gate(2)
    world.Gate(1).wait()
    assert world.Gate(1).told("a word") == "a word"


@pytest.mark.slow
def test_others_wait_for_the_main_process_longer_than_for_anything_else(tmp_path: Path) -> None:
    script = Path(__file__).with_name("waiting.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script)]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "lost").read_text() == "from 0"
    assert not world.is_lost(RuntimeError("gloo"))  # alone, nothing can be lost
