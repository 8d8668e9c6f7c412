"""The one way a model and its tokenizer are loaded, for training and evaluation alike.

A model that takes pictures (image-text-to-text) comes with its processor in the tokenizer's place: what reads prompts
(`upside.tasks.prompts`) takes either, and `tokenizer_of` gives the tokenizer of either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upside.models import bundled, bundled_vision
from upside.tasks.prompts import takes_pictures

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from upside.tasks.prompts import Reader

BUNDLED = {"bundled": bundled, "bundled_vision": bundled_vision}
"""The models of the package by name -> their folder."""

_HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)

PICKLE = (
    "holds pickled weights (*.bin), which can run code when they are read; where you trust them, write safetensors: "
    "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER)"
)
"""Why a folder with .bin files only is refused, and what to do."""

PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")


def load_model(
    name: str | Path, *, revision: str | None = None, dtype: torch.dtype | str = "float32"
) -> tuple[PreTrainedModel, Reader]:
    """A causal language model on the CPU and its tokenizer, which pads on the left and has a padding token; of a model
    that takes pictures its processor, with such a tokenizer.

    name: "bundled" for the reasoner of the package, "bundled_vision" for the one that sees, a folder that
    `save_pretrained` or `upside model import` wrote, or a hub id `owner/name` where there is no such folder. revision:
    branch, tag or commit of a hub id. dtype: of the weights; "auto" keeps the checkpoint's own. Weights are read from
    safetensors only and no code of the checkpoint runs. Raises FileNotFoundError where there is no such model,
    ValueError where there is one that cannot be loaded.
    """
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    reader = load_reader(name, revision=revision)
    source, options = _source(name, revision)
    auto = AutoModelForImageTextToText if takes_pictures(reader) else AutoModelForCausalLM
    with _explained(name, SafetensorError):
        model, info = auto.from_pretrained(
            source, use_safetensors=True, dtype=dtype, output_loading_info=True, **options
        )
    if missing := sorted(info["missing_keys"]):
        raise ValueError(f"cannot load {str(name)!r}: its weights lack {len(missing)} tensors, such as {missing[0]}")
    for weight in (*model.parameters(), *model.buffers()):
        weight.data = weight.data.clone()  # off the mapped file: one that is rewritten would undo all training at once
    return model, reader


def load_reader(name: str | Path, *, revision: str | None = None) -> Reader:
    """What reads a model's prompts, as `load_model` returns it: its tokenizer, or its processor where it takes
    pictures; same names, same errors."""
    from transformers import AutoProcessor
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as SEEING

    tokenizer = load_tokenizer(name, revision=revision)
    source, options = _source(name, revision)
    kind = load_config(name, revision=revision).model_type
    if kind not in SEEING or (isinstance(source, Path) and not any((source / f).is_file() for f in PROCESSOR_FILES)):
        return tokenizer
    with _explained(name), _torchvision_named(kind):
        processor = AutoProcessor.from_pretrained(source, padding_side="left", **options)
    if not takes_pictures(processor):
        return tokenizer
    processor.tokenizer.pad_token, processor.tokenizer.padding_side = tokenizer.pad_token, "left"
    return processor


@contextmanager
def _torchvision_named(kind: str) -> Iterator[None]:
    """What is raised where torchvision is missed (an AttributeError of its own kind among it) says so."""
    try:
        yield
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        if find_spec("torchvision") is not None:
            raise ValueError(f"its processor ({kind}): {_first_line(error):.300}") from error
        raise ValueError(
            f"its processor ({kind}) needs torchvision ({_first_line(error):.200}); pip install torchvision, in the "
            "version that goes with the torch that is installed"
        ) from error


def load_tokenizer(name: str | Path, *, revision: str | None = None) -> PreTrainedTokenizerBase:
    """The tokenizer of a model; same names, same errors."""
    from transformers import AutoTokenizer

    source, options = _source(name, revision)
    with _explained(name):
        tokenizer = AutoTokenizer.from_pretrained(source, padding_side="left", **options)
    if tokenizer.pad_token is None:
        if tokenizer.eos_token is None:
            raise ValueError(
                f"cannot load {str(name)!r}: its tokenizer has neither a padding nor an eos token; set one"
            )
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_config(name: str | Path, *, revision: str | None = None) -> PreTrainedConfig:
    """The configuration of a model, as `load_model` reads it; same names, same errors."""
    from transformers import AutoConfig

    source, options = _source(name, revision)
    with _explained(name):
        config: PreTrainedConfig = AutoConfig.from_pretrained(source, **options)
    return config


def _source(name: str | Path, revision: str | None) -> tuple[str | Path, dict[str, Any]]:
    source = locate(name)
    options: dict[str, Any] = {"trust_remote_code": False, "local_files_only": isinstance(source, Path)}
    if isinstance(source, Path):
        _check_folder(source, name)
    elif revision:
        options["revision"] = revision
    return source, options


@contextmanager
def _explained(name: str | Path, *errors: type[Exception]) -> Iterator[None]:
    """Turns what transformers raises, and `errors`, into one line that names the model."""
    refused: tuple[type[Exception], ...] = (ValueError, KeyError, TypeError, RuntimeError, *errors)
    try:
        yield
    except OSError as error:
        no_folder = "" if Path(name).exists() or str(name) in BUNDLED else "there is no such folder, and on the hub: "
        raise FileNotFoundError(f"cannot load {str(name)!r}: {no_folder}{_first_line(error)}") from error
    except refused as error:
        raise ValueError(f"cannot load {str(name)!r}: {_first_line(error)}") from error


def locate(name: str | Path) -> str | Path:
    """The folder that a model's name means, or the name itself where it is a hub id and no such folder exists."""
    if str(name) in BUNDLED:
        return BUNDLED[str(name)]()
    folder = Path(name)
    if folder.exists() or not isinstance(name, str) or not _HUB_ID.fullmatch(name):
        return folder
    return name


def _check_folder(folder: Path, name: str | Path) -> None:
    refused = f"cannot load {str(name)!r}: it"
    if folder.suffix == ".gguf" and folder.is_file():
        raise ValueError(
            f"{refused} is a GGUF file; make a model folder of it with: upside model import {folder} FOLDER"
        )
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(
            f"{refused} is not a model folder (no config.json); give one that save_pretrained or upside model import "
            'wrote, a hub id owner/name, "bundled" or "bundled_vision"'
        )
    if not any(folder.glob("*.safetensors")):
        if any(folder.glob("*.bin")):
            raise ValueError(f"{refused} {PICKLE}")
        raise FileNotFoundError(f"{refused} holds no weights (*.safetensors)")


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
