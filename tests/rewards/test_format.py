"""The format reward against responses that try to earn it: open-r1#359, open-r1#418, Soup#814."""

import time

import pytest

from upside.rewards import Completions, load_reward
from upside.tasks import Problem

GOOD = "<think>2+2</think>\n<answer>4</answer>"
ZERO_WIDTH = "\u200b\u200c\u200d\ufeff\u2060"


def score(response, **options):
    one = Completions([Problem("p", "2+2", "4")], [response], [1], [False])
    return load_reward("format", **options)(one).values[0]


@pytest.mark.parametrize(
    ("response", "options"),
    [
        (GOOD, {}),
        ("  \n" + GOOD + "\n", {}),
        ("<think>\nFirst.\n\nSecond.\n</think>\n\nSo <answer> 4 </answer>", {}),
        ("<think>2+2</think>#4", {}),
        ("<think>2+2</think> so \\boxed{\\frac{4}{1}}.", {"answer": "boxed"}),
        ("<think>2+2</think><answer>So it is \\boxed{4}.</answer>", {}),
        ("<think>二加二</think><answer>四</answer>", {}),
        ("<think>a < b and b > c</think><answer>a<c</answer>", {}),
        ("<think>a thinking thought about <thinking></think><answer>4</answer>", {}),
        ("<think>2+2</think><answer>\u2205</answer>", {}),
        ("2+2=4 #4", {"think": "optional"}),
        ("#### 4", {"think": "optional"}),
        ("so \\boxed{4}.", {"think": "optional"}),
        ("\\boxed{4} costs #1", {"answer": "boxed", "think": "none"}),
        ("\ud800 #4", {"think": "optional"}),
        ("2+2</think>#4", {"think": "opened"}),
    ],
)
def test_well_formed(response, options):
    assert score(response, **options) == 1.0


@pytest.mark.parametrize(
    "response",
    [
        # repeated, empty, nested, unclosed, swapped
        "<think>a</think><think>b</think><answer>4</answer>",
        GOOD + GOOD,
        "<think></think><answer>4</answer>",
        "<think>a</think><answer>4</answer> \\boxed{4}",
        "<think>a</think>\\boxed{4} <answer>4</answer>",
        "<think>a</think><answer>\\boxed{4} \\boxed{5}</answer>",
        "<think>a</think><answer>4 \\boxed{}</answer>",
        "<think>a</think><answer>4 \\boxed{4</answer>}",
        "<think></think><think>2+2</think><answer>4</answer>",
        "<think><think>a</think></think><answer>4</answer>",
        "<think><think>a</think><answer>4</answer>",
        "<think>a<answer>4</answer>",
        "a</think><answer>4</answer>",
        "</think>a<think><answer>4</answer>",
        "<answer>4</answer><think>2+2</think>",
        "before <think>2+2</think><answer>4</answer>",
        # blank, whatever it is made of
        "<think> \n\t </think><answer>4</answer>",
        f"<think>{ZERO_WIDTH}</think><answer>4</answer>",
        "<think>\u00a0\u3000\u2800\u3164</think><answer>4</answer>",
        "<think>...</think><answer>4</answer>",
        f"<think>2+2</think><answer>{ZERO_WIDTH}</answer>",
        "<think>2+2</think><answer> \n </answer>",
        "<think>2+2</think>\\boxed{}",
        "<think>2+2</think>\\boxed{\u200b}",
        "<think>2+2</think>#\u200b",
        # the answer: none, two, nested, unclosed, in the thought, tags inside it
        "<think>2+2</think>4",
        "<think>2+2</think>",
        "<think>2+2</think><answer>4</answer><answer>4</answer>",
        "<think>2+2</think><answer>4</answer></answer>",
        "<think>2+2</think><answer><answer>4</answer></answer>",
        "<think>2+2</think><answer>4",
        "<think>2+2</think></answer>4<answer>",
        "<think>2+2</think>\\boxed{4} <answer>4</answer>",
        "<think>2+2</think>\\boxed{4} \\boxed{4}",
        "<think>2+2</think>#4 #4",
        "<think>2+2 <answer>4</answer></think>",
        "<think>2+2 <answer>4</answer></think><answer>4</answer>",
        "<think>2+2 \\boxed{5}</think>\\boxed{4}",
        "<think>2+2</think><answer><think>again</think>4</answer>",
        "<think>2+2</think><answer>4</think></answer>",
        # look-alikes
        "<THINK>2+2</THINK><answer>4</answer>",
        "<Think>a</Think>" + GOOD,
        "< think >a</ think >" + GOOD,
        "<think/>" + GOOD,
        '<think class="x">a</think><answer>4</answer>',
        "<think>2+2</think><ANSWER>5</ANSWER><answer>4</answer>",
        "<think>2+2 <Answer>5</Answer></think><answer>4</answer>",
        "<th\u200bink>a</th\u200bink>" + GOOD,
        "\uff1cthink\uff1ea\uff1c/think\uff1e" + GOOD,
        # no tags at all
        "<answer>4</answer>",
        "#4",
        "",
    ],
)
def test_not_well_formed(response):
    assert score(response) == 0.0


@pytest.mark.parametrize(
    ("response", "options"),
    [
        ("", {"think": "optional"}),
        ("4", {"think": "optional"}),
        ("#", {"think": "optional"}),
        ("\\boxed{ } and more", {"think": "optional"}),
        ("\\boxed{4", {"think": "optional"}),
        ("\\boxed{4} #4", {"think": "optional"}),
        ("<think>a#4", {"think": "optional"}),
        ("<think>a</think>#4", {"think": "none"}),
        ("<THINK>a</THINK>#4", {"think": "none"}),
        ("<think>a</think>#4", {"think": "opened"}),
        ("</think>#4", {"think": "opened"}),
        ("#4", {"think": "opened"}),
        ("<think>a</think>#4", {"answer": "boxed"}),
    ],
)
def test_not_well_formed_by_option(response, options):
    assert score(response, **options) == 0.0


@pytest.mark.parametrize(
    "unit", ["\u0344\u0315", "<think>", "<think>a</think>", "\\boxed{", "#", "<", "< ", "<answer>", "\ufdfa"]
)
def test_long_repetitions_take_no_time(unit):
    text = unit * (200_000 // len(unit))
    started = time.perf_counter()
    assert score(text) == score(text, think="optional") == 0.0
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize(
    ("response", "value"),
    [
        ("2+2\n</think>\n4", 1.0),
        ("\n</think>\n", 1.0),  # the released rule asks for nothing else
        ("<think>2+2</think>4", 0.0),
        ("2+2\n</think>\n</think>\n4", 1.0),  # the two share a line break, and count() sees one
        ("a\n</think>\nb\n</think>\nc", 0.0),
        ("", 0.0),
    ],
)
def test_the_rule_of_aapos_released_code(response, value):
    assert score(response, compat="aapo") == value
