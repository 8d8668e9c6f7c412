"""Prompt templates by name."""

import re

import pytest

from upside.tasks.templates import TEMPLATES, template
from upside.verifiers.kk import KkVerifier


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_holds_the_prompt_once_and_no_chat_marker(name):
    found = TEMPLATES[name]
    assert found.text.count("{prompt}") == 1
    assert not re.search(r"<\|\w+\|>", f"{found.text}{found.system}")  # those come from the tokenizer's template
    assert found.chat or found.system is None


def test_a_name_or_a_text():
    assert template("boxed") is TEMPLATES["boxed"]
    own = template("Q: {prompt}\nA: {x} \\boxed{}")
    assert (own.text, own.system, own.chat) == ("Q: {prompt}\nA: {x} \\boxed{}", None, True)
    with pytest.raises(ValueError, match="did you mean 'simplerl_qwen'"):
        template("simplerl_qwn")
    with pytest.raises(ValueError, match="got 3"):
        template(3)  # type: ignore[arg-type]


def test_texts_of_the_papers():
    qwen = "Please reason step by step, and put your final answer within \\boxed{}."
    assert TEMPLATES["qwen_math"].system == qwen
    assert TEMPLATES["simplerl_qwen"].text == "{prompt}\n" + qwen
    assert TEMPLATES["simplerl_qwen"].system == "You are a helpful assistant."
    assert TEMPLATES["simplerl_abel"].text == "Question:\n{prompt}\nAnswer:\nLet's think step by step.\n"


@pytest.mark.parametrize("name", ["kk", "kk_base"])
def test_the_format_asked_for_is_the_format_rewarded(name):
    """What the kk prompts show as an answer is read by the kk verifier; its base form opens the thought."""
    text = TEMPLATES[name].system or TEMPLATES[name].text
    response = "<think>Ada says so.</think>\n" + re.search(r"<answer>\n.*?</answer>", text, re.DOTALL)[0]
    (verdict,) = KkVerifier(scale="adora")(["(1) Ada is a knight\n(2) Ben is a knave"], [response])
    assert verdict.score == 3.0
    assert TEMPLATES["kk_base"].text.endswith("<think>")
