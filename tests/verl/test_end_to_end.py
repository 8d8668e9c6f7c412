"""verl itself, on this machine: see smoke.py. Each run starts Ray and takes a minute or two."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest
import smoke
import torch
from safetensors.torch import load_file

import upside
from upside.models import bundled

pytestmark = pytest.mark.slow

STATE = "advantage_estimator.json"


@pytest.fixture
def folder(tmp_path):
    smoke.write_data(tmp_path)
    return tmp_path


def test_canon_on_entropy_with_a_table_of_references_goes_on_after_a_kill_with_its_state(folder):
    spec = "canon:metric=entropy,mu=linear(start=1,end=0) > reference_margin > smoke_counter"
    changes = {"trainer.total_training_steps": 5, "trainer.save_freq": 2, "+algorithm.upside.reference": "table"}
    first = smoke.Run(folder, spec, **changes)
    first.until(folder / "checkpoints" / "latest_checkpointed_iteration.txt").kill()
    saved = json.loads((folder / "checkpoints" / "global_step_2" / STATE).read_text())
    assert saved == {"2:smoke_counter": {"calls": 2}}

    second = smoke.Run(folder, spec, **changes).wait()
    assert list(second.steps) == [3, 4, 5]
    assert json.loads((folder / "checkpoints" / "global_step_4" / STATE).read_text()) == {
        "2:smoke_counter": {"calls": 4}
    }
    assert [step["advantage/canon_mu"] for step in second.steps.values()] == [0.5, 0.25, 0.0]  # by step, not by call
    for step in [*first.steps.values(), *second.steps.values()]:
        assert step["advantage/groups"] == smoke.PROMPTS
        assert step["advantage/reference_missing_share"] == 0
        assert step["advantage/margin_clipped_share"] == 1  # scores of -0.5 and 1.5 against a table of 0 and 1
    assert any(step["actor/grad_norm"] > 0 for step in second.steps.values())


def test_a_recipe_with_aapo_runs_on_verl_into_the_same_run_folder(tmp_path):
    """The reference is sampled from a frozen copy on a third, fake, GPU, and scored by the recipe's rewards."""
    output = tmp_path / "run"
    command = [str(Path(sys.executable).parent / "upside"), "train", "reasoner", "--engine", "verl"]
    command += ["estimator=aapo > adora_weight", "steps=2", "prompts_per_step=8", "group_size=4", "schedule=constant"]
    command += ["max_prompt_tokens=64", "max_new_tokens=48", "eval.problems=8", "processes=2", "threads=1"]
    done = subprocess.run([*command, f"output={output}"], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "step 2/2" in done.stdout

    rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2]
    for row in rows:
        assert row["reference_missing_share"] == 0
        assert 0 < row["margin_zero_share"] < 1
        assert row["adora_mean_weight"] <= 1
        assert row["grad_norm"] > 0
        assert row["entropy"] > 0
        table = pyarrow.parquet.read_table(output / "rollouts" / f"step-{row['step']:05d}.parquet").to_pydict()
        assert len(table["response"]) == 32
        assert table["reward"] == [float(correct) for correct in table["correct"]]
        assert {reward is not None for reward in table["reference_reward"]} == {True}
        _same_as_the_core(table)
    summary = json.loads((output / "summary.json").read_text())
    assert summary["engine"] == "verl"
    assert set(summary["after"]) == {"greedy", "sampled", "accuracy"}
    assert (output / "curves.png").stat().st_size > 10_000
    changed = load_file(output / "model" / "model.safetensors")
    base = load_file(bundled() / "model.safetensors")
    assert any(not torch.equal(changed[name], value) for name, value in base.items())


def _same_as_the_core(table):
    """The advantages that were trained on are those of the core for what the file says of the responses."""
    batch = upside.Rollouts(
        table["reward"],
        table["group"],
        lengths=table["length"],
        correct=table["correct"],
        reference_rewards=table["reference_reward"],
    )
    values = upside.estimator("aapo > adora_weight")(batch).values
    assert torch.allclose(values, torch.tensor(table["advantage"]), atol=1e-6, rtol=0)
