"""Geometry answers: 1 for a right box, 0.1 for a wrong one, 0 without one; equality is that of `math`."""

import pytest

from upside.verifiers import Verdict, Verifier, load_verifier

RIGHT, WRONG, NO_BOX = Verdict(1.0, True, "correct"), Verdict(0.1, False, "wrong"), Verdict(0.0, False, "unparsed")


@pytest.fixture(scope="module")
def verifier():
    return load_verifier("geometry", timeout=2.0, workers=1)


@pytest.mark.parametrize(
    ("gold", "response", "verdict"),
    [
        ("7", r"<think>3+4</think> \boxed{7}", RIGHT),
        ("7", r"\boxed{7.0}", RIGHT),
        (r"4 \sqrt { 2 }", r"so \boxed{4\sqrt{2}}", RIGHT),
        ("5.5", r"\boxed{\frac{11}{2}}", RIGHT),
        ("7", r"first \boxed{8}, no, \boxed{7}", RIGHT),
        ("7", r"\boxed{8}", WRONG),
        ("7", r"first \boxed{7}, no, \boxed{8}", WRONG),
        ("7", "7", NO_BOX),
        ("7", "<answer>7</answer>", NO_BOX),
        ("7", "#### 7", NO_BOX),
        ("7", r"\boxed{7", NO_BOX),
        ("7", r"\boxed{}", NO_BOX),
        ("7", r"<think>\boxed{7}</think> seven", NO_BOX),
        ("7", "", NO_BOX),
    ],
)
def test_scores_of_adora(verifier, gold, response, verdict):
    assert verifier([gold], [response]) == [verdict]


def test_a_batch_keeps_its_order(verifier):
    responses = ["", r"\boxed{1}", "1", r"\boxed{2}"]
    assert [v.score for v in verifier(["1"] * 4, responses)] == [0.0, 1.0, 0.0, 0.1]
    assert verifier([], []) == []


@pytest.mark.parametrize(("option", "score", "correct"), [("invalid", None, None), ("wrong", 0.1, False)])
def test_what_math_cannot_judge_follows_its_option(option, score, correct):
    """RL#2207: a timeout is counted, and is a wrong box only where the recipe says so."""
    geometry = load_verifier("geometry", timeout=0.5, workers=1, on_failure=option)
    assert geometry(["7"], [r"\boxed{9^{9^{9^9}}}"]) == [Verdict(score, correct, "timeout")]


def test_the_rest_of_the_interface(verifier):
    assert isinstance(verifier, Verifier)
    assert verifier.name == "geometry"
    assert verifier.usable(r"4 \sqrt { 2 }")
    assert not verifier.usable("")
    assert verifier.answer_of(r"a \boxed{x} b \boxed{4\sqrt{2}}") == r"4\sqrt{2}"
    assert verifier.answer_of("7") is None
    with pytest.raises(ValueError, match="no option 'timeoot'; did you mean 'timeout'"):
        load_verifier("geometry", timeoot=1)
