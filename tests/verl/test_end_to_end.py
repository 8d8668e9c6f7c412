"""verl itself, on this machine: see smoke.py. Each run starts Ray and takes a minute or two."""

import json

import pytest
import smoke

pytestmark = pytest.mark.slow

STATE = "advantage_estimator.json"


@pytest.fixture
def folder(tmp_path):
    smoke.write_data(tmp_path)
    return tmp_path


def test_canon_on_entropy_trains_and_goes_on_after_a_kill_with_its_state(folder):
    spec = "canon:metric=entropy,mu=linear(start=1,end=0) > smoke_counter"
    changes = {"trainer.total_training_steps": 5, "trainer.save_freq": 2}
    first = smoke.Run(folder, spec, **changes)
    first.until(folder / "checkpoints" / "latest_checkpointed_iteration.txt").kill()
    saved = json.loads((folder / "checkpoints" / "global_step_2" / STATE).read_text())
    assert saved == {"1:smoke_counter": {"calls": 2}}

    second = smoke.Run(folder, spec, **changes).wait()
    assert list(second.steps) == [3, 4, 5]
    assert json.loads((folder / "checkpoints" / "global_step_4" / STATE).read_text()) == {
        "1:smoke_counter": {"calls": 4}
    }
    assert [step["advantage/canon_mu"] for step in second.steps.values()] == [0.5, 0.25, 0.0]  # by step, not by call
    for step in [*first.steps.values(), *second.steps.values()]:
        assert step["advantage/groups"] == smoke.PROMPTS
        assert step["advantage/zero_group_share"] >= step["advantage/constant_group_share"]
    assert any(step["actor/grad_norm"] > 0 for step in second.steps.values())


def test_aapo_samples_its_reference_from_a_frozen_copy(folder):
    changes = {"trainer.total_training_steps": 2, "+ray_kwargs.ray_init.num_gpus": 3}  # the third is the reference's
    run = smoke.Run(folder, "aapo > adora_weight", **changes).wait()
    assert list(run.steps) == [1, 2]
    for step in run.steps.values():
        assert step["advantage/reference_missing_share"] == 0
        assert 0 < step["advantage/margin_zero_share"] < 1
        assert step["advantage/adora_mean_weight"] <= 1
