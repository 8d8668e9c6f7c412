"""Few-shot arithmetic: prompts, splits, answers, and the line break that ends a response."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upside.evaluation.generate import end_ids, stop_ids
from upside.models.loading import load_model
from upside.tasks import Problem, load_task
from upside.tasks.fewshot import FewshotArithmetic
from upside.tasks.prompts import prompt_ids, render_prompt

TASK = FewshotArithmetic()
LINE = re.compile(r"(\d+) ([-+*]) (\d+) =(?: (-?\d+))?")
SUM = Problem("x", "7 + 9 =", "16", chat=False)


def test_problems() -> None:
    task = load_task("fewshot_arithmetic", operators="+-*", low=0, high=9, shots=3)
    train, test = task.problems("train"), task.problems("test")
    assert len(train) + len(test) == 100 + 55 + 100  # a - b only where a >= b
    assert len(test) == 36
    trained = {problem.id for problem in train}
    for problem in [*train, *test]:
        *shots, question = [LINE.fullmatch(line) for line in problem.prompt.split("\n")]
        assert len(shots) == 3
        assert question is not None
        assert question[4] is None
        for line, answer in [*((shot, shot[4]) for shot in shots if shot), (question, problem.answer)]:
            a, sign, b = int(line[1]), line[2], int(line[3])
            assert int(answer) == {"+": a + b, "-": a - b, "*": a * b}[sign] >= 0
        asked = f"{question[1]}{question[2]}{question[3]}"
        assert problem.id == f"fewshot_arithmetic/{asked}"
        assert problem.metadata["family"] == question[2]
        worked = {f"{shot[1]}{shot[2]}{shot[3]}" for shot in shots if shot}
        assert len(worked) == 3
        assert {f"fewshot_arithmetic/{name}" for name in worked} <= trained
        assert not worked & {asked, f"{question[3]}{question[2]}{question[1]}"}


def test_a_problem_and_its_mirror_are_on_the_same_side() -> None:
    sides = {p.id.split("/")[1]: side for side in ("train", "test") for p in TASK.problems(side)}
    assert len(sides) == 400 + 210
    for name, side in sides.items():
        a, b = name.split("+") if "+" in name else ("0", "0")
        assert sides.get(f"{b}+{a}", side) == side


def test_prompts_are_the_same_in_every_run() -> None:
    assert TASK.problems("test", 3, seed=5) == FewshotArithmetic().problems("test", 3, seed=5)
    prompts = {p.id: p.prompt for p in TASK.problems("test", seed=0)}
    assert prompts == {p.id: p.prompt for p in TASK.problems("test", seed=1)}
    assert prompts["fewshot_arithmetic/19+13"] == "17 + 16 = 33\n14 + 18 = 32\n19 + 13 ="


def test_template_and_negative() -> None:
    task = FewshotArithmetic("-", 1, 9, shots=1, template="{b} from {a}, {op}:", negative=True)
    problems = {p.id: p for p in task.problems("train") + task.problems("test")}
    assert len(problems) == 81
    found = problems["fewshot_arithmetic/3-8"]
    assert found.answer == "-5"
    assert found.prompt.split("\n")[1] == "8 from 3, -:"
    assert task.verify(found, " -5\n").correct
    assert not task.verify(found, " 5\n").correct


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        (" 16\n", "correct"),
        ("16", "correct"),
        (" 16 so 7 + 9", "correct"),
        (" the answer is 16.\n", "correct"),
        (" 16.\n17", "correct"),
        (" 17\n16", "wrong"),
        (" 7 + 9 = 16\n", "wrong"),  # the first number counts
        (" -16\n", "wrong"),
        (" 16.5\n", "wrong"),
        (" 16,000\n", "wrong"),
        (" 016\n", "wrong"),
        (" 161\n", "wrong"),
        (" ١٦\n", "unparsed"),  # digits of another script
        ("\n16", "unparsed"),
        ("", "unparsed"),
        (" sixteen\n", "unparsed"),
    ],
)
def test_answers(response: str, outcome: str) -> None:
    verdict = TASK.verify(SUM, response)
    assert verdict.outcome == outcome
    assert verdict.correct is (outcome == "correct")
    assert verdict.score == float(outcome == "correct")


@given(st.text(max_size=200))
def test_any_text_gets_a_verdict(response: str) -> None:
    verdict = TASK.verify(SUM, response)
    assert verdict.correct is (TASK.answer_of(response) == "16")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"operators": "+/"}, "operators='\\+/' must be a choice of"),
        ({"operators": ""}, "operators='' must be"),
        ({"low": 5, "high": 4}, "low=5, high=4 must satisfy"),
        ({"high": 100_000}, "high=100000 must satisfy"),
        ({"shots": -1}, "shots=-1 must be"),
        ({"template": "{a} {op}"}, "template='{a} {op}' must be one line with"),
        ({"template": "{a} {op} {b}\n="}, "must be one line"),
        ({"low": 1, "high": 1, "shots": 3}, "too few problems for 3 shots"),
        ({"shot": 3}, "has no option 'shot': did you mean 'shots'"),
    ],
)
def test_options_that_cannot_be_used(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_task("fewshot_arithmetic", **options)


def test_more_problems_than_there_are() -> None:
    with pytest.raises(ValueError, match="123 test problems asked for, the options hold 122"):
        TASK.problems("test", 123)


def test_prompts_stay_plain_text_and_responses_end_at_the_line_break() -> None:
    model, tokenizer = load_model("bundled")  # has a chat template, which this task does not want
    problem = TASK.problems("train", 1)[0]
    assert render_prompt(tokenizer, problem) == problem.prompt
    assert prompt_ids(tokenizer, problem) == tokenizer(problem.prompt)["input_ids"]
    assert end_ids(model, tokenizer, TASK) == end_ids(model, tokenizer)  # its vocabulary has no line break
    stopping = FewshotArithmetic()
    stopping.stop = "#;"
    ends = [tokenizer.convert_tokens_to_ids(c) for c in "#;"]
    assert stop_ids(tokenizer, stopping) == sorted(ends)
    assert end_ids(model, tokenizer, stopping) == sorted([*end_ids(model, tokenizer), *ends])
