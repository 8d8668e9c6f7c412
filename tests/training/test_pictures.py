"""Runs on problems with pictures: what is kept of them, and what a picture that goes missing costs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from PIL import Image

from upside.analysis import explain_groups, read_log
from upside.analysis.page.pictures import embedded
from upside.models import vision
from upside.models.loading import load_reader
from upside.tasks import load_task
from upside.tasks.pictures import PictureError
from upside.training import setup
from upside.training.folder import RunFolder
from upside.training.prompts import prompt_rows
from upside.training.recipe import RecipeError, load
from upside.training.run import train

REWARDS = """
from pathlib import Path

calls = []


def numbers(responses):
    calls.append(len(responses))
    if Path("vanish").exists() and calls.count(16) == 2:
        Path("data/pictures").rename("elsewhere")
    return [sum(ord(c) for c in text) % 7 / 7 for text in responses]
"""


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vision.build(tmp_path_factory.mktemp("seeing"))


@pytest.fixture
def place(seeing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a recipe, drawn pictures as files, and rows that refer to them; the test's working folder."""
    (tmp_path / "data" / "pictures").mkdir(parents=True)
    rows = []
    for i, problem in enumerate(load_task("shapes", families=["sides", "grid_area"]).problems("train", 24)):
        problem.images[0].load().save(tmp_path / "data" / "pictures" / f"{i}.png")
        rows.append({"prompt": problem.prompt, "answer": problem.answer, "image": f"pictures/{i}.png", "id": f"p{i}"})
    (tmp_path / "data" / "drawn.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "picture_rewards.py").write_text(REWARDS)
    (tmp_path / "drawn.yaml").write_text(
        f"name: drawn\nmodel: {seeing}\ntask: data/drawn.jsonl\n"
        "task_options: {image: image, id: id, test_share: 0.25}\n"
        "rewards: ['python:picture_rewards:numbers']\nestimator: adora\nsteps: 4\nprompts_per_step: 4\ngroup_size: 4\n"
        "max_new_tokens: 8\nlr: 1e-2\nsave_every: 10\nthreads: 1\nlength_buckets: 2\ndoctor: off\n"
        "eval: {problems: 4, samples: 1}\noutput: run\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "picture_rewards", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def steps(folder: str) -> list[dict[str, Any]]:
    rows = RunFolder(Path(folder)).metrics()
    return [{key: value for key, value in row.items() if not key.startswith("seconds")} for row in rows]


def test_a_run_keeps_each_prompts_picture_once_and_shows_it(place: Path) -> None:
    train(load("drawn.yaml"))
    table = pyarrow.parquet.read_table("run/rollouts").to_pylist()
    shown = {row["images"][0] for row in table}
    assert all(len(row["images"]) == 1 for row in table)
    assert {f"pictures/{path.name}" for path in Path("run/pictures").iterdir()} == shown
    drawn = {Image.open(path).convert("RGB").tobytes() for path in Path("data/pictures").iterdir()}
    assert {Image.open(place / "run" / file).tobytes() for file in shown} <= drawn  # 64 pixels: no smaller ones needed
    asked = {Image.open(row["image"]).tobytes(): row["prompt"] for row in _rows(place)}
    for row in table:
        assert row["prompt"] == f"<image>{asked[Image.open(place / 'run' / row['images'][0]).tobytes()]}"

    log = read_log("run")
    assert len({*log.codes("prompt").tolist()}) == len(shown) > len({*log.texts("prompt_text", range(len(log)))})
    groups = explain_groups(log).groups
    assert {(group["step"], *group["pictures"]) for group in groups} == {(row["step"], *row["images"]) for row in table}
    assert len(embedded(Path("run"), groups, 10**6)) == len(shown)


def _rows(place: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (place / "data" / "drawn.jsonl").read_text().splitlines()]
    return [{**row, "image": place / "data" / row["image"]} for row in rows]


@pytest.mark.parametrize("options", [[], ["minibatches=2", "num_iterations=2"], ["eval.every=1"]], ids=str)
def test_a_picture_that_goes_missing_names_its_problem_and_loses_nothing(place: Path, options: list[str]) -> None:
    train(load("drawn.yaml", ["output=whole", *options]))
    sys.modules.pop("picture_rewards")
    Path("vanish").touch()
    with pytest.raises(PictureError, match=r"problem 'p\d+': .*No such file.*continue with: upside train run/recipe"):
        train(load("drawn.yaml", options))
    done = len(steps("run"))
    assert 0 < done < 4
    shutil.move("elsewhere", "data/pictures")
    Path("vanish").unlink()
    train(load("run/recipe.yaml", ["resume=true"]))
    assert steps("run") == steps("whole")
    run, whole = (RunFolder(Path(folder)).summary() for folder in ("run", "whole"))
    assert [run.get(key) for key in ("during", "after")] == [whole.get(key) for key in ("during", "after")]
    assert len(run.get("during", [])) == (3 if "eval.every=1" in options else 0)


def test_two_processes_stop_together_where_a_picture_goes_missing(place: Path) -> None:
    count = "calls.count(8) == 2 and os.environ['RANK'] == '1'"  # each process scores half of the batch
    Path("picture_rewards.py").write_text("import os\n" + REWARDS.replace("calls.count(16) == 2", count))
    Path("vanish").touch()
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run(
        [*launcher, "-m", "upside.cli", "train", "drawn.yaml", "eval.problems=0"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode
    assert re.search(r"process \d: problem 'p\d+': .*\(No such file or directory\); put it back", done.stderr), (
        done.stderr
    )
    assert len(steps("run")) == RunFolder(Path("run")).steps_done(load("run/recipe.yaml")) > 0


def test_pictures_are_loaded_once_for_all_parts_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = load_task("shapes").problems("train", 3)
    rows, asked = prompt_rows(problems, [0, 1, 2], load_reader("bundled_vision")), []
    monkeypatch.setattr("upside.training.prompts.loaded", lambda problem: asked.append(problem) or [])
    for part in ([0, 0, 1], [0, 0, 1], [1, 2]):
        assert len(rows[part]["images"]) == len(part)
    assert len(asked) == 3


def test_several_processes_take_no_problems_with_and_without_pictures(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = Path("data/drawn.jsonl").read_text().splitlines()
    lines[4] = json.dumps({**json.loads(lines[4]), "image": []})
    Path("data/drawn.jsonl").write_text("\n".join(lines))
    recipe = load("drawn.yaml", ["task_options.test_share=0", "eval.problems=0"])
    reader = load_reader(recipe.model)
    assert any(not problem.images for problem in setup.load_problems(recipe, reader).train)
    monkeypatch.setattr(setup, "size", lambda: 2)
    with pytest.raises(RecipeError, match=r"problem 'p4' has no picture, 'p\d+' has; with several processes"):
        setup.load_problems(recipe, reader)


def test_a_bad_picture_is_told_before_training(place: Path) -> None:
    Path("data/pictures/5.png").write_bytes(Path("data/pictures/5.png").read_bytes()[:100])
    with pytest.raises(PictureError, match=r"problem 'p5': .*line 6, field 'image'.*damaged or cut off"):
        train(load("drawn.yaml"))
    assert not Path("run").exists()


def test_a_model_of_text_alone_is_not_asked_blind(place: Path, model: Path) -> None:
    with pytest.raises(PictureError, match="the model takes text alone; use a model that sees, such as bundled_vision"):
        train(load("drawn.yaml", [f"model={model}"]))


def test_a_model_that_sees_trains_on_text(place: Path) -> None:
    rows = [{"prompt": f"{a}+{b}=", "answer": str(a + b)} for a in range(6) for b in range(6)]
    Path("sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    summary = train(
        load("drawn.yaml", ["task=sums.jsonl", "task_options.image=null", "task_options.id=null", "steps=2"])
    )
    assert summary["steps"] == 2
    assert "images" not in pyarrow.parquet.read_table("run/rollouts").column_names
