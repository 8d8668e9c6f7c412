from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

STAGE = '''
import time
from pathlib import Path

import upside


@upside.register_stage("shorter", kind="weight", needs={"lengths"})
def shorter(rollouts, advantages, *, strength: float = 0.1, fails: bool = False):
    """Answers shorter than their group's mean count more; fails: raise at step 3."""
    if fails and rollouts.step == 3:
        raise RuntimeError("no idea any more")
    if rollouts.training and Path("slow").exists():
        time.sleep(0.4)
    groups = rollouts.grouping
    return advantages * (1 + strength * (rollouts.lengths < groups.spread(groups.mean(rollouts.lengths))))
'''

Command = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="session")
def workplace(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small recipe, its data, and an installed package that registers a stage of its own."""
    path = tmp_path_factory.mktemp("comparison")
    rows = [{"prompt": f"{a}+{b}=", "answer": str(a + b)} for a in range(8) for b in range(8)]
    (path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (path / "small.yaml").write_text(
        f"name: small\nmodel: {model}\ntask: sums.jsonl\nrewards: ['python:tiny_rewards:low_bytes']\n"
        "steps: 6\nprompts_per_step: 4\ngroup_size: 4\nmax_new_tokens: 10\nlr: 1e-2\nsave_every: 2\n"
        "eval: {problems: 6, samples: 2, every: 2}\n"
    )
    (path / "tiny_rewards.py").write_text(
        "def low_bytes(responses):\n"
        "    return [sum(ord(c) % 256 for c in text) / (1 + len(text)) / 256 for text in responses]\n"
    )
    site = path / "site"
    (site / "idea-0.1.dist-info").mkdir(parents=True)
    (site / "idea.py").write_text(STAGE)
    (site / "idea-0.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: idea\nVersion: 0.1\n")
    (site / "idea-0.1.dist-info" / "entry_points.txt").write_text("[upside.stages]\nidea = idea\n")
    return path


@pytest.fixture(scope="session")
def command(workplace: Path) -> Command:
    """`upside compare small.yaml …` as a process of its own, in the workplace."""

    def start(*arguments: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "upside.cli", "compare", "small.yaml", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(workplace / "site")}
        return subprocess.Popen(
            words, cwd=workplace, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    return start


ESTIMATORS = ("--estimators", "grpo", "--estimators", "idea=grpo > shorter:strength=0.5", "--seeds", "1")


@pytest.fixture(scope="session")
def whole(workplace: Path, command: Command) -> tuple[Path, str]:
    """A comparison that nothing interrupted: its folder and what it printed."""
    process = command(*ESTIMATORS, "--jobs", "2", "--output", "whole")
    text = process.communicate(timeout=300)[0]
    assert process.returncode == 0, text
    return workplace / "whole", text
