"""Schedules of mu: sample values of the released constants, accuracy, stretching, refusals."""

import math

import pytest

import upside
from upside import Rollouts, schedules
from upside.spec import parse_call


def mu(text, step=0, **more):
    return schedules.schedule(text)(Rollouts([1, 1, 0, 1], [0] * 4, step=step, **more))


SAMPLES = {  # step: (inter first, intra first), T = 150, W = 30, three cycles of 40
    1: (2 / 30, 0.96), 15: (0.5333333, 0.68), 29: (1.0, 0.4), 30: (1.0, 0.4), 40: (0.912132, 0.487868), 50: (0.7, 0.7),
    60: (0.487868, 0.912132), 69: (0.400925, 0.999075), 70: (1.0, 0.4), 110: (1.0, 0.4), 149: (0.400925, 0.999075),
    150: (1.0, 0.4),
}  # fmt: skip


@pytest.mark.parametrize(("step", "expected"), SAMPLES.items())
def test_sample_values(step, expected):
    got = (mu("cosine_first_inter", step), mu("cosine_first_intra", step))
    assert got == pytest.approx(expected, abs=1e-6)


def test_it_keeps_cycling_after_the_end_or_holds():
    assert mu("cosine_first_inter", 190) == mu("cosine_first_inter", 70) == 1.0
    assert mu("cosine_first_inter(hold=true)", 149) == mu("cosine_first_inter", 149)
    assert mu("cosine_first_inter(hold=true)", 150) == mu("cosine_first_inter(hold=true)", 999) == 0.4
    assert mu("cosine_first_intra(hold=true)", 150) == 1.0


def test_accuracy_of_the_batch():
    assert mu("first_inter_later_intra") == 0.25
    assert mu("first_intra_later_inter") == 0.75
    assert mu("first_intra_later_inter", correct=[1, 0, 0, 0]) == 0.25


def test_accuracy_leaves_invalid_rows_out():
    batch = Rollouts([1, None, 0, 0], [0] * 4)
    assert schedules.FirstIntraLaterInter()(batch) == pytest.approx(1 / 3)


def test_accuracy_is_not_read_from_shaped_rewards():
    with pytest.raises(ValueError, match=r"rewards\[1\] is neither 0 nor 1.*supply Rollouts.correct"):
        schedules.FirstIntraLaterInter()(Rollouts([1, 0.5], [0, 0]))


def test_constants():
    assert mu("cosine(high=0.8,low=0.2,total=40,warmup=0,cycles=1)", 0) == pytest.approx(0.8)
    assert mu("cosine(high=0.8,low=0.2,total=40,warmup=0,cycles=1)", 20) == pytest.approx(0.5)
    assert mu("cosine(high=0.8,low=0.2,total=40,warmup=0,cycles=2)", 20) == pytest.approx(0.8)
    assert mu("cosine(high=0.8,warmup=10)", 4) == pytest.approx(0.4)


def test_scale_stretches_to_the_run():
    for step in (1, 14, 40, 100):
        stretched = mu("cosine_first_inter(scale=true)", 2 * step, total_steps=300)
        plain = mu("cosine_first_inter(total=300,warmup=60)", 2 * step)
        assert stretched == plain
    with pytest.raises(ValueError, match=r"cosine_first_inter needs Rollouts\.total_steps"):
        mu("cosine_first_inter(scale=true)", 3)


@pytest.mark.parametrize("total", [1, 2, 3, 7])
def test_scale_to_a_very_short_run(total):
    assert all(0 <= mu("cosine_first_inter(scale=true)", k, total_steps=total) <= 1 for k in range(1, total + 1))


@pytest.mark.parametrize(("step", "expected"), [(0, 1), (1, 1), (3, 0.8), (6, 0.5), (11, 0), (40, 0)])
def test_linear(step, expected):
    assert mu("linear", step, total_steps=11) == pytest.approx(expected)
    assert mu("linear(over=11)", step) == pytest.approx(expected)
    assert mu("linear(start=0,end=1,over=11)", step) == pytest.approx(1 - expected)


def test_linear_over_one_step():
    assert mu("linear(over=1)", 1) == 1.0


def test_needs():
    assert upside.estimator("canon:mu=linear").needs == {"entropy", "total_steps"}
    assert upside.estimator("canon:mu=linear(over=9)").needs == {"entropy"}
    assert upside.estimator("canon:mu=cosine_first_inter(scale=true)").needs == {"entropy", "total_steps"}
    assert upside.estimator("canon_dynamic").needs == {"entropy"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cosine(high=0.2,low=0.8)", "high=0.2 is below low=0.8"),
        ("cosine_first_inter(high=0.3)", r"high=0\.3 is below low=0\.4"),
        ("cosine(high=1.2)", r"cosine: high=1\.2 must lie in \[0, 1\]"),
        ("cosine(low=-1)", r"cosine: low=-1 must lie in \[0, 1\]"),
        ("cosine(warmup=160)", "total=150, warmup=160, cycles=3 leave no step per cycle"),
        ("cosine(total=31,cycles=3)", "total - warmup must be at least cycles"),
        ("cosine(cycles=0)", "cycles=0 leave no step"),
        ("cosine(warmup=-1)", "warmup=-1"),
        ("cosine(total=none)", "schedule 'cosine"),
        ("linear(start=2)", r"linear: start=2 must lie in \[0, 1\]"),
        ("linear(end=nan)", "schedule 'linear': option end=nan must be a finite number"),
        ("linear(start=a)", "schedule 'linear': option start='a' must be a finite number"),
        ("linear(over=2.5)", "schedule 'linear': option over=2.5 must be a whole number or none"),
        ("cosine_first_inter(total=300.5)", "option total=300.5 must be a whole number"),
        ("cosine(scale=1)", "option scale=1 must be true or false"),
        ("linear(over=0)", "linear: over=0 must be at least 1 step"),
        ("linear(1,0)", "cannot read option '1'"),
        ("lineer", "unknown schedule 'lineer'. Did you mean 'linear'"),
        ("first_inter_later_intra(clamp=true)", "has no option 'clamp'"),
    ],
)
def test_refusals(text, message):
    with pytest.raises(ValueError, match=message):
        schedules.schedule(text)


def test_constants_given_in_python_are_checked_too():
    with pytest.raises(ValueError, match=r"option warmup=1\.5 must be a whole number"):
        schedules.CosineFirstIntra(warmup=1.5)


@pytest.mark.parametrize("name", schedules.SCHEDULES)
def test_text_there_and_back(name):
    plain = schedules.schedule(name)
    assert str(plain) == name
    assert schedules.schedule(str(plain)) == plain


def test_constants_there_and_back():
    built = schedules.CosineFirstIntra(total=300, scale=True)
    assert parse_call(str(built)) == ("cosine_first_intra", {"total": 300, "scale": True})
    assert schedules.schedule(str(built)) == built


def test_a_schedule_of_ones_own():
    class Half(schedules.Schedule):
        name = "half"

        def __call__(self, rollouts):
            return 0.5

    batch = Rollouts([1, 0, 0, 1], [0] * 4, entropy=[1, 2, 3, 4])
    halved = upside.estimator("canon", mu=Half())(batch)
    assert halved.values.tolist() == upside.estimator("canon:mu=0.5")(batch).values.tolist()


@pytest.mark.parametrize("value", [math.nan, 1.5, -0.1])
def test_a_schedule_of_ones_own_that_leaves_the_range(value):
    class Wild(schedules.Schedule):
        name = "wild"

        def __call__(self, rollouts):
            return value

    batch = Rollouts([1, 0, 0, 1], [0] * 4, entropy=[1, 2, 3, 4])
    with pytest.raises(ValueError, match=rf"mu={value} \(from wild\) must lie in \[0, 1\]"):
        upside.estimator("canon", mu=Wild())(batch)
