"""A small batched sampler for any causal language model of transformers, and for some that take pictures.

`generate` pays for every row until the longest one ends. This loop drops finished rows, reads a prompt
that is repeated (the G responses of a group) only once, keeps keys and values in a preallocated buffer,
and returns the log-probability of each sampled token and the entropy of the distribution it came from,
which is what CANON reads. On the CPU it is the faster of the two; on a GPU use vLLM for large models.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from upside.engines.pictures import SAMPLED, Pictures, images_in
from upside.engines.sharded import gathered
from upside.tasks.prompts import message_ids


@dataclass(frozen=True)
class Samples:
    """One entry per prompt, in the order of the prompts; each inner list has one value per generated token.

    ids: token ids, the end-of-sequence token included.
    logps: log-probability in nats of each token after temperature (before top-k / top-p truncation).
    entropies: entropy in nats of that same distribution over the whole vocabulary.
    """

    ids: list[list[int]]
    logps: list[list[float]]
    entropies: list[list[float]]


class _BufferedLayer(DynamicLayer):
    """Keys and values (batch, heads, room, head_dim) in one buffer: appending a token copies that token only."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def update(self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object) -> tuple:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.key_buffer = key_states.new_empty(*key_states.shape[:2], self.room, key_states.shape[3])
            self.value_buffer = value_states.new_empty(*value_states.shape[:2], self.room, value_states.shape[3])
        start = self.get_seq_length()
        end = start + key_states.shape[2]
        self.key_buffer[:, :, start:end] = key_states
        self.value_buffer[:, :, start:end] = value_states
        self.keys, self.values = self.key_buffer[:, :, :end], self.value_buffer[:, :, :end]
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        length, rows = self.get_seq_length(), len(indices)
        self.key_buffer = _select(self.key_buffer, indices, length)
        self.value_buffer = _select(self.value_buffer, indices, length)
        self.keys, self.values = self.key_buffer[:rows, :, :length], self.value_buffer[:rows, :, :length]


def _select(buffer: Tensor, rows: Tensor, length: int) -> Tensor:
    """The given rows of a buffer, of which `length` positions are in use; in place where they are fewer."""
    used = buffer[:, :, :length][rows]
    target = buffer[: len(rows)] if len(rows) <= len(buffer) else buffer.new_empty(len(rows), *buffer.shape[1:])
    target[:, :, :length] = used
    return target


def _new_cache(model: PreTrainedModel, room: int) -> DynamicCache:
    cache = DynamicCache(config=model.config)
    if all(type(layer) is DynamicLayer for layer in cache.layers):  # sliding and linear layers keep their own
        cache.layers = [_BufferedLayer(room) for _ in cache.layers]
    return cache


def _truncate(logps: Tensor, top_k: int, top_p: float) -> Tensor:
    """Log-probabilities (B, V) with everything outside the top-k / nucleus set to -inf; at least one stays."""
    if 0 < top_k < logps.shape[-1]:
        kth = logps.topk(top_k, dim=-1).values[:, -1:]
        logps = logps.masked_fill(logps < kth, -torch.inf)
    if top_p < 1.0:
        ranked, order = logps.sort(dim=-1, descending=True)
        before = ranked.softmax(-1).cumsum(-1) - ranked.softmax(-1)
        logps = logps.scatter(-1, order, ranked.masked_fill(before >= top_p, -torch.inf))
    return logps


def _draw(logps: Tensor, top_k: int, top_p: float, greedy: bool) -> Tensor:
    """One token id per row of (B, V) log-probabilities."""
    if greedy:
        return logps.argmax(-1)
    probs = _truncate(logps, top_k, top_p).softmax(-1)
    # exponential race: the same law as multinomial and several times faster on the CPU
    return (probs / torch.empty_like(probs).exponential_()).argmax(-1)


class _Decoder:
    """The responses still being written: their cache, and the logits (B, V) of the token each needs next."""

    def __init__(
        self, model: PreTrainedModel, prompts: Sequence[Sequence[int]], room: int, pictures: Pictures | None
    ) -> None:
        self.model = model
        self.never = picture_tokens(model)
        first, owner = _distinct(prompts, pictures)
        unique = [list(prompts[row]) for row in first]
        width = max(len(prompt) for prompt in unique)
        ids, mask = torch.zeros(2, len(unique), width, dtype=torch.long).unbind()
        for row, prompt in enumerate(unique):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = 1
        self.mask = mask.to(model.device)
        self.position = (self.mask.cumsum(-1) - 1).clamp(min=0)
        self.cache = _new_cache(model, width + room)
        seen = pictures.inputs(first, model.device) if pictures is not None else {}
        self.logits = self._forward(ids.to(model.device), seen)
        self.position = self.position[:, -1:]
        self.keep(torch.tensor(owner, device=model.device))

    def _forward(self, ids: Tensor, seen: Mapping[str, Tensor] | None = None) -> Tensor:
        output = self.model(
            input_ids=ids,
            attention_mask=self.mask,
            position_ids=self.position,
            use_cache=True,
            logits_to_keep=1,
            **{_cache_argument(self.model): self.cache, **(seen or {})},
        )
        logits: Tensor = output.logits[:, -1].float()
        if self.never:
            logits[:, self.never] = -torch.inf
        return logits

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows only (an index may repeat)."""
        self.cache.batch_select_indices(rows)
        self.mask, self.position, self.logits = self.mask[rows], self.position[rows], self.logits[rows]

    def feed(self, tokens: Tensor) -> None:
        """Append one token (B,) to each row."""
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(tokens), 1)], dim=1)
        self.position = self.position + 1
        self.logits = self._forward(tokens[:, None])


def picture_tokens(model: PreTrainedModel) -> list[int]:
    """Tokens that stand for a part of a picture, which no response may hold; [] of a model of text alone."""
    names = ("image_token_id", "image_token_index", "video_token_id")
    found = {getattr(model.config, name, None) for name in names}
    return sorted(token for token in found if isinstance(token, int))


def _distinct(prompts: Sequence[Sequence[int]], pictures: Pictures | None) -> tuple[list[int], list[int]]:
    """The first row of each run of equal prompts with equal pictures, and for every row the number of its run."""
    first: list[int] = []
    owner: list[int] = []
    for row, prompt in enumerate(prompts):
        seen = first and list(prompts[row - 1]) == list(prompt) and (pictures is None or pictures.same(row - 1, row))
        if not seen:
            first.append(row)
        owner.append(len(first) - 1)
    return first, owner


def _cache_argument(model: PreTrainedModel) -> str:
    """transformers renames the cache argument of `forward` model by model."""
    base = getattr(model, "get_base_model", lambda: model)()
    return "cache" if "cache" in inspect.signature(type(base).forward).parameters else "past_key_values"


@torch.no_grad()
def sample(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    *,
    eos_ids: Sequence[int],
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    greedy: bool = False,
    pictures: Pictures | None = None,
) -> Samples:
    """Sample one response per prompt, drawing from torch's global generator.

    prompts: token ids without padding; equal consecutive prompts are read once.
    eos_ids: any of these ends a response. top_k 0 and top_p 1.0 mean no truncation. pictures: those of the prompts, in
    whose ids their tokens stand already.
    Raises ValueError for an empty prompt, a temperature that is not positive, or pictures for a model whose kind is
    none of `upside.engines.pictures.SAMPLED`.
    """
    if pictures is not None and not samples_pictures(model):
        raise ValueError(
            f"sampler: upside does not show pictures to models of type {model.config.model_type}; use transformers"
        )
    if not prompts or not all(len(prompt) for prompt in prompts):
        raise ValueError("prompts: an empty prompt cannot be continued; add a BOS token or a chat template")
    if temperature <= 0 and not greedy:
        raise ValueError(f"temperature: {temperature} is not positive; use greedy=True for the likeliest token")
    was_training = model.training
    model.eval()
    try:
        decoder = _Decoder(model, prompts, max_new_tokens, pictures)
        return _decode(decoder, eos_ids, max_new_tokens, 1.0 if greedy else temperature, top_k, top_p, greedy)
    finally:
        model.train(was_training)


def samples_pictures(model: PreTrainedModel) -> bool:
    """Whether `sample` takes pictures for this kind of model."""
    return model.config.model_type in SAMPLED


def _decode(
    decoder: _Decoder, eos_ids: Sequence[int], limit: int, temperature: float, top_k: int, top_p: float, greedy: bool
) -> Samples:
    rows, device = len(decoder.logits), decoder.logits.device
    eos = torch.tensor(list(eos_ids), device=device)
    tokens = torch.zeros(rows, limit, dtype=torch.long, device=device)
    logps, entropies = torch.zeros(2, rows, limit, device=device).unbind()
    lengths = torch.full((rows,), limit, device=device)
    alive = torch.arange(rows, device=device)
    done = torch.zeros(rows, dtype=torch.bool, device=device)
    for t in range(limit):
        logp = (decoder.logits / temperature).log_softmax(-1)
        token = _draw(logp, top_k, top_p, greedy)
        tokens[alive, t] = token
        logps[alive, t] = logp.gather(1, token[:, None])[:, 0]
        entropies[alive, t] = -(logp.exp() * logp).nan_to_num(0.0).sum(-1)
        ended = torch.isin(token, eos) & ~done
        lengths[alive[ended]] = t + 1
        done = done | ended
        if t + 1 == limit or bool(done.all()):
            break
        if int(done.sum()) >= max(4, len(done) // 8):  # enough finished rows to be worth a copy of the cache
            open_rows = (~done).nonzero()[:, 0]
            decoder.keep(open_rows)
            alive, token, done = alive[open_rows], token[open_rows], done[open_rows]
        decoder.feed(token)
    ends = lengths.tolist()
    cut = lambda values: [row[:end].tolist() for row, end in zip(values.cpu(), ends, strict=True)]  # noqa: E731
    return Samples(ids=cut(tokens), logps=cut(logps), entropies=cut(entropies))


def sample_as(
    trainer: Any, model: PreTrainedModel, prompts: Sequence[Sequence[int]], pictures: Pictures | None = None
) -> Samples:
    """`sample` from a model with the sampling settings of a TRL trainer."""
    return sample(
        model,
        prompts,
        eos_ids=trainer.eos_token_ids,
        max_new_tokens=trainer.max_completion_length,
        temperature=trainer.temperature,
        top_k=trainer.top_k,
        top_p=trainer.top_p,
        pictures=pictures,
    )


def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
    """`rollout_func` of TRL's trainers: sample with this module, and hand over each response's mean entropy.

    AdvantageTrainer reads the extra column `sampled_entropy` (nats per token), so no further pass is needed.
    """
    if any(map(images_in, prompts)):
        pictures: Pictures | None = Pictures.of_messages(trainer.processing_class, prompts)
        prompt_ids = [message_ids(trainer.processing_class, prompt) for prompt in prompts]
    else:
        pictures, prompt_ids = None, trainer._tokenize_prompts(prompts)[0]
    model = trainer.accelerator.unwrap_model(trainer.model_wrapped)
    with gathered(trainer, model):
        samples = sample_as(trainer, model, prompt_ids, pictures)
    means = [sum(values) / len(values) for values in samples.entropies]
    return {
        "prompt_ids": prompt_ids,
        "completion_ids": samples.ids,
        "logprobs": None,
        "sampled_entropy": means,
    }
