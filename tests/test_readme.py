"""Everything the README shows is run: its Python as one script, its commands (training as a dry run)."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import upside

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    code = "\n".join(blocks("python"))
    assert "AdvantageTrainer(" in code
    assert "register_stage" in code
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "tensor(" in done.stdout


commands = [line.split("#")[0].strip() for block in blocks("bash") for line in block.splitlines() if line.strip()]
upside_commands = [line for line in commands if line.startswith("upside ")]


def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    """In order and in one folder, as somebody would who follows it."""
    for line in upside_commands:
        arguments = shlex.split(line)[1:]
        arguments = [str(ROOT / a) if a.startswith("recipes/") else a for a in arguments]
        command = [sys.executable, "-m", "upside.cli", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{line}\n{done.stderr[-2000:]}"
        assert done.stdout.strip(), line


def test_the_readme_shows_commands_of_each_kind() -> None:
    assert {line.split()[1] for line in upside_commands} == {
        "estimators",
        "plan",
        "evaluate",
        "train",
        "tasks",
        "reference",
        "explain",
        "doctor",
        "replay",
        "microscope",
        "report",
    }


def test_the_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {line.split()[1] for line in commands if line.startswith("make ")}
    assert targets == {"demo", "test"}
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


def test_the_table_of_estimators_is_complete() -> None:
    for name in upside.presets():
        assert f"`{name}`" in README, f"README's table lacks {name}"


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
