import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from saved import BATCHES, core_values, supplied_fields, verl_tensors
from verl import DataProto
from verl.trainer.ppo.core_algos import get_adv_estimator_fn
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

import upside
from upside.engines.verl import plugin
from upside.engines.verl.estimators import Supply, supplied

CHAIN = "canon:metric=length,mu=0.5 > adora_weight"
EQUAL = BATCHES["equal"]


def config(**keys):
    return OmegaConf.create({"adv_estimator": "upside", "upside": keys})


def call(name, batch=EQUAL, keys=None, rows=None, **kwargs):
    """One number a response from the registered function, called as verl's `compute_advantage` does."""
    rewards, mask, uids = verl_tensors(batch, range(len(batch["rewards"])) if rows is None else rows)
    advantages, returns = get_adv_estimator_fn(name)(
        token_level_rewards=rewards,
        response_mask=mask,
        config=config(**(keys or {})),
        index=np.array(uids, dtype=object),
        **kwargs,
    )
    assert torch.equal(returns, advantages)
    assert torch.equal(advantages, advantages[:, :1] * mask)  # every generated token has it, no other token has any
    return advantages[:, 0]


def with_trainer(spec, batch, rows):
    """The same inside what Upside's trainer supplies."""
    supply = Supply(upside.estimator(spec), supplied_fields(batch, rows), range(len(rows)))
    with supplied(supply):
        return call("upside", batch, rows=rows), supply.estimate


def test_importing_verl_registers_every_preset():
    assert plugin.FAILED == {}
    assert set(plugin.REGISTERED) == {"upside", *(f"upside_{name}" for name in upside.presets())}


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("spec", [*upside.presets(), CHAIN, "canon:mu=linear > reference_margin > adora_weight"])
def test_the_core_and_the_plugin_give_the_same_advantages(spec, batch):
    n = len(batch["rewards"])
    values, estimate = with_trainer(spec, batch, range(n + 3))
    expected = torch.cat([core_values(spec, batch), torch.zeros(3)])
    assert torch.allclose(values, expected, atol=1e-6, rtol=0)
    assert expected.abs().sum() > 0
    assert estimate.rows == list(range(n))
    assert estimate.result.metrics["zero_advantage_share"] < 1


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("spec", [name for name in upside.presets() if name != "canon_random"])  # draws by row number
def test_rows_in_any_order_and_padding_anywhere(spec, batch):
    n = len(batch["rewards"]) + 5
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0)).tolist()
    expected = torch.cat([core_values(spec, batch), torch.zeros(5)])[order]
    assert torch.allclose(with_trainer(spec, batch, order)[0], expected, atol=1e-6, rtol=0)


PLAIN = [name for name in upside.presets() if upside.estimator(name).needs <= {"lengths"} and name != "canon_random"]


def test_most_presets_need_no_trainer():
    assert len(PLAIN) >= 13
    assert {"grpo", "rloo", "adora", "canon_eff", "opo", "gpg"} <= set(PLAIN)


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("name", PLAIN)
def test_presets_that_need_rewards_and_lengths_work_with_verls_own_trainers(name, batch):
    assert torch.allclose(call(f"upside_{name}", batch), core_values(name, batch, only=["lengths"]), atol=1e-6, rtol=0)


def test_verls_own_step_calls_it_and_finds_what_it_expects():
    rewards, mask, uids = verl_tensors(EQUAL, range(len(EQUAL["rewards"])))
    data = DataProto.from_dict(
        {"token_level_rewards": rewards, "response_mask": mask}, {"uid": np.array(uids, dtype=object)}
    )
    keys = [f"{uid}_{row}_0" for row, uid in enumerate(uids)]
    done = compute_advantage_for_multi_trajectories(data, keys, "upside", config=config(spec="rloo"))
    assert torch.allclose(done.batch["advantages"], core_values("rloo", EQUAL, only=[])[:, None] * mask, atol=1e-6)
    assert torch.equal(done.batch["advantages"], done.batch["returns"])


def test_the_spec_and_its_options_ride_in_verls_configuration():
    by_spec = call("upside", keys={"spec": CHAIN})
    assert torch.allclose(by_spec, core_values(CHAIN, EQUAL, only=["lengths"]), atol=1e-6)
    by_option = call("upside_canon_inter", keys={"options": {"metric": "length"}})
    assert torch.allclose(by_option, core_values("canon_inter:metric=length", EQUAL), atol=1e-6)


def test_remax_takes_verls_reward_baselines():
    values = call("upside_remax", reward_baselines=torch.tensor(EQUAL["metrics"]["baseline"]))
    assert torch.allclose(values, core_values("remax", EQUAL), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "keys", "message"),
    [
        ("upside_canon_inter", {}, "needs entropy.*trainer.v1.trainer_mode=upside"),
        ("upside_aapo", {}, "needs reference_rewards.*trainer.v1.trainer_mode=upside"),
        ("upside_dapo", {}, "needs truncated.*trainer.v1.trainer_mode=upside"),
        ("upside_remax", {}, "needs baseline"),
        ("upside", {"spec": "canon:metric=length,mu=cosine_first_inter"}, "needs the step"),
        ("upside", {"spec": "canon:metric=length,mu=linear"}, "needs total_steps, the step"),
        ("upside_canon_random", {}, "needs the step"),
        ("upside", {}, "needs an estimator: .*algorithm.upside.spec"),
        ("upside", {"spec": "gpro"}, "Did you mean 'grpo'"),
        ("upside", {"sepc": "grpo"}, "algorithm.upside has no key 'sepc'. Did you mean 'spec'"),
        ("upside_grpo", {"spec": "rloo"}, "both name an estimator"),
        ("upside_grpo", {"options": {"epz": 1.0}}, "no option 'epz'"),
        ("upside_grpo", {"options": None}, "algorithm.upside.options=None must hold keys"),
        ("upside_grpo", {"reference": "new"}, "must be one of fresh, table"),
        ("upside_grpo", {"reference_gpus": 0}, "at least 1"),
    ],
)
def test_what_cannot_work_says_what_to_choose(name, keys, message):
    with pytest.raises(ValueError, match=message):
        call(name, keys=keys)


def test_an_estimator_with_state_is_refused_where_nothing_would_save_it():
    @upside.register_stage("verl_test_counter")
    class Counter:
        def __init__(self):
            self.calls = 0

        def __call__(self, rollouts, advantages):
            self.calls += 1
            return advantages

        def state_dict(self):
            return {"calls": self.calls}

        def load_state_dict(self, state):
            self.calls = state["calls"]

    with pytest.raises(ValueError, match=r"keeps state.*trainer\.v1\.trainer_mode=upside"):
        call("upside", keys={"spec": "grpo > verl_test_counter"})


def test_outputs_of_one_session_count_once_and_share_its_advantage():
    rows = [row for row in range(len(EQUAL["rewards"])) for _ in range(2)]  # an earlier output, then the last one
    supply = Supply(upside.estimator("rloo"), {}, [i | 1 for i in range(len(rows))])
    with supplied(supply):
        values = call("upside", rows=rows)
    assert torch.allclose(values, core_values("rloo", EQUAL, only=[])[rows], atol=1e-6)


def test_a_response_with_an_empty_mask_enters_no_statistic():  # verl#6362: rejected rows stayed in the baseline
    rewards, mask = torch.tensor([[0.0, 1.0], [5.0, 5.0], [0.0, 0.0]]), torch.tensor([[1, 1], [0, 0], [1, 1]])
    fn = get_adv_estimator_fn("upside_dr_grpo")
    advantages, _ = fn(token_level_rewards=rewards, response_mask=mask, index=list("aaa"), config=None)
    assert advantages.tolist() == [[0.5, 0.5], [0.0, 0.0], [-0.5, -0.5]]


def test_singletons_are_zero_and_a_batch_of_them_is_an_error():
    fn = get_adv_estimator_fn("upside_grpo")
    rewards, mask = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]), torch.ones(3, 2)
    with pytest.warns(UserWarning, match="single response"):
        advantages, _ = fn(token_level_rewards=rewards * 1.0, response_mask=mask, index=["a", "a", "b"], config=None)
    assert advantages[2].tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="holds a single response"):
        fn(token_level_rewards=rewards, response_mask=mask, index=["a", "b", "c"], config=None)


def test_a_nan_score_is_no_score_and_nothing_but_padding_is_zero():
    fn = get_adv_estimator_fn("upside_dr_grpo")
    rewards = torch.tensor([[0.0, 1.0], [0.0, torch.nan], [0.0, 0.0]], dtype=torch.bfloat16)
    advantages, _ = fn(
        token_level_rewards=rewards, response_mask=torch.ones(3, 2).long(), index=list("aaa"), config=None
    )
    assert advantages.dtype == torch.bfloat16
    assert advantages.tolist() == [[0.5, 0.5], [0.0, 0.0], [-0.5, -0.5]]
    empty, _ = fn(token_level_rewards=torch.zeros(2, 3), response_mask=torch.zeros(2, 3), index=["p", "p"], config=None)
    assert empty.tolist() == [[0.0] * 3] * 2


def test_missing_uids_are_an_error():
    with pytest.raises(ValueError, match="gave no uids"):
        get_adv_estimator_fn("upside_grpo")(token_level_rewards=torch.zeros(1, 1), response_mask=torch.ones(1, 1))
