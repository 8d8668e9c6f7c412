"""Random models that see, of both layouts that processors have, and problems with no, one and two pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from upside.models import vision
from upside.tasks import load_task
from upside.tasks.base import Problem, Verdict

ENDS = [1, 13, 14, 15, 16]  # enough of them that responses differ in length


def idefics(path: Path, seed: int = 0) -> Path:
    """One row of pictures a prompt, (B, pictures, 3, 64, 64). Weights so large that what is seen matters."""
    model = vision.network(vision.tokenizer(), seed, width=32, depth=(1, 1))
    _save(model, path)
    vision.processor().save_pretrained(path)
    return path


def llava(path: Path, seed: int = 0) -> Path:
    """One row a picture, (pictures, 3, 64, 64)."""
    from transformers import LlamaConfig, LlavaConfig, LlavaForConditionalGeneration, LlavaProcessor, SiglipVisionConfig
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    torch.manual_seed(seed)
    tokenizer = vision.tokenizer()
    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
    }
    config = LlavaConfig(
        vision_config=SiglipVisionConfig(**sizes, image_size=64, patch_size=16, vision_use_head=False),
        text_config=LlamaConfig(
            **sizes, vocab_size=len(tokenizer), pad_token_id=0, eos_token_id=1, bos_token_id=None,
            tie_word_embeddings=True,
        ),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"), vision_feature_layer=-1,
        vision_feature_select_strategy="full", image_seq_length=16, tie_word_embeddings=True,
    )  # fmt: skip
    _save(LlavaForConditionalGeneration(config), path)
    pictures = CLIPImageProcessorPil(
        do_resize=False, do_center_crop=False, image_mean=[0.5] * 3, image_std=[0.5] * 3,
        size={"height": 64, "width": 64}, crop_size={"height": 64, "width": 64},
    )  # fmt: skip
    LlavaProcessor(
        image_processor=pictures, tokenizer=tokenizer, patch_size=16, vision_feature_select_strategy="full",
        chat_template=vision.TEMPLATE, image_token="<image>",
    ).save_pretrained(path)  # fmt: skip
    return path


def _save(model: Any, path: Path) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)
    model.generation_config.eos_token_id = ENDS
    model.save_pretrained(path)


def shapes(count: int = 8) -> list[Problem]:
    """One picture each; many share their question."""
    return load_task("shapes", families=["grid_area", "sides"]).problems("train", count)


def mixed(count: int = 8) -> list[Problem]:
    """No, two, one, no, … pictures: the third sum of a batch is that of one picture each."""
    drawn = shapes(2 * count)
    found = []
    for i in range(count):
        images = tuple(image for problem in drawn[2 * i : 2 * i + 2] for image in problem.images)[: (0, 2, 1)[i % 3]]
        prompt = ("area?", "<image>area?<image>", "<image>angle?")[i % 3]
        found.append(Problem(f"mixed/{i}", prompt, str(i), images=images))
    return found


class Given:
    """A task of given problems; the first character of a response decides."""

    name = "given"

    def __init__(self, train: list[Problem], test: list[Problem]) -> None:
        self.train, self.test = train, test

    def problems(self, split: str, count: int | None = None, seed: int = 0) -> list[Problem]:
        return (self.train if split == "train" else self.test)[:count]

    def verify(self, problem: Problem, response: str) -> Verdict:
        return Verdict(float(response[:1] in "2468"), response[:1] in "2468")
