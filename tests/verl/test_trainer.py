"""What the trainer refuses before anything is started; its work is under test in test_end_to_end.py."""

import pytest
from omegaconf import OmegaConf
from verl.trainer.ppo.v1 import PPOTrainerSync, get_trainer_cls

from upside.engines.verl.trainer import UpsideTrainer


def test_verl_knows_it_by_name():
    assert get_trainer_cls("upside") is UpsideTrainer
    assert issubclass(UpsideTrainer, PPOTrainerSync)


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (
            {"adv_estimator": "upside_canon_inter", "rollout_correction": {"bypass_mode": True}},
            "needs entropy, which verl does not compute with algorithm.rollout_correction.bypass_mode",
        ),
        ({"adv_estimator": "grpo", "upside": {"spec": "rloo"}}, "adv_estimator=grpo is verl's own"),
        ({"adv_estimator": "upside"}, "needs an estimator"),
        ({"adv_estimator": "upside_canon", "upside": {"options": {"mu": 2}}}, "mu=2 must lie in"),
    ],
)
def test_what_it_refuses(algorithm, message):
    config = OmegaConf.create({"algorithm": algorithm, "trainer": {"v1": {"trainer_mode": "upside"}}})
    with pytest.raises(ValueError, match=message):
        UpsideTrainer(config)
