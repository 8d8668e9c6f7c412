"""docs/compare.md: its commands are ones, its Python calls what is there."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest

from upside.analysis import compare
from upside.analysis.comparison.result import Comparison
from upside.cli import main

TEXT = (Path(__file__).parents[3] / "docs" / "compare.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```bash\n(.*?)```", TEXT, re.DOTALL)
    for line in block.replace("\\\n", "").splitlines()
]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_parse(line: str) -> None:
    name, *arguments = shlex.split(line)[1:]
    assert main.commands[name].make_context(name, arguments)


def test_the_python_calls_what_is_there() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    call = next(node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call))
    given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    inspect.signature(compare).bind(*map(ast.literal_eval, call.args), **given)
    named = set(re.findall(r"found\.(\w+)", TEXT))
    assert named <= {field.name for field in fields(Comparison)} | {"pair", "sections"}
