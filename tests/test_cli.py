"""The command line as a user types it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import upside
from upside.cli import main
from upside.training.folder import RunFolder, resume_command


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_help_lists_the_commands() -> None:
    text = call("--help").output
    assert all(name in text for name in ("train", "evaluate", "estimators", "plan"))


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom upside.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print([m for m in ('transformers', 'trl', 'datasets', 'matplotlib', 'omegaconf') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_estimators_lists_every_preset() -> None:
    lines = call("estimators").output.splitlines()
    assert all(name in lines for name in upside.presets())
    assert sum(line.startswith("  formula  ") for line in lines) == len(upside.presets())
    assert all(len(line) > len("  source   ") for line in lines if line.startswith("  source"))


def test_one_estimator_with_its_options() -> None:
    text = call("estimators", "aapo").output
    assert "needs    reference_rewards" in text
    assert "option   high = 0.28" in text


def test_unknown_estimator() -> None:
    result = call("estimators", "apo")
    assert result.exit_code == 2
    assert "'aapo'" in result.output
    assert len(result.output.splitlines()) == 1


def test_plan() -> None:
    text = call("plan", "--pass-rate", "0.2", "--group-size", "8").output
    assert f"{0.2**8 + 0.8**8:.4f}" in text
    assert f"{0.2**8 * 0.2 + 0.8**8 * 0.8:.4f}" in text
    assert f"{(0.2 * 0.2) ** 8 + (0.8 * 0.8) ** 8:.4f}" in text
    assert "of 16 prompts a step, 2.7 are dead and 13.3 teach" in text


def test_plan_with_a_reference_of_its_own() -> None:
    text = call("plan", "--pass-rate", "0.9", "--group-size", "6", "--reference-pass-rate", "0.5").output
    assert "0.5314" in text
    assert "0.2657" in text
    assert "0.0083" in text


@pytest.mark.parametrize(
    "arguments", [("--pass-rate", "1.2", "--group-size", "8"), ("--pass-rate", "0.2", "--group-size", "0")]
)
def test_plan_out_of_range(arguments: tuple[str, ...]) -> None:
    result = call("plan", *arguments)
    assert result.exit_code == 2
    assert "Error: " in result.output


def test_dry_run_prints_a_recipe_that_loads(tmp_path: Path) -> None:
    result = call("train", "papers/canon_dynamic_7b", "seed=7", "--dry-run")
    assert result.exit_code == 0, result.output
    path = tmp_path / "again.yaml"
    path.write_text(result.output)
    again = call("train", str(path), "--dry-run")
    assert again.output == result.output
    assert "seed: 7" in result.output
    assert "needs entropy" in result.output


def test_a_recipe_path_may_hold_an_equals_sign(tmp_path: Path) -> None:
    """As the default folder of a run does: runs/reasoner-canon-metric=length-s0."""
    folder = tmp_path / "canon-metric=length mu=1"
    folder.mkdir()
    (folder / "recipe.yaml").write_text("seed: 7\n")
    result = call("train", str(folder / "recipe.yaml"), "steps=3", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "seed: 7" in result.output
    assert "steps: 3" in result.output
    command = resume_command(RunFolder(folder))
    assert shlex.split(command) == ["upside", "train", str(folder / "recipe.yaml"), "resume=true"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "stepz=3", "--dry-run"), "unknown key 'stepz'; did you mean 'steps'?"),
        (("train", "nowhere.yaml"), "no recipe file nowhere.yaml"),
        (("train", "estimator=grppo", "--dry-run"), "Did you mean 'grpo'"),
        (("train", "steps=3", "recipe.yaml"), "cannot read 'recipe.yaml'; write key=value"),
        (("evaluate", "no/such/folder", "--problems", "2"), "no/such/folder"),
        (("evaluate", "--option", "novalue"), "cannot read 'novalue'; write KEY=VALUE"),
        (("evaluate", "--data", "x" * 5000), "File name too long"),
    ],
)
def test_errors_are_one_line_and_exit_code_two(arguments: tuple[str, ...], message: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert result.output.startswith("Error: ")
    assert len(result.output.strip().splitlines()) == 1


def test_evaluate_a_model_folder(tmp_path: Path) -> None:
    sys.path.insert(0, str(Path(__file__).parent / "engines"))
    import tiny

    folder = tiny.model_folder(tmp_path / "model")
    arguments = ["--task", "arithmetic", "--problems", "3", "--samples", "2", "--max-new-tokens", "4", "--threads", "1"]
    result = call("evaluate", str(folder), *arguments, "--output", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "evaluation.json").exists()
    again = call("evaluate", str(folder), *arguments, "--output", str(tmp_path / "out"))
    assert again.exit_code == 0
    assert "holds this evaluation, finished" in again.output
    other = call("evaluate", str(folder), *arguments, "--seed", "1", "--output", str(tmp_path / "out"))
    assert other.exit_code == 2
    assert "other settings: seed is 0 there, 1 here" in other.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-k", "4", "--pass-at", "1,8"], "pass@8 needs at least 8 responses a problem, got samples=4"),
        (["--pass-at", "1,x"], "--pass-at: cannot read 'x'; write whole numbers"),
        (["--sampling", "adoro"], "did you mean 'adora'"),
        (["--data", "knights", "--option", "knight.levels=1"], "did you mean 'knights'"),
        (["--threads", "-3"], "-3 is not in the range x>=1"),
    ],
)
def test_evaluate_refuses_before_it_loads_a_model(arguments: list[str], message: str) -> None:
    result = call("evaluate", "no/such/model", *arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_debug_shows_the_traceback() -> None:
    result = call("--debug", "train", "stepz=3")
    assert result.exit_code == 1
    assert type(result.exception).__name__ == "RecipeError"
