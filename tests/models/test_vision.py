"""The vision-language model's parts: tokenizer, processor, folder."""

import random
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor, Idefics3ForConditionalGeneration

from upside.models import bundled_vision, shape_tutors, vision
from upside.models.loading import locate
from upside.tasks.pictures import blocks
from upside.tasks.shapes import Shapes

TASK = Shapes()
PROBLEMS = TASK.problems("train", 300)


@pytest.fixture(scope="module")
def processor():  # type: ignore[no-untyped-def]
    return vision.processor()


def inputs(processor, problems):  # type: ignore[no-untyped-def]
    chats = [[{"role": "user", "content": blocks(p.prompt, 1)}] for p in problems]
    texts = [processor.apply_chat_template(chat, add_generation_prompt=True, tokenize=False) for chat in chats]
    pictures = [[p.images[0].load()] for p in problems]
    return processor(images=pictures, text=texts, padding=True, return_tensors="pt")


def test_all_texts_of_the_task_are_in_the_vocabulary(processor) -> None:  # type: ignore[no-untyped-def]
    tok, rng = processor.tokenizer, random.Random(0)
    for problem in PROBLEMS:
        for text in (problem.prompt, shape_tutors.solve(problem, rng)[0]):
            ids = tok(text)["input_ids"]
            assert tok.unk_token_id not in ids
            assert tok.decode(ids) == text
    assert tok("area?4*3=12#12")["input_ids"] == tok.convert_tokens_to_ids(["area", *"?4*3=12#12"])
    assert tok("volume")["input_ids"] == [tok.unk_token_id]


def test_a_picture_is_sixteen_tokens_before_the_question(processor) -> None:  # type: ignore[no-untyped-def]
    batch = inputs(processor, PROBLEMS[:3])
    tokens = processor.tokenizer.convert_ids_to_tokens(batch["input_ids"][0])
    picture = ["<fake_token_around_image>", "<global-img>", *["<image>"] * 16, "<fake_token_around_image>"]
    assert tokens == ["<user>", *picture, PROBLEMS[0].prompt[:-1], "?", "<assistant>"]
    assert batch["pixel_values"].shape == (3, 1, 3, 64, 64)
    assert batch["pixel_attention_mask"].all()
    assert (batch["pixel_values"].min(), batch["pixel_values"].max()) == (-1, 1)


def test_rows_of_different_length_are_padded_on_the_left(processor) -> None:  # type: ignore[no-untyped-def]
    picture = PROBLEMS[0].images[0].load()
    texts = ["<user><image>area?<assistant>", "<user><image>area?<assistant>#1"]
    batch = processor(images=[[picture]] * 2, text=texts, padding=True, return_tensors="pt")
    assert batch["attention_mask"][0].tolist() == [0, 0] + [1] * 23
    assert batch["attention_mask"][1].all()


def test_chat_template_takes_blocks_and_text(processor) -> None:  # type: ignore[no-untyped-def]
    chat = [
        {"role": "user", "content": blocks("area?", 1)},
        {"role": "assistant", "content": [{"type": "text", "text": "#4"}]},
        {"role": "user", "content": "perimeter?"},
    ]
    text = processor.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert text == "<user><image>area?<assistant>#4<eos><user>perimeter?<assistant>"


def test_a_picture_of_another_size_is_stretched_without_smoothing(processor) -> None:  # type: ignore[no-untyped-def]
    small, large = (inputs(processor, Shapes(size=size).problems("train", 8)) for size in (64, 128))
    torch.testing.assert_close(large["pixel_values"], small["pixel_values"], rtol=0, atol=0)


def test_a_saved_folder_loads_offline_without_torchvision(tmp_path: Path) -> None:
    folder = vision.build(tmp_path / "tiny", seed=3)
    options = {"trust_remote_code": False, "local_files_only": True}
    model, info = AutoModelForImageTextToText.from_pretrained(folder, output_loading_info=True, **options)
    loaded = AutoProcessor.from_pretrained(folder, **options)
    assert type(model) is Idefics3ForConditionalGeneration
    assert not info["missing_keys"]
    assert "torchvision" not in sys.modules
    assert loaded.tokenizer.get_vocab() == vision.tokenizer().get_vocab()
    assert loaded.tokenizer.padding_side == "left"
    assert len(loaded.tokenizer) == model.config.text_config.vocab_size
    batch, built = (inputs(each, PROBLEMS[:4]) for each in (loaded, vision.processor()))
    assert all(torch.equal(batch[name], built[name]) for name in built)
    fresh = vision.network(loaded.tokenizer, 3, 32, (1, 1)).eval()
    with torch.no_grad():
        torch.testing.assert_close(model(**batch).logits, fresh(**batch).logits)
    assert not list(folder.glob("*.py"))


def test_seeds_make_different_models(tmp_path: Path) -> None:
    one, same, other = (
        (vision.build(tmp_path / name, seed) / "model.safetensors").read_bytes()
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert one == same != other


def test_the_bundled_model_has_a_name() -> None:
    assert locate("bundled_vision") == bundled_vision()
