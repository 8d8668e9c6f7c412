"""docs/data.md: its Python runs, its dry runs pass, its tables are whole."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from upside.cli import main
from upside.tasks.presets import PRESETS
from upside.tasks.rows import RowOptions
from upside.tasks.templates import TEMPLATES

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
def test_the_examples_run(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/data.md", "exec"), {"__name__": "example"})


@pytest.mark.parametrize("command", re.findall(r"^upside (.*)$", TEXT, re.MULTILINE))
def test_the_commands_run(command, monkeypatch):
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(main, shlex.split(command))
    assert result.exit_code == 0, result.output


def test_every_option_preset_and_template_is_described():
    for name in [*PRESETS, *TEMPLATES, *RowOptions.__dataclass_fields__]:
        assert f"`{name}`" in TEXT, name
