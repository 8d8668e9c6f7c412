"""Chains: what may follow what, spec strings there and back, what a stage may return, state."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

import upside
from upside import Rollouts, StageOutput

BATCH = {
    "rewards": [1, 0, 0, 1, 0],
    "groups": list("aabbb"),
    "lengths": [5, 3, 4, 9, 2],
    "entropy": [0.1, 0.2, 0.3, 0.4, 0.5],
    "reference_rewards": [0, 0, 1, 0, 1],
}


def run(estimator, **more):
    return upside.estimator(estimator)(Rollouts(**BATCH | more)).values


# ---- order --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("adora_weight", "starts with adora_weight, which is no baseline; start with one, such as grpo"),
        ("group_std > group_mean", "starts with group_std, which is no baseline"),
        ("grpo > rloo", "has a second baseline, leave_one_out: .* stands first, once"),
        ("canon > adora", "has a second baseline, group_mean"),
        ("grpo > adora_weight > whiten", r"normalises \(whiten\) after a weight \(adora_weight\).*put the weight last"),
        ("dr_grpo > adora_weight > reference_margin > group_std", r"normalises \(group_std\) after a weight"),
        ("dapo > gpg_rescale", r"normalises \(gpg_rescale\) after a weight \(mask_truncated\)"),
    ],
)
def test_an_order_that_cannot_be_meant(spec, message):
    with pytest.raises(ValueError, match=message):
        upside.estimator(spec)


def test_a_chain_of_nothing():
    with pytest.raises(ValueError, match="starts with nothing"):
        upside.chain()


def test_parts_of_a_chain_may_be_names_specs_stages_and_estimators():
    spec = "grpo:eps=1e-06 > reference_margin:low=-0.1 > adora_weight:mode=amplify"
    weight = upside.stage("adora_weight", mode="amplify")
    built = [
        upside.estimator(spec),
        upside.chain("grpo:eps=1e-6", "reference_margin:low=-0.1", weight),
        upside.chain(upside.estimator("grpo", eps=1e-6), upside.stage("reference_margin", low=-0.1), weight),
        upside.chain("grpo:eps=1e-6 > reference_margin:low=-0.1", weight),
        upside.estimator(upside.estimator(spec)),
    ]
    assert {str(estimator) for estimator in built} == {spec}
    assert len(set(built)) == 1
    assert all(torch.equal(run(estimator), run(spec)) for estimator in built)


def test_a_chain_takes_no_bare_function():
    with pytest.raises(ValueError, match=r"neither a name, a stage nor an estimator; register a function with"):
        upside.chain("grpo", lambda rollouts, advantages: advantages)


def test_a_preset_is_the_chain_it_says():
    assert torch.equal(run("grpo"), run("group_mean > group_std"))
    assert torch.equal(run("aapo"), run("group_mean > group_std > reference_margin"))
    assert torch.equal(run("adora"), run("group_mean > group_std:eps=1e-6 > adora_weight"))
    assert torch.equal(run("gpg"), run("group_mean > gpg_rescale"))


def test_a_chain_no_paper_has_tried():
    first = run("canon")
    margin = torch.tensor([0.28, 0, -0.2, 0.28, -0.2])
    weight = torch.tensor([1, 1, 1, 1, 1.0])  # both successes are longer than their failures
    assert torch.allclose(run("canon > reference_margin > adora_weight"), weight * (first + margin))


# ---- spec strings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        "grpo",
        "canon:metric=length,mu=0.5,alpha=0.96",
        "aapo:low=none,high=none,scale_by_std=false",
        "grpo:eps=1e-09,ddof=0",
        "canon:mu=cosine_first_inter(total=300,warmup=60)",
        "canon:mu=linear(start=1,end=0.2,over=40),beta=0.1 > reference_margin > adora_weight:mode=attenuate,tau=0.25",
        "adora:compat=released_llm,truncation_length=4054",
    ],
)
def test_text_there_and_back(spec):
    assert str(upside.estimator(spec)) == spec


def test_text_is_read_generously():
    assert upside.estimator("  canon :metric = length , mu=.5>adora_weight").spec == (
        "canon:metric=length,mu=0.5 > adora_weight"
    )
    assert upside.estimator("aapo:low=None,scale_by_std=TRUE").spec == "aapo:low=none,scale_by_std=true"


def test_options_of_the_call_join_those_of_the_text():
    assert upside.estimator("canon:metric=length", mu=0.5).spec == "canon:metric=length,mu=0.5"
    schedule = upside.schedules.CosineFirstInter(total=300, warmup=60)
    assert upside.estimator("canon", mu=schedule).spec == "canon:mu=cosine_first_inter(total=300,warmup=60)"


def test_numbers_of_numpy_are_options():
    assert upside.estimator("grpo", eps=np.float32(0.5), ddof=np.int64(0)).spec == "grpo:eps=0.5,ddof=0"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("gpro", "unknown estimator or stage 'gpro'. Did you mean 'grpo'"),
        ("grpo > adora_wieght", "unknown estimator or stage 'adora_wieght'. Did you mean 'adora_weight'"),
        ("xyzzy", r"unknown estimator or stage 'xyzzy'. Known: .*canon.*grpo"),
        ("GRPO", "unknown estimator or stage 'GRPO'. Did you mean 'grpo'"),
        ("canon:mju=0.5", "canon has no option 'mju'. Did you mean 'mu'"),
        ("canon:metric=length,alfa=1", "canon has no option 'alfa'. Did you mean 'alpha'"),
        ("grpo > ", "an empty link"),
        ("", "an empty link"),
        ("grpo >> rloo", "an empty link"),
        ("canon:", "no option after ':'"),
        ("canon:mu", "cannot read option 'mu' of 'canon:mu'; write option=value"),
        ("canon:mu=", "cannot read option 'mu='"),
        ("canon:=3", "cannot read option '=3'"),
        ("canon:mu=0.5,mu=0.6", "option 'mu' stands twice"),
        ("canon mu=0.5", "cannot read 'canon mu=0.5'; write name:option=value"),
        ("canon(mu=0.5)", "cannot read"),
        ("canon:mu=high", "unknown schedule 'high'"),
        ("canon:mu=cosine_first_intr", "unknown schedule 'cosine_first_intr'. Did you mean 'cosine_first_intra'"),
        ("canon:mu=cosine(totl=3)", "schedule 'cosine' has no option 'totl'. Did you mean 'total'"),
        ("canon:mu=cosine(total=3", "cannot read 'cosine"),
        ("canon:alpha=much", "canon: option alpha='much' must be a finite number"),
        ("aapo:pairing=group", "aapo: option pairing='group' must be one of 'row', 'group_mean'"),
    ],
)
def test_a_typo_is_named(spec, message):
    with pytest.raises(ValueError, match=message):
        upside.estimator(spec)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: upside.estimator("grpo > adora_weight", eps=1), r"options \['eps'\] have no stage to go to"),
        (lambda: upside.estimator("canon:mu=0.5", mu=0.4), r"options \['mu'\] stand both in"),
        (lambda: upside.estimator(upside.estimator("grpo"), eps=1), r"already built; give options \['eps'\]"),
        (lambda: upside.estimator(None), "expected a name or a spec string, got None"),
        (lambda: upside.estimator("grpo")([1, 0]), r"expected an upside\.Rollouts, got list"),
        (lambda: upside.explain("grpo", {"rewards": [1, 0]}), r"expected an upside\.Rollouts, got dict"),
        (lambda: upside.stage("group_men"), "stage 'group_men' is unknown. Did you mean 'group_mean'"),
        (lambda: upside.stage("grpo"), "stage 'grpo' is a preset, not a stage: give its name to upside.chain"),
        (lambda: upside.stage("group_std", epsilon=1), "group_std has no option 'epsilon'. Did you mean 'eps'"),
        (lambda: upside.estimator("canon", metric="a>b"), "cannot stand in a spec string"),
        (lambda: upside.estimator("canon", metric="a>b(c)"), "cannot stand in a spec string"),
        (lambda: upside.estimator("canon", metric="a(b,c"), "cannot stand in a spec string"),
        (lambda: upside.estimator("canon", metric="12"), "cannot stand in a spec string"),
    ],
)
def test_a_call_that_cannot_be_meant(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---- what a stage hands back --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda r, a: a[:-1], r"stage bad returned \(4,\); expected a tensor of shape \(5,\)"),
        (lambda r, a: a[:, None], r"stage bad returned \(5, 1\)"),
        (lambda r, a: None, r"stage bad returned NoneType"),
        (lambda r, a: a.tolist(), r"stage bad returned list"),
        (lambda r, a: a / 0, r"stage bad gave (inf|-inf|nan) to row 0; look at its options and that row's fields"),
        (lambda r, a: torch.where(a < 0, torch.nan, a), r"stage bad gave nan to row 1"),
        (lambda r, a: a * 1e300, r"stage bad gave -?[0-9.]+e\+\d+ to row 0"),  # no float32
        (lambda r, a: StageOutput(a[:2]), r"stage bad returned \(2,\)"),
    ],
)
def test_a_stage_that_returns_nonsense_is_named(names, answer, message):
    upside.register_stage("bad")(answer)
    with pytest.raises(ValueError, match=message):
        run("dr_grpo > bad")


def test_a_batch_without_any_reward():
    rollouts = upside.Rollouts([None, None], [0, 0], lengths=[1, 2])
    with pytest.warns(UserWarning, match="no response of the batch has a reward; every advantage is 0"):
        result = upside.estimator("adora")(rollouts)
    assert result.values.tolist() == [0, 0]
    assert all(math.isfinite(value) for value in result.metrics.values())


def test_a_stage_may_work_in_place(names):
    @upside.register_stage("doubled")
    def doubled(rollouts, advantages):
        return advantages.mul_(2)

    @upside.register_stage("raw_doubled", kind="baseline")
    def raw_doubled(rollouts, advantages):
        return advantages.mul_(2)

    batch = Rollouts(**BATCH)
    for spec in ("dr_grpo > doubled", "raw_doubled"):
        first = upside.estimator(spec)(batch).values
        assert torch.equal(upside.estimator(spec)(batch).values, first)
    assert batch.scores.tolist() == BATCH["rewards"]
    rows = upside.explain("dr_grpo > doubled", batch)
    assert [2 * row["after_group_mean"] for row in rows] == [row["advantage"] for row in rows]


def test_what_a_stage_says_about_invalid_rows_is_dropped(names):
    upside.register_stage("plus_one")(lambda rollouts, advantages: advantages + 1)
    assert run("dr_grpo > plus_one", valid=[True, True, True, True, False]).tolist() == [1.5, 0.5, 0.5, 1.5, 0]


def test_values_come_back_as_float32_with_plain_metrics():
    result = upside.estimator("grpo")(Rollouts(**BATCH))
    assert result.values.dtype == torch.float32
    assert result.values.device == Rollouts(**BATCH).device
    assert {type(value) for value in result.metrics.values()} == {float}


# ---- state --------------------------------------------------------------------------------------------------


@dataclass
class RunningMean:
    """A baseline that remembers the mean reward of the batches it was trained on."""

    decay: float = 0.5
    value: float = field(default=0.0, init=False)

    def __call__(self, rollouts, advantages):
        result = advantages - self.value
        if rollouts.training:
            self.value = self.decay * self.value + (1 - self.decay) * float(rollouts.scores.mean())
        return result

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]


def test_state_there_and_back(names):
    upside.register_stage("running_mean", kind="baseline", group_relative=False)(RunningMean)
    estimator = upside.estimator("running_mean:decay=0.75 > reference_margin")
    assert estimator.state_dict() == {"0:running_mean": {"value": 0.0}}
    assert run(estimator, training=False).tolist() == run(estimator, training=False).tolist()
    run(estimator)
    saved = estimator.state_dict()
    assert saved == {"0:running_mean": {"value": pytest.approx(0.1)}}
    expected = run(estimator)
    again = upside.estimator(str(estimator))
    again.load_state_dict(saved)
    assert torch.equal(run(again), expected)


def test_state_of_another_chain_is_refused(names):
    upside.register_stage("running_mean", kind="baseline")(RunningMean)
    with pytest.raises(ValueError, match=r"state of stages \['0:running_mean'\] does not fit 'grpo', which has \[\]"):
        upside.estimator("grpo").load_state_dict({"0:running_mean": {"value": 0.0}})
    with pytest.raises(ValueError, match="does not fit"):
        upside.estimator("running_mean").load_state_dict({})


def test_two_estimators_share_no_state(names):
    upside.register_stage("running_mean", kind="baseline")(RunningMean)
    one, other = upside.estimator("running_mean"), upside.estimator("running_mean")
    run(one)
    assert other.state_dict() == {"0:running_mean": {"value": 0.0}}


def test_stages_without_state_have_none():
    estimator = upside.estimator("canon > reference_margin > adora_weight")
    assert estimator.state_dict() == {}
    estimator.load_state_dict({})


def test_an_estimator_is_opaque_to_others():
    assert upside.estimator("grpo") != "grpo"
    assert upside.estimator("grpo") != upside.estimator("grpo:eps=0.1")
