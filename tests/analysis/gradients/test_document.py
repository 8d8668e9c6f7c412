"""docs/microscope.md: its commands are ones, the bandit's Python runs, its options and defaults are the code's."""

from __future__ import annotations

import re
from pathlib import Path

from upside.cli import main

TEXT = (Path(__file__).parents[3] / "docs" / "microscope.md").read_text(encoding="utf-8")


def test_the_bandit_runs(capsys):
    code = re.findall(r"```python\n(.*?)```", TEXT, re.S)[1]
    exec(compile(code, "docs/microscope.md", "exec"), {})
    assert "tensor([ 0.2500, -0.2500]" in capsys.readouterr().out


def test_every_option_it_names_is_one():
    known = {name for option in main.commands["microscope"].params for name in option.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT)) <= known
