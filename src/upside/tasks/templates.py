"""Prompt templates by name: what the papers and their tool kits put around a problem.

A template is a text with `{prompt}`, a system prompt and whether the model's chat template is used (`chat`) or the
text goes to the model as it is. `text` of a chat template is what the user says; the chat template itself always comes
from the model's tokenizer. Chat markers of one model family never stand here.

The long prompts with <think> and <answer> are worded here: same format, not the letter of the released ones, which
`system` and `template` can give. CANON's training set carries a system prompt in its rows; the preset
`openr1_math_46k` uses it.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass


@dataclass(frozen=True)
class PromptTemplate:
    """text: holds `{prompt}`. system: system prompt, None for none. chat: False for plain text (base models).
    source: whose it is; for the lists and the docs."""

    text: str
    system: str | None = None
    chat: bool = True
    source: str = "own"


_BOXED = "Please reason step by step, and put your final answer within \\boxed{}."
_THINK = (
    "Think before you answer. Write your reasoning between <think> and </think>, then the answer between <answer> and "
    "</answer>."
)
_THINK_BOXED = _THINK + " Put the final result of the answer within \\boxed{}. Write in English."
_KK = _THINK + (
    " The question is a puzzle about knights, who always tell the truth, and knaves, who always lie. The answer says "
    "of each person in turn what they are, one a line:\n<answer>\n(1) Ada is a knight\n(2) Ben is a knave\n</answer>"
)

TEMPLATES: dict[str, PromptTemplate] = {
    "plain": PromptTemplate("{prompt}", source="the problem alone"),
    "boxed": PromptTemplate("{prompt}\n" + _BOXED, source="Qwen2.5-Math's instruction as part of the question"),
    "qwen_math": PromptTemplate("{prompt}", system=_BOXED, source="Qwen2.5-Math (qwen25-math-cot)"),
    "simplerl_qwen": PromptTemplate(
        "{prompt}\n" + _BOXED, system="You are a helpful assistant.", source="SimpleRL-Zoo, qwen-boxed; AAPO 7B"
    ),
    "simplerl_abel": PromptTemplate(
        "Question:\n{prompt}\nAnswer:\nLet's think step by step.\n", chat=False, source="SimpleRL-Zoo, abel; AAPO Llama"
    ),
    "think_answer": PromptTemplate("{prompt}", system=_THINK),
    "think_answer_base": PromptTemplate(_THINK + "\n\nUser: {prompt}\nAssistant: <think>", chat=False),
    "think_boxed": PromptTemplate("{prompt}", system=_THINK_BOXED),
    "kk": PromptTemplate("{prompt}", system=_KK),
    "kk_base": PromptTemplate(_KK + "\n\nUser: {prompt}\nAssistant: <think>", chat=False),
    "question_answer": PromptTemplate("Question: {prompt}\nAnswer:", chat=False),
    "few_shot": PromptTemplate(
        "Question: Ann has 3 pens and buys 4 more. How many pens has she?\nAnswer: 3 + 4 = 7. #### 7\n\n"
        "Question: A box holds 6 eggs. How many eggs are in 5 boxes?\nAnswer: 6 * 5 = 30. #### 30\n\n"
        "Question: {prompt}\nAnswer:",
        chat=False,
    ),
}


def template(text: str) -> PromptTemplate:
    """The template of that name, or `text` itself around the prompt when it holds `{prompt}`. ValueError otherwise."""
    if not isinstance(text, str):
        raise ValueError(f"template must contain {{prompt}} or be a template's name, got {text!r}")
    if "{prompt}" in text:
        return PromptTemplate(text)
    if text not in TEMPLATES:
        near = difflib.get_close_matches(text, TEMPLATES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"names: {', '.join(TEMPLATES)}"
        raise ValueError(f"template must contain {{prompt}} or be the name of a template, got {text!r}; {hint}")
    return TEMPLATES[text]
