"""What several commands read the same way."""

from __future__ import annotations

import os
from typing import Any


def split(arguments: tuple[str, ...]) -> tuple[str | None, list[str]]:
    """The recipe, if the first argument is no KEY=VALUE or is a file (a folder's name may hold "="), and the rest."""
    path = arguments[0] if arguments and ("=" not in arguments[0] or os.path.isfile(arguments[0])) else None
    return path, list(arguments[path is not None :])


def options(pairs: tuple[str, ...]) -> dict[str, Any]:
    """KEY=VALUE pairs with numbers, booleans and null read as such."""
    from upside.spec import parse_value

    options = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ValueError(f"cannot read {pair!r}; write KEY=VALUE")
        options[key] = parse_value(value)
    return options


def mapping(texts: tuple[str, ...]) -> dict[str, str]:
    """'reward=score,group=uid' as {meaning: column}."""
    found = {}
    for pair in (pair.strip() for text in texts for pair in text.split(",") if pair.strip()):
        meaning, equals, column = pair.partition("=")
        if not equals or not meaning or not column:
            raise ValueError(f"--map: cannot read {pair!r}; write MEANING=COLUMN, such as reward=score")
        found[meaning.strip()] = column.strip()
    return found


def whole_numbers(option: str, text: str) -> list[int]:
    """'1,8,16' as numbers."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if wrong := [part for part in parts if not part.isdecimal()]:
        raise ValueError(f"{option}: cannot read {wrong[0]!r}; write whole numbers, such as 1,8,16")
    return [int(part) for part in parts]
