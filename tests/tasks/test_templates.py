"""Prompt templates by name."""

import re

import pytest

from upside.tasks.templates import TEMPLATES, template


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
    assert "within \\boxed{{}} . The reasoning" in str(TEMPLATES["open_rs"].system)  # the braces as released
    assert TEMPLATES["r1_zero"].text.endswith("</answer>.\nUser: {prompt}\nAssistant: <think>")
    assert str(TEMPLATES["adora_kk"].system).endswith("i.e., <answer> (1) Zoey is a knight\n(2) ... </answer>.\n")
