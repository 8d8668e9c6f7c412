"""check_estimator finds each kind of fault, in a stage made to have it."""

import pytest
import torch

import upside
from upside.testing import RULES, check_estimator


def broken(spec, **more):
    return {check.rule for check in check_estimator(spec, raise_errors=False, **more) if not check.passed}


def test_a_good_estimator_breaks_nothing():
    checks = check_estimator("canon > reference_margin > adora_weight")
    assert [check.rule for check in checks] == list(RULES)
    assert all(check.passed for check in checks)


def loops(rollouts, advantages):
    return torch.stack([a + 0 for a in advantages])


class Counter:
    def __init__(self):
        self.count = 0

    def __call__(self, rollouts, advantages):
        self.count += 1
        return advantages * self.count

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


class Forgetful(Counter):
    def __call__(self, rollouts, advantages):
        self.count += rollouts.training
        return advantages

    def load_state_dict(self, state):
        pass


class Hidden:
    count = 0

    def __call__(self, rollouts, advantages):
        self.count += 1
        return advantages * self.count


def scribble(rollouts, advantages):
    rollouts.rewards.mul_(0.5)
    return advantages


FAULTS = {
    "row_order": lambda r, a: a * torch.arange(1, len(a) + 1),
    "group_labels": lambda r, a: a * (1 + len(str(r.group_ids[0]))),
    "invalid_rows": lambda r, a: a - torch.where(r.valid, a, 1.0).mean(),
    "constant_groups": lambda r, a: a + r.scores,
    "needs": lambda r, a: a if r.lengths is None else a * r.lengths,
    "pure": scribble,
    "no_loop": loops,
    "output": lambda r, a: a / 0,
    "state": Counter,
}


@pytest.mark.parametrize("rule", FAULTS)
def test_a_fault_is_found(names, rule):
    upside.register_stage("faulty", zero_on_constant=True)(FAULTS[rule])
    assert rule in broken("dr_grpo > faulty")
    with pytest.raises(AssertionError, match=rf"dr_grpo > faulty breaks \d+ of {len(RULES)} rules:\n(.*\n)*  {rule}: "):
        check_estimator("dr_grpo > faulty")


@pytest.mark.parametrize(("fault", "rule"), [(Forgetful, "state"), (Hidden, "pure")])
def test_faults_of_memory(names, fault, rule):
    upside.register_stage("faulty")(fault)
    assert rule in broken("dr_grpo > faulty")


@pytest.mark.parametrize("fault", [lambda r, a: a / r.accuracy(), lambda r, a: a * r.step])
def test_a_stage_that_looks_beyond_the_group(names, fault):
    upside.register_stage("faulty", group_local=True)(fault)
    assert broken("dr_grpo > faulty") == {"group_local"}
    upside.register_stage("honest")(fault)
    assert broken("dr_grpo > honest") == set()


def test_a_field_that_is_changed_in_place(names):
    upside.register_stage("faulty")(lambda r, a: (r.lengths.clamp_(max=1), a)[1])
    assert broken("dr_grpo > faulty") >= {"pure"}


def test_a_constant_group_among_others(names):
    upside.register_stage("faulty", kind="baseline", group_relative=False)(lambda r, a: a - a[r.valid].mean())
    assert broken("faulty") == {"constant_groups"}


def test_a_baseline_that_leaves_a_group_of_one_its_reward(names):
    assert "singletons" in broken("dr_grpo:singleton=reward")


def test_rules_can_be_skipped():
    assert broken("canon_random") == {"row_order", "invalid_rows"}
    assert broken("canon_random", skip=["row_order", "invalid_rows"]) == set()
    with pytest.raises(ValueError, match=r"unknown rules \['rows'\]; there are output, pure"):
        check_estimator("grpo", skip=["rows"])
