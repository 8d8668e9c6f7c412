"""The pictures beside a page's groups: the small files that a run wrote, as they are."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from upside.tasks.pictures import THUMBNAIL

NAME = re.compile(r"pictures/[0-9a-f]{16}\.png", re.ASCII)
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"  # and behind it width and height
LARGEST = THUMBNAIL * THUMBNAIL * 3 + 4096
"""Bytes of a picture of that size that PNG makes no smaller."""


def embedded(folder: Path, groups: Sequence[dict[str, Any]], budget: int) -> dict[str, str]:
    """The groups' pictures by file, as base64, of as many groups as `budget` bytes hold. A log can name any file: only
    what a run folder keeps under `pictures/`, a PNG of thumbnail size, is read."""
    found: dict[str, str] = {}
    for file in (file for group in groups for file in group.get("pictures", ())):
        if file in found or not NAME.fullmatch(file):
            continue
        path = folder / file
        if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST:
            continue
        content = path.read_bytes()
        budget -= len(content)
        if budget < 0:
            break
        if _is_small(content):
            found[file] = base64.b64encode(content).decode()
    return found


def _is_small(content: bytes) -> bool:
    """Whether it is a PNG of a thumbnail's size: few bytes may hold a picture that fills a browser's memory."""
    sides = [int.from_bytes(content[start : start + 4]) for start in (len(PNG), len(PNG) + 4)]
    return content.startswith(PNG) and all(0 < side <= THUMBNAIL for side in sides)
