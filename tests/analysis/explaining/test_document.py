"""docs/explain.md: its Python prints what it says, its kinds are the ones there are, its options exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from upside.analysis.explaining import KINDS
from upside.cli.explain import explain

TEXT = (Path(__file__).parents[3] / "docs" / "explain.md").read_text(encoding="utf-8")


def test_the_python_prints_what_stands_below_it() -> None:
    pairs = re.findall(r"```python\n((?:(?!```).)*)```\n\n```\n(.*?)```", TEXT, flags=re.S)
    assert len(pairs) == 2
    for code, printed in pairs:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert done.stdout == printed


def test_kinds() -> None:
    assert dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", TEXT, flags=re.M)) == KINDS


def test_options() -> None:
    known = {name for parameter in explain.params for name in parameter.opts}
    commands = " ".join(re.findall(r"^upside explain.*", TEXT, flags=re.M))
    assert set(re.findall(r"--[a-z]+", commands)) <= known
