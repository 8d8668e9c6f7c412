"""The bundled vision-language reasoner's architecture: a stock Idefics3, its tokenizer and its picture processor.

Pictures of 64 x 64 pixels, patches of 8, four patches a token: 16 picture tokens. Nothing needs torchvision.
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import Idefics3Config, Idefics3ForConditionalGeneration, Idefics3Processor, PreTrainedTokenizerFast

from upside.models.tokenizer import ASSISTANT, EOS, PAD, UNKNOWN, USER

SIDE, PATCH, MERGED = 64, 8, 2
"""Pixels of a picture a side, pixels of a patch, patches that one token holds a side."""

PICTURE_TOKENS = (SIDE // PATCH // MERGED) ** 2

IMAGE, BEFORE, WHOLE, TURN = MARKS = ("<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>")
"""What Idefics3's processor writes around a picture, and a token that it insists on."""

WORDS = ("area", "perimeter", "angle", "circles")
CHARACTERS = "0123456789+-*=;#?"

CONTEXT = 128
"""Longest prompt and response together, in tokens."""

TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<assistant>' if message['role'] == 'assistant' else '<user>' }}"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for block in message['content'] %}"
    "{{ '<image>' if block['type'] == 'image' else block['text'] }}"
    "{% endfor %}{% endif %}"
    "{{ '<eos>' if message['role'] == 'assistant' else '' }}"
    "{% endfor %}{{ '<assistant>' if add_generation_prompt else '' }}"
)
"""Any role but the assistant's counts as the user; contents are text or blocks."""


def tokenizer() -> PreTrainedTokenizerFast:
    """One token a character and one for each word of the questions. Other text becomes <unk>."""
    vocabulary = [PAD, EOS, UNKNOWN, USER, ASSISTANT, *MARKS, *CHARACTERS, *WORDS]
    core = Tokenizer(models.WordLevel({token: i for i, token in enumerate(vocabulary)}, unk_token=UNKNOWN))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[a-z]+|[\s\S]"), behavior="isolated")
    core.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNKNOWN,
        additional_special_tokens=[USER, ASSISTANT, *MARKS],
        chat_template=TEMPLATE,
        model_max_length=CONTEXT,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def processor() -> Idefics3Processor:
    """Text and pictures to what the model takes; a picture of another size is stretched, pixel by pixel."""
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

    pictures = Idefics3ImageProcessorPil(
        do_image_splitting=False,
        do_resize=False,
        resample=0,  # nearest
        size={"longest_edge": SIDE},
        max_image_size={"longest_edge": SIDE},
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )
    return Idefics3Processor(
        image_processor=pictures, tokenizer=tokenizer(), image_seq_len=PICTURE_TOKENS, chat_template=TEMPLATE
    )


def network(
    tok: PreTrainedTokenizerFast, seed: int = 0, width: int = 96, depth: tuple[int, int] = (2, 2), heads: int = 4
) -> Idefics3ForConditionalGeneration:
    """A fresh fp32 model. depth: layers that see, layers that write. Sets torch's seed."""
    torch.manual_seed(seed)
    sizes = {"hidden_size": width, "intermediate_size": 3 * width, "num_attention_heads": heads}
    special = {"pad_token_id": tok.pad_token_id, "bos_token_id": None, "eos_token_id": tok.eos_token_id}
    config = Idefics3Config(
        vision_config={
            **sizes, "num_hidden_layers": depth[0], "image_size": SIDE, "patch_size": PATCH, "initializer_range": 0.05,
        },
        text_config={
            **sizes, **special, "model_type": "llama", "vocab_size": len(tok), "num_hidden_layers": depth[1],
            "num_key_value_heads": heads, "max_position_embeddings": CONTEXT, "tie_word_embeddings": True,
            "initializer_range": 0.05,
        },
        image_token_id=tok.convert_tokens_to_ids(IMAGE),
        scale_factor=MERGED,
        tie_word_embeddings=True,
        **special,
    )  # fmt: skip
    model = Idefics3ForConditionalGeneration(config)
    model.generation_config.update(**special, do_sample=True, temperature=1.0, top_k=0, top_p=1.0)
    return model


def save(model: Idefics3ForConditionalGeneration, folder: Path) -> None:
    """Write a folder for `AutoModelForImageTextToText` and `AutoProcessor`; sampling defaults to temperature 1."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    processor().save_pretrained(folder)


def build(folder: Path, seed: int = 0, width: int = 32, depth: tuple[int, int] = (1, 1)) -> Path:
    """Write a tiny untrained model to a folder, for tests and dry runs."""
    save(network(tokenizer(), seed, width, depth), folder)
    return folder
