from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest


@pytest.fixture
def workplace(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a recipe, a data file and a reward of its own; the working folder of the test."""
    rows = [{"prompt": f"{a}+{b}=", "answer": str(a + b)} for a in range(8) for b in range(8)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "tiny_rewards.py").write_text(
        "def low_bytes(responses):\n"
        "    return [sum(ord(c) % 256 for c in text) / (1 + len(text)) / 256 for text in responses]\n\n\n"
        "def broken(responses):\n"
        "    raise RuntimeError('no scorer')\n\n\n"
        "calls = []\n\n\n"
        "def moody(responses):\n"
        "    from pathlib import Path\n"
        "    if len(responses) > 1:\n"
        "        calls.append(1)\n"
        "    if Path('moody').exists() and len(calls) >= 12 + 10:\n"
        "        raise RuntimeError('moody')\n"
        "    return low_bytes(responses)\n"
    )
    (tmp_path / "small.yaml").write_text(
        f"name: small\nmodel: {model}\ntask: sums.jsonl\n"
        "rewards:\n  - verdict\n  - {name: 'python:tiny_rewards:low_bytes', weight: 2.0}\n"
        "estimator: canon:metric=length,mu=0.4 > adora_weight\n"
        "steps: 6\nprompts_per_step: 4\ngroup_size: 4\nmax_new_tokens: 10\nlr: 1e-2\nsave_every: 3\n"
        "threads: 1\nlength_buckets: 2\neval: {problems: 6, samples: 2}\noutput: run\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "tiny_rewards", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path
