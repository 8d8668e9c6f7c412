"""What an evaluation depends on, as digests: a folder is continued and a baseline compared only where these agree."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from upside.tasks.base import Problem
from upside.tasks.prompts import Reader, prompt_ids, takes_pictures, tokenizer_of

PACKAGES = ("upside", "torch", "transformers", "tokenizers", "datasets", "math-verify", "reasoning-gym", "vllm")


def digest(parts: Iterable[Any]) -> str:
    """16 hex digits of SHA-256 over the parts, each as JSON."""
    found = hashlib.sha256()
    for part in parts:
        found.update(json.dumps(part, ensure_ascii=True, separators=(",", ":")).encode() + b"\n")
    return found.hexdigest()[:16]


def of_model(name: str | Path) -> str:
    """Of a folder: SHA-256 over config.json, generation_config.json and *.safetensors. Of a hub id: its commit."""
    from upside.models.loading import locate

    source = locate(name)
    if not isinstance(source, Path):
        from transformers import AutoConfig

        return f"{source}@{AutoConfig.from_pretrained(source, trust_remote_code=False)._commit_hash}"
    found = hashlib.sha256()
    settings = [source / "config.json", source / "generation_config.json"]
    for path in [*filter(Path.is_file, settings), *sorted(source.glob("*.safetensors"))]:
        with path.open("rb") as file:
            found.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()[:16]


def of_tokenizer(reader: Reader) -> str:
    """Over vocabulary, merges, added tokens and chat template, and how a processor prepares pictures; not over padding
    and truncation, which calls change."""
    if takes_pictures(reader):
        settings = reader.image_processor.to_dict()
        how = {key: str(settings[key]) for key in sorted(settings) if not key.endswith("_type")}
        return digest([of_tokenizer(tokenizer_of(reader)), reader.chat_template, how])
    tokenizer = tokenizer_of(reader)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    content = json.loads(backend.to_str()) if backend is not None else dict(tokenizer.get_vocab())
    content.pop("padding", None)
    content.pop("truncation", None)
    return digest([content, tokenizer.chat_template, tokenizer.eos_token_id])


def of_problems(problems: Sequence[Problem]) -> str:
    """Over ids, prompts, system prompts and gold answers, in whatever order."""
    return digest(
        sorted([p.id, p.prompt, p.answer, p.system or "", p.chat, *(i.digest() for i in p.images)] for p in problems)
    )


def of_prompt(reader: Reader, problem: Problem) -> str:
    """Over a prompt's tokens and pictures."""
    return digest([*prompt_ids(reader, problem), *(image.digest() for image in problem.images)])


def context_of(name: str | Path) -> int | None:
    """How many tokens the model of a name has positions for; None where its configuration does not say."""
    from upside.models.loading import load_config

    config = load_config(name)
    found = getattr(config.get_text_config(), "max_position_embeddings", None)
    return int(found) if found else None


def versions() -> dict[str, str]:
    """Of Python, the machine and the packages that are installed. Recorded, never compared."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


NOT_COMPARED = ("versions", "model.name")


def differences(
    there: Mapping[str, Any], here: Mapping[str, Any], skip: Sequence[str] = NOT_COMPARED, prefix: str = ""
) -> list[str]:
    """What differs between two trees of settings, a text each: `key is A there, B here`, the keys on the way joined by
    dots. Keys in `skip` are left out."""
    found: list[str] = []
    for key in dict.fromkeys([*there, *here]):
        path = prefix + key
        if path in skip:
            continue
        if key not in here or key not in there:
            found.append(f"{path} is {'there' if key in there else 'here'} only")
        elif isinstance(there[key], Mapping) and isinstance(here[key], Mapping):
            found += differences(there[key], here[key], skip, path + ".")
        elif there[key] != here[key]:
            found.append(f"{path} is {there[key]!r} there, {here[key]!r} here")
    return found
