"""The one way a prompt becomes tokens, shared by training and evaluation.

A tokenizer with a chat template gets the prompt as a user message (after the system prompt, if there is one) and the
template's generation prompt; one without, or a problem with chat=False, gets the plain text. Special tokens come from
exactly one place: the chat template, or for plain text what the tokenizer puts before it. So BOS is never doubled (by a
text that begins with it) and never lost, and an EOS that a tokenizer appends never ends a prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from upside.tasks.base import Problem

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Message = dict[str, str]
_NO_SYSTEM = (
    'the tokenizer\'s chat template {}; set system: "" and write the text into the task option template, such as '
    'template: "Put the answer in \\\\boxed{{}}. {{prompt}}"'
)


def render_prompt(tokenizer: PreTrainedTokenizerBase, problem: Problem) -> str | list[Message]:
    """The prompt as a trainer takes it: messages where there is a chat template (and the problem wants it), else
    the text itself. AdvantageTrainer turns either into the ids that `prompt_ids` gives.

    Raises ValueError for a system prompt without a chat template to put it in, and for a problem with pictures, which
    would be answered blind.
    """
    if problem.images:
        raise ValueError(
            f"problem {problem.id!r} has pictures, which a tokenizer cannot show to a model; use a task of text alone"
        )
    if not (tokenizer.chat_template and problem.chat):
        if problem.system is not None:
            raise ValueError(
                f"problem {problem.id!r} has a system prompt, but the tokenizer has no chat template; "
                "write it into the prompt's template instead"
            )
        return problem.prompt
    system = [{"role": "system", "content": problem.system}] if problem.system is not None else []
    return [*system, {"role": "user", "content": problem.prompt}]


def prompt_ids(tokenizer: PreTrainedTokenizerBase, problem: Problem) -> list[int]:
    """Token ids of a prompt, special tokens included, no padding.

    Raises ValueError when there are none, and for a system prompt that the chat template refuses or leaves out.
    """
    rendered = render_prompt(tokenizer, problem)
    ids = text_ids(tokenizer, rendered) if isinstance(rendered, str) else _chat_ids(tokenizer, rendered, problem)
    if not ids:
        raise ValueError(f"prompt {problem.prompt!r:.60} has no tokens; give it text or use a tokenizer with BOS")
    return ids


def text_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Token ids of plain text to be continued: what the tokenizer puts before any text (BOS), unless the text begins
    with it already, then the text. What it would put after a text (EOS) is left out."""
    whole: list[int] = list(tokenizer(text)["input_ids"])
    bare: list[int] = list(tokenizer(text, add_special_tokens=False)["input_ids"])
    start = next((i for i in range(len(whole)) if whole[i : i + len(bare)] == bare), 0)
    before = whole[:start]
    return bare if bare[:start] == before else before + bare


def _chat_ids(tokenizer: PreTrainedTokenizerBase, messages: list[Message], problem: Problem) -> list[int]:
    system = problem.system

    def render(said: list[Message], **how: Any) -> Any:
        return tokenizer.apply_chat_template(said, add_generation_prompt=True, **how)

    try:
        text = render(messages, tokenize=False)
        heard = system is None or text != render(messages[1:], tokenize=False)
        if system is not None and not heard:  # the template's own default, which stands there without it as well
            heard = text.count(system.strip()) > problem.prompt.count(system.strip())
        ids: list[int] = list(render(messages, tokenize=True, return_dict=True)["input_ids"])
    except Exception as error:  # a template is a program of its author
        failure = f"{type(error).__name__}: {error}"
        if system is None:
            raise ValueError(f"the tokenizer's chat template cannot render a user message ({failure})") from error
        raise ValueError(f"task option system: {_NO_SYSTEM.format(f'refuses it ({failure})')}") from error
    if not heard:
        raise ValueError(f"task option system: {_NO_SYSTEM.format('leaves it out')}")
    return ids


def within_limit(
    tokenizer: PreTrainedTokenizerBase, problems: Sequence[Problem], max_tokens: int
) -> tuple[list[Problem], int]:
    """The problems whose prompt has at most `max_tokens` tokens, and how many were left out."""
    kept = [p for p in problems if len(prompt_ids(tokenizer, p)) <= max_tokens]
    return kept, len(problems) - len(kept)
