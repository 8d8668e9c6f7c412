"""Prompt templates by name: what the papers and their tool kits put around a problem.

A template is a text with `{prompt}`, a system prompt and whether the model's chat template is used (`chat`) or the
text goes to the model as it is. `text` of a chat template is what the user says; the chat template itself always comes
from the model's tokenizer. Chat markers of one model family never stand here.

CANON's own prompts stand in an appendix that could not be read: no template claims to be them. Its training set
carries a system prompt in its rows, which the preset `openr1_math_46k` uses.
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
_R1 = (
    "A conversation between User and Assistant. The User asks a question, and the Assistant solves it. The Assistant "
    "first thinks about the reasoning process in the mind and then provides the User with the answer. The reasoning "
    "process is enclosed within <think> </think> and answer is enclosed within <answer> </answer> tags, respectively, "
    "i.e., <think> reasoning process here </think> <answer> answer here </answer>."
)
# The braces are doubled in the released YAML and nothing formats them, so the model sees \boxed{{}}.
_OPEN_RS = (
    "A conversation between User and Assistant. The user asks a question, and the Assistant solves it. The assistant "
    "first thinks about the reasoning process in the mind and then provides the user with the answer, and put your "
    "final answer within \\boxed{{}} . The reasoning process and answer are enclosed within <think> </think> and "
    "<answer> </answer> tags, respectively, i.e., <think> reasoning process here </think> <answer> answer here "
    "</answer>. Note that respond by English, NOT use other languages."
)
_KK = (
    "You are a helpful assistant. The assistant first thinks about the reasoning process in the mind and then "
    "provides the user with the answer. The reasoning process and answer are enclosed within <think> </think> "
    "and<answer> </answer> tags, respectively, i.e., <think> reasoning process here </think><answer> answer here "
    "</answer>.  Now the user asks you to solve a logical reasoning problem. After thinking, when you finally reach a "
    "conclusion, clearly state the identity of each character within <answer> </answer> tags. i.e., <answer> (1) Zoey "
    "is a knight\n(2) ... </answer>.\n"
)
_KK_BASE = (
    "The user asks a question, and the Assistant solves it.The assistant first thinks about the reasoning process in "
    "the mind and then provides the user with the final answer. The reasoning process and answer are enclosed within "
    "<think> </think> and <answer> </answer> tags, respectively, i.e., <think> reasoning process here "
    "</think><answer> answer here </answer>. Now the user asks you to solve a logical reasoning problem. After "
    "thinking, when you finally reach a conclusion, clearly state the identity of each character within <answer> "
    "</answer> tags. List the identity of each person one by one, for example, <answer> (1) Zoey is a knight\n(2) "
    "Oliver is a knight\n(3)... </answer>.\n\nUser:{prompt}\nAssistant: <think>"
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
    "open_rs": PromptTemplate("{prompt}", system=_OPEN_RS, source="open-rs; AAPO 1.5B"),
    "r1_zero": PromptTemplate(
        _R1 + "\nUser: {prompt}\nAssistant: <think>", chat=False, source="DeepSeek-R1-Zero in understand-r1-zero's form"
    ),
    "adora_kk": PromptTemplate("{prompt}\n", system=_KK, source="ADORA (qwen-instruct), without its opening <think>"),
    "adora_kk_base": PromptTemplate(_KK_BASE, chat=False, source="ADORA and Logic-RL (base)"),
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
