"""What generation needs besides the model: the tokens that end a response, batches, seeds."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def end_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, task: object = None) -> list[int]:
    """All token ids that end a response: the model's generation config (which may list several), the tokenizer's
    EOS, and every token that holds a character of the task's `stop`, if it has one (a few-shot prompt for a base
    model stops at the line break). Raises ValueError when there is none."""
    return ends(model.generation_config, tokenizer, task)


def ends(generation_config: Any, tokenizer: PreTrainedTokenizerBase, task: object = None) -> list[int]:
    """`end_ids` of a model known by its generation config alone (None: it has none)."""
    configured = getattr(generation_config, "eos_token_id", None)
    ids = configured if isinstance(configured, list) else [configured]
    found = sorted({int(i) for i in [*ids, tokenizer.eos_token_id, *stop_ids(tokenizer, task)] if i is not None})
    if not found:
        raise ValueError("neither the model nor the tokenizer names an end-of-sequence token; set eos_token")
    return found


def stop_ids(tokenizer: PreTrainedTokenizerBase, task: object) -> list[int]:
    """The tokens that hold one of the characters of `task.stop`; [] for a task without."""
    characters: str = getattr(task, "stop", "")
    if not characters:
        return []
    texts = tokenizer.batch_decode([[i] for i in range(len(tokenizer))], clean_up_tokenization_spaces=False)
    return [i for i, text in enumerate(texts) if any(c in text for c in characters)]


def cut(tokens: Sequence[int], eos_ids: Sequence[int]) -> list[int]:
    """Up to and including the first end token."""
    for at, token in enumerate(tokens):
        if token in eos_ids:
            return list(tokens[: at + 1])
    return list(tokens)


def batches(prompts: Sequence[Sequence[int]], samples: int, batch_size: int) -> list[list[int]]:
    """Indices of whole problems to be answered together, prompts of like length in one batch: as many as have
    `batch_size` responses, at least one. Depends on nothing but the arguments, so a resumed evaluation has the same."""
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    size = max(1, batch_size // samples)
    return [order[start : start + size] for start in range(0, len(order), size)]


def seed_of(seed: int, problem: str, sample: int) -> int:
    """The seed in 0 .. 2**63 - 1 of one response: a hash of the run's seed, the problem's id and the sample's
    number."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{sample}/{problem}".encode()).digest()[:8], "big") >> 1
