"""Pictures on their way into a model: what its processor makes of them, and which part of that belongs to which row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from upside.tasks.prompts import loaded, render_prompt

if TYPE_CHECKING:
    from PIL.Image import Image

    from upside.tasks.base import Problem

PER_TOKEN = ("token_type_ids", "mm_token_type_ids")
"""Inputs of a model that sees with one value a token; the others have one or more rows a picture or response."""
PLAIN = ("batch_size", "compute_entropy", "compute_aux_loss")
"""Arguments of a scoring pass that do not depend on the rows."""

SAMPLED = ("idefics3", "llava")
"""Kinds of models (`config.model_type`) whose pictures the package's own sampler takes: positions count on by one a
token and pictures are read with the prompt. Others are sampled with `generate`."""


@dataclass(frozen=True)
class Pictures:
    """The pictures of B prompts. reader: the model's processor. texts: (B) prompts as the chat template gives them, a
    mark for each picture. images: (B) lists, empty for a prompt without."""

    reader: Any
    texts: Sequence[str]
    images: Sequence[Sequence[Image]]

    @classmethod
    def of_messages(cls, reader: Any, prompts: Sequence[Any]) -> Pictures:
        """Of messages whose blocks hold their pictures, as TRL passes them."""
        texts = [reader.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True) for prompt in prompts]
        return cls(reader, texts, [images_in(prompt) for prompt in prompts])

    @classmethod
    def of_problems(cls, reader: Any, problems: Sequence[Problem]) -> Pictures | None:
        """None where no problem has any. A problem that repeats is loaded once. Raises PictureError."""
        if not any(problem.images for problem in problems):
            return None
        known: dict[str, tuple[str, list[Image]]] = {}
        for problem in problems:
            if problem.id not in known:
                asked: Any = render_prompt(reader, problem)
                if not isinstance(asked, str):
                    asked = reader.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
                known[problem.id] = asked, loaded(problem)
        found = [known[problem.id] for problem in problems]
        return cls(reader, [text for text, _ in found], [images for _, images in found])

    def same(self, one: int, other: int) -> bool:
        """Whether two prompts have equal pictures."""
        return list(self.images[one]) == list(self.images[other])

    def inputs(self, rows: Sequence[int], device: Any = None) -> dict[str, Tensor]:
        """What the model's forward pass takes beside ids and mask for these rows, left-padded; {} without pictures."""
        images = [list(self.images[row]) for row in rows]
        if not any(images):
            return {}
        texts = [self.texts[row] for row in rows]
        bos = self.reader.tokenizer.bos_token
        once = {"add_special_tokens": False} if bos and texts[0].startswith(bos) else {}  # the template wrote it
        made = self.reader(text=texts, images=images, padding=True, return_tensors="pt", **once)
        return {name: made[name].to(device) for name in made if name not in ("input_ids", "attention_mask")}


def images_in(prompt: Any) -> list[Image]:
    """The pictures in the blocks of messages, in order; [] of a text."""
    messages = [] if isinstance(prompt, str) else prompt
    blocks = [block for message in messages if not isinstance(message["content"], str) for block in message["content"]]
    return [block["image"] for block in blocks if block["type"] == "image"]


def one_row_each(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a scoring pass, with `num_images` 1 a row where the processor padded to one row of pictures a
    response, (B, pictures, channels, height, width): what tells the rows apart there is their number, whatever they
    hold."""
    pixels = inputs.get("pixel_values")
    if inputs.get("num_images") is None or not isinstance(pixels, Tensor) or pixels.ndim != 5:
        return dict(inputs)
    return {**inputs, "num_images": [1] * len(pixels)}


def sighted(inputs: Mapping[str, Any], rows: Tensor) -> Tensor:
    """Which of the rows (B, …) of a scoring pass have a picture, by their numbers of pictures, or where the processor
    padded to one row of pictures each, by what these hold (zeros for none). Models take no part of a batch that has no
    picture at all, but is passed some. (B,) bool"""
    pixels, counts = inputs.get("pixel_values"), inputs.get("num_images")
    if isinstance(pixels, Tensor) and pixels.ndim == 5:
        return pixels.flatten(1).any(1)
    if pixels is not None and counts is not None:
        return torch.tensor(counts, device=rows.device) > 0
    return torch.ones(len(rows), dtype=torch.bool, device=rows.device)


def of_rows(inputs: Mapping[str, Any], rows: Tensor, columns: slice = slice(None)) -> dict[str, Any]:
    """The arguments of a scoring pass for some rows of its batch, and some columns of what has a value a token."""
    from trl.trainer.utils import split_pixel_values_by_grid, unsplit_pixel_values_by_grid

    fixed = {name: value for name, value in inputs.items() if name in PLAIN or value is None}
    varying = split_pixel_values_by_grid({name: value for name, value in inputs.items() if name not in fixed})
    picked = {name: _picked(value, rows) for name, value in varying.items()}
    picked |= {name: picked[name][:, columns] for name in PER_TOKEN if name in picked}
    return {**fixed, **_present(unsplit_pixel_values_by_grid(picked))}


def _picked(value: Any, rows: Tensor) -> Any:
    return value[rows] if isinstance(value, Tensor) else [value[row] for row in rows.tolist()]


def _present(inputs: dict[str, Any]) -> dict[str, Any]:
    """Without the pictures' inputs where the chosen rows have none."""
    pixels = inputs.get("pixel_values")
    if pixels is not None and not (sum(inputs["num_images"]) and bool(sighted(inputs, pixels).any())):
        return {name: inputs[name] for name in PER_TOKEN if name in inputs}
    return {name: torch.cat(v) if isinstance(v, list) and torch.is_tensor(v[0]) else v for name, v in inputs.items()}
