"""One saved batch of rollouts gives the same advantages in the core and in the TRL engine, whatever the preset."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import parity
import pytest

import upside


def check(found: dict[str, list[float]]) -> None:
    batch = upside.Rollouts(**parity.BATCH)
    assert set(found) == set(upside.presets())
    for name, values in found.items():
        expected = upside.estimator(name)(batch).values.tolist()
        assert values == pytest.approx(expected, abs=1e-6), name
        assert max(map(abs, values)) > 0, name


def test_one_process(model: Path, tmp_path: Path) -> None:
    check(parity.advantages(str(model), tmp_path))


def test_two_processes(model: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", parity.__file__]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [*command, str(model), str(tmp_path)], capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = (json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2))
    assert [len(first["grpo"]), len(second["grpo"])] == [10, 10]  # group p2 straddles the two
    check({name: first[name] + second[name] for name in first})
