"""The math verifier around its pool: extraction, shortcuts, outcomes, options. The verdicts are in test_pairs.py."""

import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upside.verifiers import Verdict, Verifier, load_verifier
from upside.verifiers.answers import math_answer
from upside.verifiers.math import MathVerifier
from upside.verifiers.numerals import numeral, stands_for, terminates
from upside.verifiers.spelling import decide, read
from upside.verifiers.units import canonical_unit


@pytest.fixture(scope="module")
def verifier():
    return MathVerifier(timeout=0.5, workers=2)


# extraction


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"so \boxed{42}", "42"),
        (r"\boxed{\frac{1}{2}} and \boxed{8", r"\frac{1}{2}"),
        (r"$x=\boxed{1}$ or $x=\boxed{2}$", "1 or 2"),
        (r"\boxed{1}, \boxed{2} \text{ and } \boxed{3}", "1, 2, 3"),
        (r"Case one: \boxed{1}. Case two, which is the one asked for: \boxed{2}.", "2"),
        (r"<think>\boxed{1}</think> \boxed{2}", "2"),
        (r"<think>\boxed{1}</think> The answer is 2.", "2"),
        (r"\boxed{1} <answer>2</answer>", "2"),
        ("12 * 2 = 24\n#### 24", "24"),
        ("The final answer is $\\frac{1}{2}$, because of symmetry.", r"\frac{1}{2}"),
        ("The answer is $1$ and $2$.", "1, 2"),
        ("**Answer:** 3.5 m", "3.5 m"),
        ("The answer is 3. I hope it is correct.", "3"),
        ("We find $a=1$ and so\n$$b = 4$$", "b = 4"),
        ("Thus \\(x = 7\\).", "x = 7"),
        ("So the total is 1,234 dollars.", "1,234 dollars"),
        ("She has 3 apples and he has 4 of them left", "4"),
        (r"\frac{3}{4}", r"\frac{3}{4}"),
        ("there are no real solutions", "there are no real solutions"),
        ("", None),
        (" \n ", None),
    ],
)
def test_math_answer(response, answer):
    assert math_answer(response) == answer


@pytest.mark.parametrize("part", [r"\boxed{1},", r"\boxed{1} and ", "$$x$$,", "$x$, ", "is ", r"\(x\)"])
def test_many_answers_take_linear_time(part):
    started = time.process_time()
    math_answer(part * (1_000_000 // len(part)))
    assert time.process_time() - started < 3.0


def test_extraction_searches_the_whole_text():  # verl#7440
    assert math_answer(r"\boxed{" + "1" * 5_000 + "}" + " and so on" * 5_000) == "1" * 5_000
    assert math_answer("x" * 100_000 + r"\boxed{7}" + "y" * 100_000) == "7"


@given(st.text(st.characters() | st.sampled_from("\\\\{}$#<>/.,-=0123456789e")))
def test_any_text_has_a_reading(text):
    answer = math_answer(text)
    reading = read(answer or "")
    assert decide(reading, reading) in (True, False, None)


@pytest.mark.parametrize(
    "core",
    [
        "{",
        "$",
        r"\boxed{",
        r"\text{",
        r"\text{ } ",
        "1,",
        "answer is ",
        "=",
        "(",
        r"\frac",
        " ",
        r"\sqrt(",
        "7",
        r"\(",
        r"\\(",
        r"\[1",
        r"\boxed{1} and ",
        "<answer>",
        "1 ",
    ],
)
def test_reading_hostile_text_is_cheap(core):
    """Nothing in the calling process takes more than linear time in a long response."""
    start = time.process_time()
    read(f"x{core * 2_000}"[:2_000])
    for text in (core * (100_000 // len(core)), f"answer{core * (100_000 // len(core))}x"):
        math_answer(text)
    assert time.process_time() - start < 2.0


# numbers


@given(st.fractions(max_denominator=10**6), st.integers(2, 9))
def test_fractions_are_decided_exactly_and_at_once(value, factor):
    top, bottom = value.numerator, value.denominator
    spelled = rf"\frac{{{top * factor}}}{{{bottom * factor}}}"
    assert decide(read(f"{top}/{bottom}"), read(spelled)) is True
    assert decide(read(f"{top}/{bottom}"), read(f"{top + 1}/{bottom}")) is False


def test_numbers_and_text_need_no_worker():
    verifier = MathVerifier(workers=3, memory=333)
    golds = ["18", "1/2", "1,000", r"\text{Evelyn}", "C", "50%", "7", "2", "3"]
    said = ["18.0", "0.5", "1000", "evelyn", "(C)", "0.5", "8", "two", ""]
    verdicts = verifier(golds, [rf"\boxed{{{text}}}" for text in said])
    assert [v.outcome for v in verdicts] == ["correct"] * 6 + ["wrong", "correct", "unparsed"]
    assert verifier.processes() == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-1,234.50", "-1234.5"),
        ("3 1/2", "7/2"),
        (r"-2\frac{1}{3}", "-7/3"),
        ("0.1\\overline{6}", "1/6"),
        ("6.02\\times10^{23}", "602000000000000000000000"),
        ("two hundred and six", "206"),
        ("3 million", "3000000"),
        ("1011_2", "11"),
        ("minus five", "-5"),
    ],
)
def test_numerals(text, value):
    assert numeral(text).value == Fraction(value)


@pytest.mark.parametrize(
    "text", ["", "x", "x_2", "1/0", "9^9", "1e99999", "12,34", "2x10", "and", "one x", "1\\frac{1}{0}"]
)
def test_no_numerals(text):
    assert numeral(text) is None


def test_when_a_decimal_stands_for_a_fraction():
    third = Fraction(1, 3)
    assert not terminates(third)
    assert terminates(Fraction(3, 40))
    assert stands_for(Fraction("0.333333"), 6, third, digits=6)
    assert not stands_for(Fraction("0.33333"), 5, third, digits=6)
    assert stands_for(Fraction("0.666667"), 6, 2 * third, digits=6)  # rounded
    assert stands_for(Fraction("0.666666"), 6, 2 * third, digits=6)  # cut off
    assert not stands_for(Fraction("0.666668"), 6, 2 * third, digits=6)
    assert not stands_for(Fraction("-0.333333"), 6, third, digits=6)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("cm", "cm"),
        ("square centimeters", "cm^2"),
        ("cm^2", "cm^2"),
        ("miles per hour", "mph"),
        ("m/s", "m/s"),
        ("apples", ""),
    ],
)
def test_units(text, unit):
    assert canonical_unit(text) == unit


# outcomes and options


def test_it_is_a_verifier():
    verifier = load_verifier("math", workers=2, timeout=3.0)
    assert isinstance(verifier, Verifier)
    assert verifier.name == "math"
    assert verifier([], []) == []


def test_every_outcome(verifier):
    golds = [r"\sqrt{8}", r"\sqrt{8}", r"\sqrt{8}", r"\sqrt{8}", r"\frac{1}{", r"\sqrt{8}"]
    said = [r"2\sqrt{2}", r"3\sqrt{2}", r"\frac{1}{}", r"9^{9^{9^9}}", r"\frac{1}{", ""]
    verdicts = verifier(golds, [rf"\boxed{{{text}}}" if text else "" for text in said])
    assert verdicts == [
        Verdict(1.0, True, "correct"),
        Verdict(0.0, False, "wrong"),
        Verdict(0.0, False, "unparsed"),
        Verdict(None, None, "timeout"),
        Verdict(None, None, "error"),
        Verdict(0.0, False, "unparsed"),
    ]


def test_a_failure_is_wrong_only_where_the_option_says_so():
    # RL#2207: a crash is no 0.0; limit-of-RLVR#8: timeout, unparsed and wrong are told apart
    verifier = MathVerifier(timeout=0.3, workers=2, on_failure="wrong")
    verdicts = verifier([r"\sqrt{8}", r"\frac{1}{"], [r"\boxed{9^{9^{9^9}}}", r"\boxed{\frac{1}{}"])
    assert verdicts == [Verdict(0.0, False, "timeout"), Verdict(None, None, "error")]


def test_an_unreadable_gold_is_never_right(verifier):  # tinker-cookbook#335
    for gold in (r"\frac{1}{", "", "   ", "$$", r"t(0,4]", "(" * 300, "9" * 5_000):
        assert not verifier.usable(gold), gold
        assert verifier([gold, gold], [rf"\boxed{{{gold}}}", "I do not know"]) == [Verdict(None, None, "error")] * 2


def test_usable_golds(verifier):
    golds = ["18", r"\text{Evelyn}", r"\frac{\pi}{2}", "(1,2]", r"\{1,2\}", "x<3", r"$69$,$84$", r"\frac{1}{"]
    assert verifier.usable_batch(golds) == [True] * 7 + [False]


def test_rows_keep_their_order_and_repeat(verifier):
    golds = [rf"{k}\sqrt{{2}}" for k in range(2, 12)] * 3
    said = [rf"\boxed{{\sqrt{{{2 * k * k + (k % 2)}}}}}" for k in range(2, 12)] * 3
    assert [v.correct for v in verifier(golds, said)] == [k % 2 == 0 for k in range(2, 12)] * 3


def test_what_was_judged_is_remembered():
    verifier = MathVerifier(timeout=5.0, workers=1, memory=334)
    pair = ([r"\sqrt{50}"], [r"\boxed{5\sqrt{2}}"])
    first = verifier(*pair)
    assert len(verifier.processes()) == 1
    verifier._pool.close()
    assert verifier(*pair) == first
    assert verifier([r"\sqrt{50}"], [r"\boxed{\sqrt {50}}"])[0].correct  # the gold is known to be readable
    assert verifier.processes() == []


def test_a_timeout_is_not_remembered(verifier):
    pair = ([r"\sqrt{50}"], [r"\boxed{9^{9^{9^8}}}"])
    assert verifier(*pair)[0].outcome == "timeout"
    assert (pair[0][0], "9^{9^{9^8}}") not in verifier._cache


@pytest.mark.parametrize(
    ("response", "vote"),
    [
        (r"\boxed{0.50}", "1/2"),
        (r"\boxed{\frac{2}{4}}", "1/2"),
        (r"\boxed{50\%}", "50%"),
        (r"\boxed{\dfrac{\sqrt 3}{2}}", r"\frac{\sqrt{3}}{2}"),
        (r"\boxed{\sqrt{2}x}", r"\sqrt{2}x"),
        (r"\boxed{\text{ East }}", "east"),
        ("", None),
    ],
)
def test_votes(verifier, response, vote):
    assert verifier.answer_of(response) == vote


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0}, "timeout=0 must be"),
        ({"timeout": float("nan")}, "timeout=nan must be"),
        ({"memory": 10}, "memory=10 must be"),
        ({"workers": 0}, "workers=0 must be"),
        ({"on_failure": "zero"}, "on_failure='zero' must be one of invalid, wrong"),
        ({"time": 3}, "did you mean 'timeout'"),
    ],
)
def test_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        load_verifier("math", **options)


def test_rows_must_match(verifier):
    with pytest.raises(ValueError, match="2 gold answers for 1 responses"):
        verifier(["1", "2"], ["1"])


@settings(max_examples=5, deadline=None)
@given(st.lists(st.tuples(st.integers(2, 50), st.integers(2, 50)), min_size=1, max_size=5))
def test_surds_are_decided_by_value(verifier, pairs):
    golds = [rf"{a}\sqrt{{{b}}}" for a, b in pairs]
    right = verifier(golds, [rf"\boxed{{\sqrt{{{a * a * b}}}}}" for a, b in pairs])
    wrong = verifier(golds, [rf"\boxed{{\sqrt{{{a * a * b + 1}}}}}" for a, b in pairs])
    assert all(v.correct for v in right)
    assert not any(v.correct for v in wrong)
