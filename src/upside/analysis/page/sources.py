"""What a path given to `upside report` holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upside.analysis import blocks
from upside.analysis.blocks import Section
from upside.analysis.logs import Log, is_run, read_log


@dataclass(frozen=True)
class Source:
    """A log, or the sections of an analysis that was made before. name: short, unique on the page. runs: the run
    folders that a comparison rests on."""

    name: str
    path: Path
    log: Log | None = None
    sections: Sequence[Section] = ()
    versions: dict[str, Any] = field(default_factory=dict)
    runs: Sequence[Path] = ()


def read_sources(paths: Sequence[str | Path]) -> list[Source]:
    """One per path, in order. ValueError where a path is missing, given twice or holds nothing known."""
    if not paths:
        raise ValueError("paths: nothing to report; give a run's folder, another log, or an analysis' output folder")
    found = [Path(path) for path in paths]
    twice = [path for index, path in enumerate(found) if path.resolve() in {p.resolve() for p in found[:index]}]
    if twice:
        raise ValueError(f"paths: {twice[0]} is given twice; leave one out")
    return [_read(path, name) for path, name in zip(found, short_names(found), strict=True)]


def short_names(paths: Sequence[Path]) -> list[str]:
    """The last part of each path, with as many parts before it as tell it from the others."""
    parts = [path.resolve().parts for path in paths]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            break
    return names


def _read(path: Path, name: str) -> Source:
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder")
    saved = path / blocks.SECTIONS_FILE
    if saved.is_file() and not is_run(path):
        runs = tuple(folder for folder in sorted(path.glob("runs/*")) if is_run(folder))
        return Source(name, path, sections=blocks.load(saved), runs=runs)
    return Source(name, path, log=read_log(path), versions=_versions(path / "versions.json"))


def _versions(file: Path) -> dict[str, Any]:
    """Package -> version, {} where the file is missing or broken: nothing is computed from it."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
