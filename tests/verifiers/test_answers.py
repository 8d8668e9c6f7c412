"""Final answers: finding, comparing, and text meant to break either."""

import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upside.verifiers.answers import MAX_ANSWER, final_answer, is_right, marked_answer, same_answer, to_number


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"so \boxed{42}", "42"),
        (r"first \boxed{1}, then \boxed{2}.", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\boxed{3}}", r"\boxed{3}"),
        (r"\boxed{7} and then \boxed{8", "7"),
        (r"\boxed{a \} b}", r"a \} b"),
        (r"\boxed{ \{1,2\} }", r"\{1,2\}"),
        ("9 + 9 = 18\n#### 18", "18"),
        ("#### 3\n#### 4\nrest", "4"),
        (r"#### 3 but \boxed{4}", "4"),
        ("<answer>12</answer>", "12"),
        (r"\boxed{1} <answer>2</answer>", "2"),
        (r"<answer>2</answer> \boxed{1}", "1"),
        (r"<think>\boxed{1}</think>It is \boxed{2}", "2"),
        (r"<think>\boxed{1}</think>It is 2", "It is 2"),
        ("line one\n\nline two\n\n", "line two"),
        ("7*8=56;56+4=60#60", "60"),
        ("####", ""),
        ("", None),
        ("   \n ", None),
    ],
)
def test_final_answer(response, answer):
    assert final_answer(response) == answer


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("18", "18.0"),
        ("$18", "18"),
        (r"\$18", "18"),
        ("1,234,567", "1234567"),
        ("0.5", "1/2"),
        (r"\frac{1}{2}", "0.50"),
        (r"\dfrac{-1}{2}", r"-\frac{1}{2}"),
        ("2e3", "2000"),
        ("−3", "-3"),
        ("１２", "12"),
        (r"\boxed{\boxed{3}}", "3"),
        (r"$\text{Yes}.$", "yes"),
        ("**12**", "12"),
        ("50%", r"50\%"),
        ("+7", "7"),
        (r"\left( 3, 4 \right)", "(3,4)"),
        (".5", "0.5"),
    ],
)
def test_same(answer, gold):
    assert same_answer(answer, gold)
    assert same_answer(gold, answer)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("18", "81"),
        ("", ""),
        ("", "0"),
        ("1/0", "0"),
        ("12,34", "1234"),
        (f"1/{2**99}", f"1/{2**98}"),
        ("0.3333333333", "1/3"),
        ("9^9^9", "81"),
        ("1e999999999", "1"),
        ("1e999999999", "1e999999998"),
        ("3 million", "3"),
        (r"\sqrt{18}", "18"),
        (r"2^{18}", "18"),
        ("(1,2)", "(2,1)"),
        ("__import__('os').getpid()", "1"),
        ("nan", "0"),
        ("inf", "1e400"),
    ],
)
def test_different(answer, gold):
    assert not same_answer(answer, gold)
    assert not same_answer(gold, answer)


def test_the_last_number_counts_against_a_number_only():
    assert is_right("She makes 18 dollars.\nHope this helps!", "18")
    assert is_right("The answer is $1,234.50.", "1234.5")
    assert is_right("so it is -3", "-3")
    assert not is_right("18 then 19", "18")
    assert not is_right("the 3 people: A is a knight, C is a knave", "A is a knight")
    assert not is_right(r"18 dollars, \boxed{no}", "18")


@pytest.mark.parametrize(
    "response",
    [
        "x" * 100_000,
        "9" * 100_000,
        "1," * 50_000,
        "-" * 100_000 + "1",
        r"\boxed{" * 20_000,
        r"\boxed{" * 20_000 + "}" * 20_000,
        r"\boxed" + " " * 100_000,
        r"\boxed " * 20_000,
        "{" * 100_000,
        "<answer>" * 20_000,
        "####" * 25_000,
        "\\" * 100_001,
        r"\text{" * 300 + "1" + "}" * 300,
        "<script>alert(1)</script>",
        "\ud800",
        "\x00",
        "9^9^9",
        "1e999999999",
        "1/" + "0" * 1_000,
        "$" * 2_000,
        "ﷺ" * 1_999,
    ],
)
def test_hostile_responses_are_wrong_and_cheap(response):
    started = time.process_time()
    assert not is_right(response, "18")
    assert not is_right(response, "a knight")
    final_answer(response)
    assert time.process_time() - started < 0.5


@given(st.text(st.characters() | st.sampled_from("\\\\{}$#<>/.,-0123456789e")), st.text(max_size=20))
def test_any_text_can_be_judged(response, gold):
    assert is_right(response, gold) in (True, False)
    assert same_answer(response, gold) == same_answer(gold, response)
    final_answer(response)


@given(st.fractions(max_denominator=10**6))
def test_every_spelling_of_a_fraction_is_the_same(value):
    top, bottom = value.numerator, value.denominator
    assert is_right(rf"so \boxed{{\frac{{{top}}}{{{bottom}}}}}", f"{top}/{bottom}")
    assert is_right(f"#### {top * 3}/{bottom * 3}", str(value))
    assert not same_answer(f"{top}/{bottom}", f"{top + 1}/{bottom}")


def test_numbers_have_bounded_size():
    assert to_number("1e400") == Fraction(10) ** 400
    assert to_number("1e401") is None
    assert to_number("9" * 401) is None
    assert to_number("1/" + "0" * 100) is None
    assert same_answer("7" * 1_500, "7" * 1_500)  # as text
    assert same_answer("x" * (MAX_ANSWER + 1), "x" * (MAX_ANSWER + 1))
    assert marked_answer("none here") is None
