"""Knights and knaves: the committed sample of the public set, ADORA's scale, and answers in many shapes."""

import json
import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upside.verifiers import Verdict, Verifier, load_verifier

ROWS = [json.loads(line) for line in (Path(__file__).parents[1] / "data" / "kk_3people.jsonl").open()]
GOLD = "(1) Zoey is a knave\n(2) Oliver is a knight"
RIGHT = "Zoey is a knave, and Oliver is a knight."


def respond(answer, thought="Suppose Zoey is a knight. Then she lies."):
    return f"<think>{thought}</think>\n<answer>{answer}</answer>"


def one(response, gold=GOLD, **options):
    return load_verifier("kk", **options)([gold], [response])[0]


def test_the_sample_against_itself_and_flipped():
    verifier = load_verifier("kk", scale="adora")
    assert isinstance(verifier, Verifier)
    golds = [row["solution_text_format"] for row in ROWS]
    assert len(golds) == 20
    right = verifier(golds, [respond(row["solution_text"]) for row in ROWS])
    assert right == [Verdict(3.0, True, "correct")] * 20
    assert verifier([row["solution_text"] for row in ROWS], [respond(gold) for gold in golds]) == right
    flip = {"a knight": "a knave", "a knave": "a knight"}
    for row, gold in zip(ROWS, golds, strict=True):
        first, *rest = gold.split("\n")
        role = "a knight" if "a knight" in first else "a knave"
        wrong = "\n".join([first.replace(role, flip[role]), *rest])
        assert verifier([gold], [respond(wrong)]) == [Verdict(-0.5, False, "wrong")]
        assert verifier([gold], [respond("\n".join(rest))]) == [Verdict(-1.0, False, "unparsed")]
        assert verifier.usable(gold)
        assert verifier.answer_of(respond(gold)) == verifier.answer_of(respond(row["solution_text"]))


@pytest.mark.parametrize(
    "answer",
    [
        GOLD,
        "(1) Oliver is a knight\n(2) Zoey is a knave",
        RIGHT,
        "ZOEY IS A KNAVE. oliver is a Knight!",
        "**Zoey**: Knave\n**Oliver**: Knight",
        "- Zoey is a *knave*\n- Oliver is a *knight*",
        "| Name | Role |\n|---|---|\n| Zoey | knave |\n| Oliver | knight |",
        "Zoey -> knave; Oliver -> knight",
        "Zoey = knave, Oliver = knight",
        "Zoey (knave), Oliver (knight)",
        "Therefore, Zoey is definitely a knave and so Oliver must be a knight.",
        "Zoey is not a knight. Oliver isn't a knave.",
        "Zoey is no knight. Oliver is a knight.",
        "\\text{Zoey is a knave}, \\text{Oliver is a knight}",
        "Zoey is a kn\u200bave and Oliver is a knight",
        GOLD + "\nSo Zoey is a knave.",  # given twice
        GOLD + "\n(3) Bob is a knave\n(4) Bob is a knight",  # no Bob in the puzzle
        "Zoey says Oliver is a knight. Zoey is a knave.",
    ],
)
def test_right_in_many_shapes(answer):
    assert one(respond(answer), scale="adora") == Verdict(3.0, True, "correct")
    assert one(respond(answer)) == Verdict(1.0, True, "correct")


def test_several_people_in_one_statement():
    gold = "(1) Ann is a knave\n(2) Bob is a knave\n(3) Cy is a knight"
    assert one(respond("Ann and Bob are knaves, Cy is a knight"), gold).correct
    assert one(respond("Ann, Bob, and Cy are knaves"), gold) == Verdict(0.0, False, "wrong")


@pytest.mark.parametrize(
    "answer",
    [
        "Zoey is a knight and Oliver is a knight",
        "Zoey and Oliver are knights",
        "Zoey is a knight, Oliver is a knave",
        "Zoey is not a knave, Oliver is a knight",
    ],
)
def test_wrong(answer):
    assert one(respond(answer), scale="adora") == Verdict(-0.5, False, "wrong")
    assert one(respond(answer)) == Verdict(0.0, False, "wrong")


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "42",
        "Zoey is a knave",  # partial
        "It is false that Zoey is a knave. Oliver is a knight",
        "Oliver is a knight. Bob is a knave",
        GOLD + "\n(3) Zoey is a knight",  # contradiction
        "Zoey is a knave or a knight, Oliver is a knight",
        "Either Zoey is a knave or Oliver is a knight",
        "Zoey is a knave (not a knight), Oliver is a knight",
        "knave knight",
        "Zoeyy is a knave, Oliver is a knight",
        "Zoey is a knaveknight, Oliver is a knight",
        "Zoey is a knave. Oliver is a knight. " * 200,  # longer than any answer
    ],
)
def test_unparsed(answer):
    assert one(respond(answer), scale="adora") == Verdict(-1.0, False, "unparsed")
    assert one(respond(answer)) == Verdict(0.0, False, "unparsed")


@pytest.mark.parametrize(
    "response",
    [
        "",
        RIGHT,
        f"<answer>{RIGHT}</answer>",
        f"<think>a</think>{RIGHT}",
        f"<think>a</think><answer>{RIGHT}",
        f"<think>a<answer>{RIGHT}</answer>",
        f"a</think><answer>{RIGHT}</answer>",
        f"<answer>{RIGHT}</answer><think>a</think>",
        f"<think>a <answer>{RIGHT}</answer></think>",
        f"<think>a</think><think>b</think><answer>{RIGHT}</answer>",
        respond(RIGHT) + f"<answer>{RIGHT}</answer>",
        f"<THINK>a</THINK><ANSWER>{RIGHT}</ANSWER>",
    ],
)
def test_bad_format_is_minus_three_whatever_the_answer(response):
    assert one(response, scale="adora") == Verdict(-3.0, False, "unparsed")


def test_where_the_answer_is_when_only_right_and_wrong_count():
    assert one(RIGHT).correct
    assert one(f"Zoey is a knight, says who?</think>{RIGHT}").correct
    assert one(f"<answer>Zoey is a knight</answer> no: <answer>{RIGHT}</answer>").correct
    assert not one(f"<think>{RIGHT}</think>").correct  # a thought is no answer
    assert not one(f"<think>a</think><answer></answer> {RIGHT}").correct


def test_a_prompt_that_opens_the_thought_itself():
    response = f"I think.</think><answer>{RIGHT}</answer>"
    assert one(response, scale="adora").score == -3.0
    assert one(response, scale="adora", opened=True).score == 3.0
    assert one("<think>" + response, scale="adora", opened=True).score == -3.0


@pytest.mark.parametrize("gold", ["", "no one", "Zoey is a knight\nZoey is a knave"])
def test_a_gold_that_cannot_be_read_is_no_reward(gold):
    """cookbook#335: never right, never wrong, and no row of a data set."""
    assert one(respond(RIGHT), gold) == Verdict(None, None, "error")
    assert not load_verifier("kk").usable(gold)


def test_answer_of_for_majority_votes():
    answer_of = load_verifier("kk").answer_of
    assert answer_of(respond(RIGHT)) == answer_of("So Oliver: knight; Zoey: KNAVE.") == "oliver=knight zoey=knave"
    assert answer_of(respond("I do not know")) is None
    assert answer_of(respond(GOLD + "\nZoey is a knight")) is None


def test_options_are_checked():
    with pytest.raises(ValueError, match="scale must be adora or binary, got 'logic'"):
        load_verifier("kk", scale="logic")
    with pytest.raises(ValueError, match="opened must be true or false"):
        load_verifier("kk", opened="no")
    with pytest.raises(ValueError, match="no option 'scales'; did you mean 'scale'"):
        load_verifier("kk", scales="adora")


NAMES = ["Ann", "Bob", "Cy", "Dee", "Eve", "Flo", "Gus", "Hal"]


@given(
    roles=st.lists(st.booleans(), min_size=2, max_size=8), seed=st.integers(0, 999), flips=st.sets(st.integers(0, 7))
)
def test_any_assignment_in_any_order(roles, seed, flips):
    said = [role ^ (i in flips) for i, role in enumerate(roles)]
    lines = [f"{name} is a {'knight' if role else 'knave'}" for name, role in zip(NAMES, said, strict=False)]
    random.Random(seed).shuffle(lines)
    gold = "\n".join(
        f"({i + 1}) {name} is a {'knight' if role else 'knave'}"
        for i, (name, role) in enumerate(zip(NAMES, roles, strict=False))
    )
    assert one(respond("\n".join(lines)), gold).correct == (said == roles)


@given(st.text(alphabet="ab ,.:|()\n-=<>/", max_size=80))
def test_any_text_has_a_verdict(text):
    assert one(respond("Zoey is a knight or " + text)).outcome == "unparsed"
    assert one(text, scale="adora").score == -3.0


@pytest.mark.parametrize("unit", ["Zoey is a ", "Zoey and ", "knight ", "Zoey, ", "<answer>", "</think>", "is ", "("])
def test_long_repetitions_take_no_time(unit):
    started = time.perf_counter()
    one(unit * (200_000 // len(unit)))
    one(respond(unit * (3_900 // len(unit))), scale="adora")
    assert time.perf_counter() - started < 2
