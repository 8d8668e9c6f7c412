"""The prompt that a model reads in evaluation: the one that training feeds it."""

from types import SimpleNamespace

import pytest

from upside.tasks import Problem
from upside.tasks.prompts import prompt_ids, render_prompt, within_limit


def ask(text: str, **how) -> Problem:
    return Problem("p", text, "", **how)


def test_a_chat_prompt_has_one_bos(tokenizer):
    # trl#3520, marin#7179: BOS lost; cookbook pitfall 5: raw encode
    ids = prompt_ids(tokenizer, ask("1+1"))
    assert tokenizer.decode(ids) == "<bos><user>1+1\n<assistant>"
    assert ids.count(tokenizer.bos_token_id) == 1
    assert render_prompt(tokenizer, ask("1+1")) == [{"role": "user", "content": "1+1"}]


def test_a_system_prompt_comes_first(tokenizer, tokenizer_with):
    asked = ask("1+1", system="Be brief.")
    assert [m["role"] for m in render_prompt(tokenizer, asked)] == ["system", "user"]
    with pytest.raises(ValueError, match="no chat template"):
        render_prompt(tokenizer_with(None), asked)


def test_a_base_model_gets_plain_text_whatever_its_template(tokenizer):
    asked = ask("Q: 1+1\nA:", chat=False)
    assert render_prompt(tokenizer, asked) == "Q: 1+1\nA:"
    assert prompt_ids(tokenizer, asked) == tokenizer("Q: 1+1\nA:")["input_ids"]
    with pytest.raises(ValueError, match="no system prompt"):
        ask("1+1", system="Be brief.", chat=False)


def test_a_plain_prompt_is_text(tokenizer_with):
    plain = tokenizer_with(None)
    assert prompt_ids(plain, ask("1+1")) == plain("1+1")["input_ids"]
    with pytest.raises(ValueError, match="has no tokens"):
        prompt_ids(plain, ask(""))


@pytest.mark.parametrize("templated", [True, False])
def test_trl_reads_the_same_prompt_tokens(tokenizer, tokenizer_with, templated):
    """What TRL's trainer makes of a rendered prompt is what evaluation feeds the model."""
    from trl.trainer.grpo_trainer import GRPOTrainer

    used = tokenizer if templated else tokenizer_with(None)
    trainer = SimpleNamespace(
        _is_vlm=False,
        environment_factories=None,
        processing_class=used,
        tools=[],
        chat_template=None,
        chat_template_kwargs={},
    )
    prompts = [ask("1+1"), ask("A:Bn;B:A=C")]
    ids, _, _ = GRPOTrainer._tokenize_prompts(trainer, [render_prompt(used, p) for p in prompts])
    assert ids == [prompt_ids(used, p) for p in prompts]


def test_long_prompts_are_dropped_and_counted(tokenizer):
    problems = [Problem("a", "1+1", "2"), Problem("b", "1+1" * 50, "2")]
    assert within_limit(tokenizer, problems, 30) == (problems[:1], 1)
