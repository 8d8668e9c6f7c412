"""What the sample says against what is true."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

import upside
from upside.analysis.blocks import Interval
from upside.analysis.gradients import Sample, SoftmaxBandit, measure
from upside.analysis.gradients.figures import figures
from upside.analysis.gradients.moments import Moments, moments, token_scale

NAMES = ("reinforce", "rloo", "dr_grpo", "grpo", "canon_inter", "canon_intra", "opo")


def holds(interval: Interval, value: float) -> bool:
    return interval.low - 1e-6 <= value <= interval.high + 1e-6


def exact(bandit: SoftmaxBandit, name: str, size: int) -> dict[str, float]:
    true, (mean, noise) = bandit.gradient(), bandit.expectation(name, size)
    along = float(mean @ true)
    return {
        "cosine": along / float(mean.norm() * true.norm()),
        "scale": along / float(true @ true),
        "noise": noise / float(mean @ mean),
    }


@pytest.fixture(scope="module")
def measured(bandit):
    """Twenty samples of 128 responses a prompt."""
    return [measure(bandit.sample(128, seed), NAMES, [4], prompts_per_batch=3, seed=seed) for seed in range(20)]


@pytest.mark.parametrize("place", range(len(NAMES)), ids=NAMES)
def test_the_intervals_hold_what_enumeration_gives(bandit, measured, place):
    for figure, value in exact(bandit, NAMES[place], 4).items():
        found = [getattr(each[place], figure) for each in measured]
        assert sum(holds(each, value) for each in found) >= 16, figure
        error = np.std([each.value for each in found]) / np.sqrt(len(found))
        assert np.mean([each.value for each in found]) == pytest.approx(value, abs=4 * error + 0.01), figure
    assert all(each[place].resolved for each in measured)


def test_the_noise_ratio_is_that_of_enumeration_and_paired(bandit, measured):
    first = exact(bandit, "reinforce", 4)["noise"]
    rloo, dr_grpo = measured[0][1:3]
    assert holds(rloo.noise_ratio, exact(bandit, "rloo", 4)["noise"] / first)
    found = measure(bandit.sample(256, 0), ["rloo", "dr_grpo"], [4], prompts_per_batch=3)[1]
    assert found.noise_ratio.value == pytest.approx(1, abs=1e-5)  # one is 3/4 of the other, on the same batches
    assert found.noise_ratio.high - found.noise_ratio.low < 1e-4 < dr_grpo.noise.high - dr_grpo.noise.low


def test_a_batch_is_not_compared_with_an_oracle_that_holds_it(bandit):
    # a fresh batch's true gain; the same from the batch's own block comes out far above it
    true, chain = bandit.gradient(), upside.estimator("rloo")
    many = moments(bandit.sample(4 * 500, seed=9), [chain], 4, 3)[0]
    fresh = bandit.sample(4 * 2000, seed=10)
    gains = []
    for block in range(2000):
        responses = slice(4 * block, 4 * block + 4)
        rollouts = fresh.rollouts(torch.arange(3), responses)
        gradient = chain(rollouts).values @ fresh.scores[:, responses].reshape(12, -1)
        gains.append(float(true.float() @ gradient / gradient.norm()) if gradient.norm() > 0 else 0.0)
    wanted, error = np.mean(gains), np.std(gains) / np.sqrt(len(gains))
    found = measure(bandit.sample(1024, seed=11), ["rloo"], [4], prompts_per_batch=3)[0]
    assert found.gain.low - 2 * error <= wanted <= found.gain.high + 2 * error
    assert found.batch_cosine.value == pytest.approx(wanted / float(true.norm()), abs=0.05)
    assert np.trace(many.uo) / len(many.uo) > 1.25 * wanted


def test_smaller_batches_have_more_noise_and_the_same_direction(bandit):
    sample = bandit.sample(512, seed=1)
    small = measure(sample, ["rloo"], [4], prompts_per_batch=1)[0]
    large = measure(sample, ["rloo"], [4], prompts_per_batch=3)[0]
    assert small.cosine.value == pytest.approx(large.cosine.value, abs=1e-6)
    assert small.noise.value > 3 * large.noise.value  # 3 times the responses' noise, and that of the prompts drawn


def test_a_loss_that_divides_by_length_follows_the_reward_over_length(bandit):
    divided = dataclasses.replace(bandit, rewards=bandit.rewards / bandit.fields["lengths"]).gradient()
    wanted = float(torch.cosine_similarity(divided, bandit.gradient(), dim=0))
    found = measure(bandit.sample(1024, seed=2), ["reinforce"], [4], prompts_per_batch=3, aggregate="sequence")[0]
    assert wanted < 0.95
    assert holds(found.cosine, wanted)


def test_token_scales():
    lengths = torch.tensor([1.0, 2.0, 3.0])
    assert token_scale(lengths, "sum").tolist() == [1, 1, 1]
    assert token_scale(lengths, "sequence").tolist() == [1, 0.5, 1 / 3]
    assert token_scale(lengths, "token").tolist() == [0.5, 0.5, 0.5]


def test_figures_by_hand():
    # two-dimensional gradients in four blocks: v = (3, 4) and o = (2, 0) in all of them, without noise
    same = lambda value: np.full((4, 4), value)  # noqa: E731
    found = Moments(same(25.0), same(6.0), same(4.0), same(1.2), np.full(4, 100.0), np.full(4, 0.5))
    shown = figures("x", 8, found, found)
    assert shown.cosine == Interval(*[pytest.approx(0.6)] * 3)
    assert shown.angle.value == pytest.approx(53.13, abs=0.01)
    assert (shown.scale.value, shown.noise.value) == (1.5, pytest.approx(3.0))  # 6 / 4; 100 / 25 - 1
    assert (shown.batch_cosine.value, shown.gain.value, shown.idle.value) == (0.6, pytest.approx(1.2), 0.5)
    assert (shown.reliability.value, shown.noise_ratio.value) == (1.0, 1.0)
    assert shown.resolved


def test_a_share_of_all_is_1_at_any_number_of_batches():
    alike = SoftmaxBandit(torch.zeros(6, 2), torch.ones(6, 2).double())
    assert measure(alike.sample(8), ["grpo"], [2], prompts_per_batch=1)[0].idle.value == 1  # not six times 1/6


def test_noise_alone_is_not_resolvable():
    draw = torch.Generator().manual_seed(0)
    v, o = torch.randn(8, 50, generator=draw).numpy(), torch.randn(8, 50, generator=draw).numpy()
    shown = figures("x", 8, *[Moments(v @ v.T, v @ o.T, o @ o.T, v @ o.T, (v**2).sum(1), np.zeros(8))] * 2)
    assert not shown.resolved


def test_a_response_without_a_verdict_is_no_zero():
    rewards = torch.tensor([[1.0, 0.0, torch.nan, 1.0]], dtype=torch.float64)
    sample = Sample(rewards, torch.ones(1, 4, 2), torch.ones(1, 4))
    assert sample.oracle_weights().tolist() == [[0.5, -1.0, 0.0, 0.5]]


def test_shapes_and_damaged_scores_are_refused():
    with pytest.raises(ValueError, match=r"square_norms: shape \(1, 3\); expected"):
        Sample(torch.zeros(1, 4), torch.ones(1, 4, 2), torch.ones(1, 3))
    with pytest.raises(ValueError, match=r"scores\[0, 2\] is not finite"):
        Sample(torch.zeros(1, 4), torch.ones(1, 4, 2), torch.tensor([[1, 1, torch.nan, 1]]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group_sizes": [4, 8]}, "samples=16 makes 2 blocks of 8 responses; draw at least 32"),
        ({"group_sizes": [1]}, "at least 2 responses"),
        ({"group_sizes": [2, 2]}, "none twice, got 2, 2"),
        ({"prompts_per_batch": 2}, "does not divide the 3 prompts; choose a divisor, such as 3"),
        ({"aggregate": "mean"}, "aggregate must be one of sum, sequence, token"),
        ({"estimators": ["rlo"]}, "rloo"),
    ],
)
def test_what_cannot_be_measured_is_refused(bandit, settings, message):
    given = {"estimators": ["rloo"], "group_sizes": [4], "prompts_per_batch": 3, **settings}
    with pytest.raises(ValueError, match=message):
        measure(bandit.sample(16), **given)
