"""docs/replay.md: its commands are ones, its Python runs, its names of columns are the reader's."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from upside.analysis.logs.columns import NAMES
from upside.cli import main

TEXT = (Path(__file__).parents[3] / "docs" / "replay.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_parse(line: str) -> None:
    name, *arguments = shlex.split(line)[1:]
    assert main.commands[name].make_context(name, arguments)


def test_the_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"uid": row // 4, "reward": row % 3 / 2, "length": row, "entropy": row % 5} for row in range(16)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    exec(compile(code.replace("runs/aapo", "a.jsonl"), "docs/replay.md", "exec"), {})
    assert "{}" in capsys.readouterr().out  # nothing left out


def test_the_names() -> None:
    for meaning, names in NAMES.items():
        (row,) = re.findall(rf"^\| {meaning} \| (.*?) \|$", TEXT, re.MULTILINE)
        assert re.findall(r"`(\w+)`", row.split(";")[0]) == list(names)
