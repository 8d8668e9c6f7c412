"""docs/doctor.md: its commands are ones, its Python runs, its tables are the code's."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from upside.analysis.doctor import CHECKS
from upside.analysis.doctor.live import EVERY, SKIPPED, WINDOW
from upside.cli import main

TEXT = (Path(__file__).parents[3] / "docs" / "doctor.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_parse(line: str) -> None:
    name, *arguments = shlex.split(line)[1:]
    main.commands[name].make_context(name, arguments)
    for option, names in re.findall(r"--(only|skip|set) (\S+)", line):
        for each in names.split(","):
            check, _, limit = each.partition("=")[0].partition(".")
            assert check in CHECKS
            assert option != "set" or limit in CHECKS[check].limits


def test_the_tables_are_the_register() -> None:
    rows = re.findall(r"^\| `(\w+)`: (.*) \|$", TEXT, re.MULTILINE)
    assert [name for name, _ in rows] == list(CHECKS)
    for name, row in rows:
        check = CHECKS[name]
        cells = (check.title, check.looks_at, check.rule.format(**check.limits), check.remedy)
        assert row == " | ".join(cell.replace("|", "\\|") for cell in cells), name


def test_the_live_numbers() -> None:
    assert f"Every {EVERY} steps" in TEXT
    assert f"rollouts of the last {WINDOW} steps" in " ".join(TEXT.split())
    assert all(f"`{name}`" in TEXT for name in SKIPPED)


def test_the_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs").mkdir()
    rows = [{"step": step, "reward": 0.5, "clip_share": 0.6} for step in range(1, 9)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    exec(compile(code.replace("runs/run-grpo-s0", "log.jsonl"), "docs/doctor.md", "exec"), {})
    assert capsys.readouterr().out.startswith("clip_share 60.0% recently")
