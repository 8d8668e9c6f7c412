"""The one loader: what it takes, what it refuses and what it says then."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file

from upside.models import bundled, vision
from upside.models.loading import load_config, load_model, load_reader, load_tokenizer, locate
from upside.tasks.prompts import takes_pictures, tokenizer_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny.model_folder(tmp_path / "owner" / "name")


def test_a_file_that_is_rewritten_does_not_undo_training(folder: Path) -> None:
    model, _ = load_model(folder)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(1.0)
    trained = [weight.clone() for weight in model.parameters()]
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes())  # an upgrade of the package, or another run that saves into the folder
    assert all(torch.equal(weight, kept) for weight, kept in zip(model.parameters(), trained, strict=True))


def test_a_folder(folder: Path) -> None:
    model, tokenizer = load_model(folder)
    assert model.dtype == torch.float32
    assert model.device.type == "cpu"
    weights = load_file(folder / "model.safetensors")
    assert torch.equal(model.state_dict()["model.norm.weight"], weights["model.norm.weight"])
    assert tokenizer.padding_side == "left"
    assert tokenizer.pad_token == "<pad>"
    assert tokenizer(["a", "abc"], padding=True)["attention_mask"] == [[0, 0, 1], [1, 1, 1]]


def test_dtype(folder: Path) -> None:
    assert load_model(folder, dtype=torch.bfloat16)[0].dtype == torch.bfloat16
    load_model(folder, dtype="bfloat16")[0].save_pretrained(folder)
    assert load_model(folder, dtype="auto")[0].dtype == torch.bfloat16


def test_padding_falls_back_on_eos(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    tokenizer.pad_token = None
    tokenizer.save_pretrained(folder)
    assert load_model(folder)[1].pad_token == "<eos>"


def test_a_tokenizer_without_padding_or_eos(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    tokenizer.pad_token = tokenizer.eos_token = None
    tokenizer.save_pretrained(folder)
    with pytest.raises(ValueError, match="neither a padding nor an eos token"):
        load_model(folder)


def test_names(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert locate("bundled") == bundled()
    assert locate("Qwen/Qwen2.5-0.5B") == "Qwen/Qwen2.5-0.5B"
    for path in ("models/a/b", "./name", "/models/x", "name", "../x"):
        assert locate(path) == Path(path)
    monkeypatch.chdir(tmp_path)
    assert locate("owner/name") == Path("owner/name")  # a folder of that name wins over the hub
    assert load_model("owner/name")[0].num_parameters() == load_model(folder)[0].num_parameters()


def test_a_hub_id_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # the switch HF_HUB_OFFLINE=1 sets
    with pytest.raises(
        FileNotFoundError, match="cannot load 'owner/no-such-model': there is no such folder, and on the hub: "
    ):
        load_model("owner/no-such-model", revision="main")


def test_what_is_no_model_folder(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"it is not a model folder \(no config.json\)"):
        load_model(tmp_path)
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    with pytest.raises(ValueError, match=r"it is a GGUF file.*upside model import"):
        load_model(tmp_path / "x.gguf")
    (folder / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="it holds no weights"):
        load_model(folder)
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(ValueError, match="it holds pickled weights"):
        load_model(folder)


def test_damaged_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, path, {"format": "pt"})
    with pytest.raises(ValueError, match=r"its weights lack 1 tensors, such as model\.layers\.1\.mlp\.up_proj\.weight"):
        load_model(folder)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="cannot load '"):
        load_model(folder)


@pytest.mark.parametrize("text", ["[]", "{", '{"model_type": "no_such_model"}'])
def test_a_damaged_configuration(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    for load in (load_config, load_model):
        with pytest.raises((ValueError, FileNotFoundError), match=r"cannot load '.*name': "):
            load(str(folder))


def test_a_model_that_sees_comes_with_its_processor(tmp_path: Path) -> None:
    model, reader = load_model(vision.build(tmp_path))
    assert type(model).__name__ == "Idefics3ForConditionalGeneration"
    assert takes_pictures(reader)
    assert tokenizer_of(reader).padding_side == "left"
    assert not takes_pictures(load_tokenizer(tmp_path))


@pytest.mark.skipif(find_spec("torchvision") is not None, reason="torchvision is there")
def test_a_processor_that_needs_torchvision_says_so(tmp_path: Path) -> None:
    vision.build(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "qwen2_5_vl"}))
    (tmp_path / "processor_config.json").unlink()
    (tmp_path / "preprocessor_config.json").write_text(
        json.dumps({"processor_class": "Qwen2_5_VLProcessor", "image_processor_type": "Qwen2VLImageProcessor"})
    )
    with pytest.raises(ValueError, match=r"its processor \(qwen2_5_vl\) needs torchvision .*pip install torchvision"):
        load_reader(tmp_path)
