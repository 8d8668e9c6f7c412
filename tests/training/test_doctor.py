"""`doctor=off|warn|halt` of a recipe: it changes no number, and stops a run where it is told to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from click.testing import CliRunner

from upside.cli import main
from upside.training.folder import RunFolder
from upside.training.recipe import RecipeError, load


def train(*overrides: str) -> tuple[int, str]:
    result = CliRunner().invoke(
        main, ["train", "small.yaml", "steps=12", "eval.problems=0", "max_new_tokens=2", *overrides]
    )
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


def kept(folder: str) -> tuple[list[dict[str, Any]], dict[str, list[Any]]]:
    rows = [{k: v for k, v in row.items() if "seconds" not in k} for row in RunFolder(Path(folder)).metrics()]
    return rows, pyarrow.parquet.read_table(Path(folder) / "rollouts").to_pydict()


@pytest.mark.usefixtures("workplace")
def test_a_run_is_the_same_with_and_without_and_stops_where_it_shall() -> None:
    """Two tokens are too few for an answer: a failure from the first look on."""
    assert train("doctor=off", "output=without")[0] == 0
    assert "doctor" not in RunFolder(Path("without")).summary()
    code, text = train("output=with")
    assert code == 0
    assert "doctor, step 10: fail truncation:" in text
    found = RunFolder(Path("with")).summary()["doctor"]
    assert ("truncation", "fail", 10) in [(f["check"], f["level"], f["step"]) for f in found]
    assert kept("without") == kept("with")

    code, text = train("doctor=halt", "output=halt")
    assert code == 3
    assert "stopped by the doctor: truncation: 83.8% of the recent responses are cut off" in text
    assert text.endswith("continue with: upside train halt/recipe.yaml resume=true doctor=warn")
    assert RunFolder(Path("halt")).metrics()[-1]["step"] == 11  # the step under way was finished and saved
    assert train("output=halt", "resume=true", "doctor=warn")[0] == 0
    assert kept("halt") == kept("without")


def test_off_is_a_word_here(tmp_path: Path) -> None:
    """YAML reads a bare off as false."""
    assert load(None, ["doctor=off"]).doctor == "off"
    (tmp_path / "mine.yaml").write_text("doctor: off\n")
    assert load(tmp_path / "mine.yaml").doctor == "off"
    assert load().doctor == "warn"
    with pytest.raises(RecipeError, match="doctor: 'loud' is unknown; known: off, warn, halt"):
        load(None, ["doctor=loud"])
