"""docs/integrations.md: its TRL script is run as it stands, with its three changed lines, and under its launcher."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENT = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", DOCUMENT, flags=re.DOTALL)
    assert found is not None
    return found[1]


def changed(script: str) -> str:
    """The script with the document's diff applied: lines that are added follow the last one that was removed."""
    lines = script.splitlines()
    at = 0
    for line in block("diff").splitlines():
        if line.startswith("-"):
            at = lines.index(line[1:])
            del lines[at]
        else:
            assert line.startswith("+")
            lines.insert(at, line[1:])
            at += 1
    return "\n".join(lines)


def run(command: list[str], folder: Path) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_three_changed_lines_alone_and_with_two_processes(tmp_path: Path) -> None:
    before, after = block("python"), changed(block("python"))
    assert len(set(after.splitlines()) - set(before.splitlines())) == 3
    assert "GRPOTrainer" not in after
    (tmp_path / "before.py").write_text(before)
    (tmp_path / "script.py").write_text(after)
    name = "advantage/canon_mu"
    assert name not in run([sys.executable, "before.py"], tmp_path)
    assert name in run([sys.executable, "script.py"], tmp_path)
    launcher = [sys.executable, "-m", "torch.distributed.run"]
    line = next(line for line in DOCUMENT.splitlines() if line.startswith("torchrun") and line.endswith("script.py"))
    assert name in run([*launcher, *shlex.split(line)[1:]], tmp_path)


@pytest.mark.slow
def test_the_commands_of_the_reference_table(tmp_path: Path) -> None:
    lines = [line for line in DOCUMENT.splitlines() if line.startswith("upside ")]
    assert [line.split()[1] for line in lines] == ["reference", "train"]
    for line in lines:
        run([sys.executable, "-m", "upside.cli", *shlex.split(line)[1:]], tmp_path)
    assert (tmp_path / "reference.parquet").is_file()


def test_files_and_links_are_there() -> None:
    for name in re.findall(r"recipes/accelerate/\w+\.yaml", DOCUMENT):
        assert (ROOT / name).is_file()
    for target in re.findall(r"\]\(([^)#:]+)\)", DOCUMENT):
        assert (ROOT / "docs" / target).exists(), target
