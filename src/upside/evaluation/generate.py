"""Responses from a model, reproducible and without touching the caller's random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Progress = Callable[[int, int], None]
"""Called with (responses done, responses in all) after every batch."""

Backend = Callable[["PreTrainedModel", Sequence[Sequence[int]], Sequence[int], "Sampling"], list[list[int]]]
"""(model, prompt ids, ids that end a response, settings) -> generated ids, up to and including the first end."""


@dataclass(frozen=True)
class Sampling:
    """How responses are drawn. top_k 0 and top_p 1.0 mean no truncation; greedy ignores all three."""

    max_new_tokens: int = 96
    greedy: bool = False
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1, got {self.max_new_tokens}")
        if not self.greedy and not self.temperature > 0:
            raise ValueError(
                f"temperature must be positive, got {self.temperature}; use greedy for the likeliest tokens"
            )
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")
        if self.top_k < 0:
            raise ValueError(f"top_k must be 0 (off) or more, got {self.top_k}")


def end_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, task: object = None) -> list[int]:
    """All token ids that end a response: the model's generation config (which may list several), the tokenizer's
    EOS, and every token that holds a character of the task's `stop`, if it has one (a few-shot prompt for a base
    model stops at the line break). Raises ValueError when there is none."""
    configured = getattr(model.generation_config, "eos_token_id", None)
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


def generate(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    eos_ids: Sequence[int],
    sampling: Sampling,
    *,
    batch_size: int = 128,
    seed: int = 0,
    progress: Progress | None = None,
    backend: Backend | None = None,
) -> list[list[int]]:
    """One response per prompt (token ids without padding), as generated ids up to and including the first end
    token, in the order of the prompts.

    Rows go through the model in batches of equal-ish prompt length. The same seed, batch size and machine give
    the same responses; the random state of the caller is as before afterwards, and so is the model's training
    mode. backend: default `transformers_backend`.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    run = backend or transformers_backend
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))  # stable: repeats stay neighbours
    out: list[list[int]] = [[] for _ in prompts]
    with _undisturbed(model):
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            torch.manual_seed((seed * 1_000_003 + start // batch_size) % 2**63)
            for row, ids in zip(rows, run(model, [prompts[i] for i in rows], eos_ids, sampling), strict=True):
                out[row] = ids
            if progress is not None:
                progress(start + len(rows), len(order))
    return out


def transformers_backend(
    model: PreTrainedModel, prompts: Sequence[Sequence[int]], eos_ids: Sequence[int], sampling: Sampling
) -> list[list[int]]:
    """`model.generate` on one left-padded batch; it ends when every row has."""
    from transformers import GenerationConfig

    width = max(len(prompt) for prompt in prompts)
    pad = eos_ids[0]  # where it stands is told by the mask, never by the value
    ids = torch.full((len(prompts), width), pad)
    mask = torch.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(prompt)
        mask[row, width - len(prompt) :] = 1
    choice: dict[str, Any] = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
    if not sampling.greedy:
        choice = {
            "do_sample": True,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
        }
    config = GenerationConfig(
        max_new_tokens=sampling.max_new_tokens,
        eos_token_id=list(eos_ids),
        pad_token_id=pad,
        use_cache=True,
        **choice,
    )
    with _own_generation_config(model, config):
        tokens = model.generate(input_ids=ids.to(model.device), attention_mask=mask.to(model.device))
    return [_cut(row, eos_ids) for row in tokens[:, width:].tolist()]


def upside_backend(
    model: PreTrainedModel, prompts: Sequence[Sequence[int]], eos_ids: Sequence[int], sampling: Sampling
) -> list[list[int]]:
    """The package's own sampler: drops finished rows and reads repeated prompts once."""
    from upside.engines.sampler import sample

    return sample(
        model,
        prompts,
        eos_ids=eos_ids,
        max_new_tokens=sampling.max_new_tokens,
        temperature=sampling.temperature,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        greedy=sampling.greedy,
    ).ids


def _cut(tokens: list[int], eos_ids: Sequence[int]) -> list[int]:
    """Up to and including the first end token."""
    for at, token in enumerate(tokens):
        if token in eos_ids:
            return tokens[: at + 1]
    return tokens


@contextmanager
def _own_generation_config(model: PreTrainedModel, config: Any) -> Iterator[None]:
    """Generate with exactly this config: what a checkpoint's own one sets (a temperature of 0.6, a repetition
    penalty) would otherwise fill in whatever is left open."""
    saved = model.generation_config
    model.generation_config = config
    try:
        yield
    finally:
        model.generation_config = saved


@contextmanager
def _undisturbed(model: PreTrainedModel) -> Iterator[None]:
    """Evaluation mode, no gradients; random state and training mode restored afterwards. (no_grad, because
    what a model caches under inference_mode could not be trained through later.)"""
    devices = [model.device] if model.device.type == "cuda" else []
    was_training = model.training
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        model.eval()
        try:
            yield
        finally:
            model.train(was_training)
