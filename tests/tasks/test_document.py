"""docs/data.md and docs/shapes.md: their Python runs, the dry runs pass, the tables are whole."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from upside.cli import main
from upside.tasks.presets import PRESETS
from upside.tasks.row_options import RowOptions
from upside.tasks.shapes import FAMILIES, Shapes
from upside.tasks.shapes.families import configurations
from upside.tasks.shapes.rules import RIGHT, WRONG
from upside.tasks.templates import TEMPLATES

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
SHAPES = (ROOT / "docs" / "shapes.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", TEXT + SHAPES, re.DOTALL))
def test_the_examples_run(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs", "exec"), {"__name__": "example"})


@pytest.mark.parametrize("command", re.findall(r"^upside (.*)$", TEXT, re.MULTILINE))
def test_the_commands_run(command, monkeypatch):
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(main, shlex.split(command))
    assert result.exit_code == 0, result.output


def test_every_option_preset_and_template_is_described():
    for name in [*PRESETS, *TEMPLATES, *RowOptions.__dataclass_fields__]:
        assert f"`{name}`" in TEXT, name


def test_the_figures_of_the_shapes():
    for family in FAMILIES:
        keys = {each.key: each.held_out for each in configurations(family)}
        row = next(
            line for line in SHAPES.splitlines() if line.startswith(f"| `{family}`") and re.search(r"0\.\d", line)
        )
        numbers = [int(found) for found in re.findall(r"\d+", row)[:2]]
        assert numbers == [len(keys), sum(keys.values())], family
        for split in ("train", "test"):
            for question, chance in Shapes(family).chance(split).items():
                assert question == "all" or f"{chance:.2f}" in row, (family, question)
    every = {each.key: each.held_out for family in FAMILIES for each in configurations(family)}
    assert f"| all of `shapes` | {len(every)} | {sum(every.values())} |" in SHAPES
    overall = [f"{Shapes().chance(split)['all']:.3f}" for split in ("train", "test")]
    assert " | ".join(overall) in SHAPES
    assert all(f"| `{rule}` |" in SHAPES for rules in [*RIGHT.values(), *WRONG.values()] for rule in rules)
