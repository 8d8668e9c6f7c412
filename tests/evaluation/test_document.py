"""docs/evaluation.md: its commands are ones, its Python runs, its tables of presets and files are the code's."""

import re
import shlex
from dataclasses import fields
from pathlib import Path

import click
import pytest

from upside.cli import main
from upside.evaluation import Row
from upside.evaluation.sampling import resolve

TEXT = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_parse(line):
    name, *arguments = shlex.split(line)[1:]
    context = main.commands[name].make_context(name, arguments)
    assert isinstance(context, click.Context)


def test_the_python_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    exec(compile(code, "docs/evaluation.md", "exec"), {})
    assert "Estimate(value=" in capsys.readouterr().out


def test_the_presets():
    rows = {cells[1].strip(" `()-"): cells[2:6] for line in TEXT.splitlines() if len(cells := line.split("|")) == 7}
    for at, preset in ((1, "aapo"), (2, "canon"), (3, "adora")):
        assert TEXT.count(f"`--sampling {preset}`") == 1
        found = resolve(preset)
        values = [
            rows[key][at].strip() for key in ("responses a problem (`-k", "temperature", "top-p", "max-new-tokens")
        ]
        assert values == [f"{v:g}" for v in (found.samples, found.temperature, found.top_p, found.max_new_tokens)]


def test_the_columns_are_named():
    assert all(f"`{field.name}`" in TEXT for field in fields(Row))
