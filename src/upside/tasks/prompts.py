"""The one way a prompt becomes tokens, shared by training and evaluation.

A tokenizer with a chat template gets the prompt as a user message (after the system prompt, if there is one) and the
template's generation prompt; one without, or a problem with chat=False, gets the plain text. Special tokens come from
exactly one place (the template, or the tokenizer where there is none), so BOS is never doubled and never lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from upside.tasks.base import Problem

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Message = dict[str, str]


def render_prompt(tokenizer: PreTrainedTokenizerBase, problem: Problem) -> str | list[Message]:
    """The prompt as a trainer takes it: messages where there is a chat template (and the problem wants it), else
    the text itself. TRL turns either into the ids that `prompt_ids` gives.

    Raises ValueError for a system prompt without a chat template to put it in.
    """
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
    """Token ids of a prompt, special tokens included, no padding. Raises ValueError when there are none."""
    rendered: Any = render_prompt(tokenizer, problem)
    if isinstance(rendered, str):
        ids = tokenizer(rendered)["input_ids"]
    else:
        encoded = tokenizer.apply_chat_template(rendered, add_generation_prompt=True, tokenize=True, return_dict=True)
        ids = encoded["input_ids"]
    if not ids:
        raise ValueError(f"prompt {problem.prompt!r:.60} has no tokens; give it text or use a tokenizer with BOS")
    return list(ids)


def within_limit(
    tokenizer: PreTrainedTokenizerBase, problems: Sequence[Problem], max_tokens: int
) -> tuple[list[Problem], int]:
    """The problems whose prompt has at most `max_tokens` tokens, and how many were left out."""
    kept = [p for p in problems if len(prompt_ids(tokenizer, p)) <= max_tokens]
    return kept, len(problems) - len(kept)
