"""The one way a prompt becomes tokens, shared by training and evaluation.

A tokenizer with a chat template gets the prompt as a user message (after the system prompt, if there is one) and the
template's generation prompt; one without, or a problem with chat=False, gets the plain text. Special tokens come from
exactly one place: the chat template, or for plain text what the tokenizer puts before it. So BOS is never doubled (by a
text that begins with it) and never lost, and an EOS that a tokenizer appends never ends a prompt.

A model that takes pictures has a processor where others have a tokenizer. It gets messages of content blocks: text, and
one for each picture, in the order of the prompt's marks (`upside.tasks.pictures.blocks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from upside.tasks.base import Problem
from upside.tasks.pictures import MARK, PictureError, blocks

if TYPE_CHECKING:
    from PIL.Image import Image
    from transformers import PreTrainedTokenizerBase, ProcessorMixin

Reader: TypeAlias = "PreTrainedTokenizerBase | ProcessorMixin"
"""What turns a prompt into tokens: a tokenizer, or the processor of a model that takes pictures."""

Message = dict[str, Any]
_NO_SYSTEM = (
    'the tokenizer\'s chat template {}; set system: "" and write the text into the task option template, such as '
    'template: "Put the answer in \\\\boxed{{}}. {{prompt}}"'
)


def takes_pictures(reader: Any) -> bool:
    """Whether it is the processor of a model that takes pictures."""
    return hasattr(reader, "image_processor")


def tokenizer_of(reader: Reader) -> PreTrainedTokenizerBase:
    """The tokenizer, whether alone or within a processor."""
    tokenizer: PreTrainedTokenizerBase = getattr(reader, "tokenizer") if takes_pictures(reader) else reader  # noqa: B009
    return tokenizer


def render_prompt(reader: Reader, problem: Problem) -> str | list[Message]:
    """The prompt as a trainer takes it: messages where there is a chat template (and the problem wants it), else
    the text itself. AdvantageTrainer turns either into the ids that `prompt_ids` gives. For a processor the contents
    are blocks, {"type": "image"} for each picture.

    Raises ValueError for a system prompt without a chat template to put it in, and PictureError for a problem with
    pictures that the model would have to answer blind.
    """
    seeing = takes_pictures(reader)
    if problem.images and not seeing:
        raise PictureError(
            f"problem {problem.id!r} has pictures, and the model takes text alone; use a model that sees, such as "
            "bundled_vision, or a task of text"
        )
    if seeing:
        _check_marks(reader, problem)
    if not (reader.chat_template and problem.chat):
        if problem.system is not None:
            raise ValueError(
                f"problem {problem.id!r} has a system prompt, but the tokenizer has no chat template; "
                "write it into the prompt's template instead"
            )
        if problem.images:
            raise PictureError(f"problem {problem.id!r} has pictures, and the processor has no chat template for them")
        return problem.prompt
    system, prompt = problem.system, problem.prompt
    said: list[tuple[str, Any]] = [("system", system)] if system is not None else []
    if not seeing:
        return [{"role": role, "content": text} for role, text in [*said, ("user", prompt)]]
    asked = blocks(prompt, len(problem.images)) if problem.images else [{"type": "text", "text": prompt}]
    contents = [(role, [{"type": "text", "text": text}]) for role, text in said]
    return [{"role": role, "content": content} for role, content in [*contents, ("user", asked)]]


def _check_marks(reader: Reader, problem: Problem) -> None:
    """PictureError for text in which the model would look for a picture that is not there."""
    asked = problem.prompt.replace(MARK, "") if problem.images else problem.prompt
    for where, text in (("prompt", asked), ("system prompt", problem.system or "")):
        for mark in (MARK, getattr(reader, "image_token", None)):
            if isinstance(mark, str) and mark in text:
                raise PictureError(
                    f"problem {problem.id!r}: the {where} holds {mark}, which stands for a picture, and there is none "
                    f"for it; name the column of the pictures with the task option image, or take it out of the text"
                )


def prompt_ids(reader: Reader, problem: Problem) -> list[int]:
    """Token ids of a prompt, special tokens included, no padding; those that stand for its pictures among them.

    Raises ValueError when there are none, and for a system prompt that the chat template refuses or leaves out;
    PictureError for a picture that cannot be loaded, or that the processor refuses.
    """
    rendered = render_prompt(reader, problem)
    if isinstance(rendered, str):
        ids = text_ids(tokenizer_of(reader), rendered)
    else:
        ids = _chat_ids(reader, with_pictures(rendered, loaded(problem)) if problem.images else rendered, problem)
    if not ids:
        raise ValueError(f"prompt {problem.prompt!r:.60} has no tokens; give it text or use a tokenizer with BOS")
    return ids


def loaded(problem: Problem) -> list[Image]:
    """The pictures of a problem. PictureError names the problem."""
    try:
        return [picture.load() for picture in problem.images]
    except PictureError as error:
        raise PictureError(f"problem {problem.id!r}: {error}") from None


def with_pictures(messages: Any, images: Sequence[Image]) -> list[Message]:
    """The messages with each picture in its block, as a processor's chat template takes them."""
    left = iter(images)
    fill = lambda block: {**block, "image": next(left)} if block["type"] == "image" else block  # noqa: E731
    return [{**message, "content": [fill(block) for block in message["content"]]} for message in messages]


def text_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Token ids of plain text to be continued: what the tokenizer puts before any text (BOS), unless the text begins
    with it already, then the text. What it would put after a text (EOS) is left out."""
    whole: list[int] = list(tokenizer(text)["input_ids"])
    bare: list[int] = list(tokenizer(text, add_special_tokens=False)["input_ids"])
    start = next((i for i in range(len(whole)) if whole[i : i + len(bare)] == bare), 0)
    before = whole[:start]
    return bare if bare[:start] == before else before + bare


def _chat_ids(reader: Reader, messages: list[Message], problem: Problem) -> list[int]:
    system = problem.system

    def render(said: list[Message], **how: Any) -> Any:
        return reader.apply_chat_template(said, add_generation_prompt=True, **how)

    try:
        ids = message_ids(reader, messages)
        text = "" if system is None else render(messages, tokenize=False)
        heard = system is None or text != render(messages[1:], tokenize=False)
        if system is not None and not heard:  # the template's own default, which stands there without it as well
            heard = text.count(system.strip()) > problem.prompt.count(system.strip())
    except Exception as error:  # a template is a program of its author
        failure = f"{type(error).__name__}: {error}"
        if problem.images:
            raise PictureError(f"problem {problem.id!r}: the model's processor refuses it ({failure})") from error
        if system is None:
            raise ValueError(f"the tokenizer's chat template cannot render a user message ({failure})") from error
        raise ValueError(f"task option system: {_NO_SYSTEM.format(f'refuses it ({failure})')}") from error
    if not heard:
        raise ValueError(f"task option system: {_NO_SYSTEM.format('leaves it out')}")
    return ids


_SEEN: WeakKeyDictionary[Any, dict[str, list[int]]] = WeakKeyDictionary()


def message_ids(reader: Reader, messages: Sequence[Message]) -> list[int]:
    """Token ids of messages with the generation prompt, by the chat template. A processor, for which the blocks hold
    their pictures, is asked once for each text with pictures of these sizes: that is all its tokens depend on."""
    how: dict[str, Any] = {"add_generation_prompt": True, "tokenize": True, "return_dict": True}
    if not takes_pictures(reader):
        return list(reader.apply_chat_template(messages, **how)["input_ids"])
    size = lambda block: block["image"].size if "image" in block else block  # noqa: E731
    key = repr([(message["role"], list(map(size, message["content"]))) for message in messages])
    known = _SEEN.setdefault(reader, {})
    if key not in known:
        if len(known) >= 10_000:
            known.clear()
        known[key] = list(reader.apply_chat_template([messages], **how)["input_ids"][0])
    return list(known[key])


def within_limit(reader: Reader, problems: Sequence[Problem], max_tokens: int) -> tuple[list[Problem], int]:
    """The problems whose prompt has at most `max_tokens` tokens, and how many were left out."""
    kept = [p for p in problems if len(prompt_ids(reader, p)) <= max_tokens]
    return kept, len(problems) - len(kept)
