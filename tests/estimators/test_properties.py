"""The rules every estimator keeps, over every preset and some chains. Rules and laws: docs/algorithms.md."""

import random
import warnings

import numpy as np
import pytest
import torch
from batches import CHAINS, DETERMINISTIC, REWARDS, SPECS, close, fields, take, values
from hypothesis import given, settings
from hypothesis import strategies as st

import upside
from upside.testing import check_estimator

pytestmark = pytest.mark.filterwarnings("ignore:.*(single response|has a reward)")
few = settings(max_examples=12, deadline=None, derandomize=True, database=None)


@st.composite
def batches(draw, styles=("binary", "graded", "tenths"), invalid=0.0, smallest=1, fit=lambda style: True):
    """Fields of a batch of 1 to 5 unequal groups, one of them with at least 3 responses."""
    sizes = [*draw(st.lists(st.integers(smallest, 7), max_size=4)), draw(st.integers(3, 8))]
    return fields(draw(st.integers(0, 10**6)), sizes, draw(st.sampled_from(sorted(styles))), invalid)


def reads_accuracy(estimator):
    return "canon_dynamic" in str(estimator)


@pytest.mark.parametrize("spec", DETERMINISTIC)
@few
@given(batch=batches(invalid=0.1), seed=st.integers(0, 10**6))
def test_row_order_never_matters(spec, batch, seed):
    rows = list(range(len(batch["groups"])))
    random.Random(seed).shuffle(rows)
    expected = values(spec, batch)
    assert close(values(spec, take(batch, rows)), [expected[i] for i in rows])


@pytest.mark.parametrize("spec", SPECS)
@few
@given(batch=batches(invalid=0.1))
def test_group_labels_never_matter(spec, batch):
    expected = values(spec, batch)
    k = max(batch["groups"]) + 1
    labels = {
        "large and negative": [(7 * g % k) * 10**12 - 5 for g in range(k)] if k % 7 else [-g for g in range(k)],
        "strings": [["1", "01", " 1", "q/é", ""][g] for g in range(k)],
        "tuples": [("prompt", g, None) for g in range(k)],
        "mixed": ["1", 1, (1,), frozenset({1}), 1.5][:k],
    }
    for name, of in labels.items():
        assert close(values(spec, batch, groups=[of[g] for g in batch["groups"]]), expected), name
    for ids in (torch.tensor(batch["groups"]), np.array(batch["groups"]), np.array([f"u{g}" for g in batch["groups"]])):
        assert close(values(spec, batch, groups=ids), expected), type(ids)


@pytest.mark.parametrize("spec", DETERMINISTIC)
@few
@given(batch=batches(invalid=0.3))
def test_an_invalid_row_is_as_if_it_were_not_there(spec, batch):
    estimator = upside.estimator(spec)
    full = upside.Rollouts(**batch)
    kept = full.valid.nonzero().flatten().tolist()
    if not any(full.grouping.size > 1):  # nothing left to compare
        return
    got = estimator(full).values
    assert (got[~full.valid] == 0).all()
    assert close(got[kept].tolist(), values(spec, take(batch, kept)))


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("unknown", [None, float("nan")])
def test_fields_of_an_invalid_row_may_be_unknown(spec, unknown):
    batch = fields(4, [4, 5, 3])
    expected = values(spec, batch, rewards=[unknown, *batch["rewards"][1:]])
    blank = {k: [unknown, *batch[k][1:]] for k in ("lengths", "entropy", "correct", "truncated", "reference_rewards")}
    metrics = {k: [unknown, *v[1:]] for k, v in batch["metrics"].items()}
    got = values(spec, batch, rewards=[unknown, *batch["rewards"][1:]], metrics=metrics, **blank)
    assert got == expected
    assert got[0] == 0


@pytest.mark.parametrize("spec", SPECS)
@few
@given(batch=batches(styles=REWARDS, invalid=0.1))
def test_output(spec, batch):
    estimator = upside.estimator(spec)
    if reads_accuracy(spec):
        batch["rewards"] = [None if r is None else float(r > 0.5) for r in batch["rewards"]]
    result = estimator(upside.Rollouts(**batch))
    assert result.values.dtype == torch.float32
    assert result.values.shape == (len(batch["groups"]),)
    assert result.values.isfinite().all()
    assert all(type(v) is float and v == v for v in result.metrics.values())


NOT_ZERO = {
    "reinforce", "batch_baseline", "remax", "reinforce_pp", "reinforce_pp_baseline", "aapo", "canon_eff",
    "grpo > whiten", "opo > whiten:level=token > mask_truncated",
    "batch_mean > whiten > reference_margin:low=none,high=none",
    "canon:mu=0.3 > reference_margin > adora_weight",
    "group_mean > reference_margin:pairing=group_mean > gpg_rescale:idle=zero_advantages",
    "canon:metric=difficulty,mu=linear(start=1,end=0.2),alpha=0.9,beta=0.05",
}  # fmt: skip

ZERO_ON_CONSTANT = [spec for spec in SPECS if spec not in NOT_ZERO]


@pytest.mark.parametrize("spec", ZERO_ON_CONSTANT)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("value", [0.7, 0.1, 2.3, 1e6 + 0.1, -1.05, 0.0])
def test_a_constant_group_is_exactly_zero(spec, value, dtype):
    estimator = upside.estimator(spec)
    batch = fields(1, [7, 8, 3, 6, 10])
    flat = torch.tensor([g in (0, 1, 4) for g in batch["groups"]])
    rewards = torch.tensor(batch["rewards"], dtype=dtype)
    batch["rewards"] = torch.where(flat, torch.tensor(value, dtype=dtype), rewards)
    got = estimator(upside.Rollouts(**batch))
    assert (got.values[flat] == 0).all()
    assert (got.values[~flat] != 0).any()


@pytest.mark.parametrize("spec", SPECS)
def test_who_is_zero_on_constant_groups(spec):
    assert upside.estimator(spec).zero_on_constant == (spec not in NOT_ZERO)


@pytest.mark.parametrize("spec", sorted(NOT_ZERO))
def test_those_that_say_so_are_not_zero(spec):
    assert any(
        any(a != 0 for a, g in zip(values(spec, batch), batch["groups"], strict=True) if g == 0)
        for seed in range(5)
        for batch in [fields(seed, [6, 5, 7])]
        for batch["rewards"] in [[1.0 if g == 0 else r for r, g in zip(batch["rewards"], batch["groups"], strict=True)]]
    )


@pytest.mark.parametrize("spec", SPECS)
def test_a_group_of_one_gets_zero_and_a_counted_warning(spec):
    estimator = upside.estimator(spec)
    batch = fields(2, [1, 4, 1, 6])
    rollouts = upside.Rollouts(**batch)
    relative = any(stage.info.group_relative for stage in estimator.stages)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = estimator(rollouts)
    told = [str(w.message) for w in caught if w.filename == __file__]
    assert bool(told) == relative
    if relative:
        assert "2 of 4 groups hold a single response" in told[0]
        baseline = estimator.trace(rollouts)[0].values
        assert all(baseline[i] == 0 for i, g in enumerate(batch["groups"]) if g in (0, 2))
    assert result.metrics["singleton_groups"] == 2


@pytest.mark.parametrize("spec", SPECS)
def test_nothing_but_groups_of_one_is_an_error(spec):
    # rllm#776, Search-R1#88: every rollout with its own id, the baseline silently gone
    batch = fields(2, [1] * 6)
    if any(stage.info.group_relative for stage in upside.estimator(spec).stages):
        with pytest.raises(ValueError, match=r"groups: every one of the 6 groups holds a single response.*group id"):
            values(spec, batch)
    else:
        assert len(values(spec, batch)) == 6


@pytest.mark.parametrize("spec", SPECS)
def test_needs_are_enough_and_each_is_needed(spec):
    estimator = upside.estimator(spec)
    full = fields(9, [4, 5, 3])
    metrics = {k: v for k, v in full["metrics"].items() if k in estimator.needs}
    plain = {k: full[k] for k in full if k in {"rewards", "groups", "step"} | estimator.needs}
    expected = estimator(upside.Rollouts(**plain, metrics=metrics)).values
    rest = {k: None for k in ("lengths", "entropy", "truncated", "reference_rewards") if k not in estimator.needs}
    assert torch.equal(expected, estimator(upside.Rollouts(**full | rest)).values)
    for name in estimator.needs:
        less = {k: v for k, v in plain.items() if k != name}
        with pytest.raises(ValueError, match=rf"needs Rollouts\.{name}.*Supply"):
            estimator(upside.Rollouts(**less, metrics={k: v for k, v in metrics.items() if k != name}))


@pytest.mark.parametrize("spec", SPECS)
def test_a_pure_function_of_the_batch(spec):
    batch = upside.Rollouts(**fields(6, [4, 5, 2, 3], invalid=0.1))
    tensors = {k: v for k, v in vars(batch).items() if isinstance(v, torch.Tensor)}
    before = {k: v.clone() for k, v in tensors.items()}
    estimator = upside.estimator(spec)
    first = estimator(batch)
    again = estimator(batch)
    assert torch.equal(first.values, again.values)
    assert first.metrics == again.metrics
    for name, value in before.items():
        assert torch.equal(tensors[name].nan_to_num(7), value.nan_to_num(7)), name


@pytest.mark.parametrize("spec", SPECS)
@few
@given(batch=batches(invalid=0.1))
def test_the_text_gives_the_estimator_back(spec, batch):
    estimator = upside.estimator(spec)
    again = upside.estimator(str(estimator))
    assert again == estimator
    assert hash(again) == hash(estimator)
    assert again.needs == estimator.needs
    assert values(again, batch) == values(estimator, batch)
    assert repr(estimator) == f"upside.estimator({str(estimator)!r})"


# How advantages answer to r -> r + c and r -> c r (eps aside, success given by `correct`): docs/algorithms.md.
# Scale: 0 unchanged, 1 times c, None neither.
LAWS = {
    "grpo": (True, 0), "dr_grpo": (True, 1), "rloo": (True, 1), "opo": (True, 1), "gpg": (True, 1),
    "reinforce": (False, 1), "batch_baseline": (True, 1), "remax": (False, None),
    "reinforce_pp": (True, 0), "reinforce_pp_baseline": (True, 0), "lite": (True, 0), "dapo": (True, 0),
    "aapo": (False, None), "adora": (True, 0), "adora_amplify": (True, 0),
    "canon": (True, 1), "canon_inter": (True, 1), "canon_intra": (True, 1), "canon_dynamic": (True, 1),
    "canon_eff": (False, 1), "canon_random": (True, 1),
    "canon:mu=0.3 > reference_margin > adora_weight": (False, None),
    "grpo > whiten": (True, 0),
    "rloo > batch_std > adora_weight:mode=amplify,criteria=or": (True, 0),
    "group_mean > reference_margin:pairing=group_mean > gpg_rescale:idle=zero_advantages": (False, None),
    "opo > whiten:level=token > mask_truncated": (True, 0),
    "canon:metric=difficulty,mu=linear(start=1,end=0.2),alpha=0.9,beta=0.05": (False, None),
    "canon:metric=length,mu=cosine_first_inter,odd=low": (True, 1),
    "adora:normalize_mean_weight=true,truncation_length=12,no_failure=tas": (True, 0),
    "batch_mean > whiten > reference_margin:low=none,high=none": (False, None),
    "gpg:idle=zero_advantages": (True, 1),
}  # fmt: skip


def test_every_preset_has_a_law():
    assert set(LAWS) >= {*upside.presets(), *CHAINS}


def changed(batch, change):
    return [None if r is None else change(r) for r in batch["rewards"]]


@pytest.mark.parametrize("spec", LAWS)
@few
@given(seed=st.integers(0, 10**6), amount=st.sampled_from([-2.0, 0.5, 3.0]))
def test_shifted_rewards(spec, seed, amount):
    batch = fields(seed, [4, 7, 5, 6], "tenths")
    same = close(values(spec, batch, rewards=changed(batch, lambda r: r + amount)), values(spec, batch), 1e-4)
    assert same or not LAWS[spec][0]


@pytest.mark.parametrize("spec", LAWS)
@few
@given(seed=st.integers(0, 10**6), factor=st.sampled_from([0.5, 2.0, 10.0]))
def test_scaled_rewards(spec, seed, factor):
    batch = fields(seed, [4, 7, 5, 6], "graded")
    got, base = values(spec, batch, rewards=changed(batch, lambda r: r * factor)), values(spec, batch)
    law = LAWS[spec][1]
    if law is not None:
        assert close(got, [a * factor**law for a in base], 1e-3 if law == 0 else 1e-5)


@pytest.mark.parametrize("spec", [s for s, law in LAWS.items() if not law[0] or law[1] is None])
def test_those_without_a_law_do_change(spec):
    batch = fields(5, [4, 7, 5, 6], "tenths")
    base = values(spec, batch)
    shifted = values(spec, batch, rewards=changed(batch, lambda r: r + 0.5))
    scaled = values(spec, batch, rewards=changed(batch, lambda r: r * 0.5))
    if not LAWS[spec][0]:
        assert not close(shifted, base, 1e-3)
    if LAWS[spec][1] is None:
        assert not close(scaled, base, 1e-3)
        assert not close(scaled, [a * 0.5 for a in base], 1e-3)


@pytest.mark.parametrize("spec", SPECS)
def test_a_batch_without_a_valid_row(spec):
    batch = fields(7, [4, 3], invalid=1.0)
    result = upside.estimator(spec)(upside.Rollouts(**batch))
    assert result.values.tolist() == [0.0] * 7
    assert result.metrics["zero_batch"] == 1.0
    assert result.metrics["invalid_share"] == 1.0


@pytest.mark.parametrize("spec", SPECS)
def test_the_public_suite_agrees(spec):
    skip = ["row_order", "invalid_rows"] if spec == "canon_random" else []
    check_estimator(spec, skip=skip)
