"""Two gloo processes on the CPU give the advantages that one process gives to the same rollouts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import upside

SCRIPT = Path(__file__).with_name("two_processes.py")


def launch(model: Path, output: Path, spec: str) -> list[dict]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run(
        [*command, str(SCRIPT), str(model), str(output), spec],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((output / f"rank{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("spec", ["canon:metric=entropy,mu=0.3 > adora_weight", "aapo"])
def test_two_processes(model: Path, tmp_path: Path, spec: str) -> None:
    main, other = launch(model, tmp_path, spec)
    assert other["batches"] == []  # the main process alone reports
    assert len(main["batches"]) == 2
    assert main["weights"] == pytest.approx(other["weights"], abs=1e-9)
    for step, batch in enumerate(main["batches"]):
        values = batch.pop("values")
        prompts = batch.pop("prompts")
        assert main["local"][step] + other["local"][step] == values
        groups = batch["groups"]
        assert groups == [row // 4 for row in range(12)]  # six rows a rank: group 1 straddles the two
        assert [len({prompts[i] for i in range(12) if groups[i] == g}) for g in range(3)] == [1, 1, 1]
        again = upside.estimator(spec)(upside.Rollouts(**batch))
        assert again.values.tolist() == values
        assert max(map(abs, values)) > 0
