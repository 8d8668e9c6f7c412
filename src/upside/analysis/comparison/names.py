"""A list of estimators as text: which comma parts two of them, and which name each has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from upside.chains import Estimator
from upside.registry import look_up
from upside.spec import split_outside_parentheses

LONGEST = 100  # characters of a folder's name


class EstimatorListError(ValueError):
    """A list of estimators that cannot be read; the message says what to write."""


def read_estimators(given: Iterable[str] | Mapping[str, str]) -> dict[str, str]:
    """{name: spec} in order, from a mapping or from texts such as "grpo,canon:metric=length,mu=0.5,fast=canon:mu=0.2".

    A comma starts the next estimator, unless KEY=VALUE follows that is an option of the one before: one whose VALUE
    does not begin with the name of an estimator or stage. NAME=SPEC names an estimator; else its spec is its name.
    Raises EstimatorListError for an empty list, a spec that is none, or a name that stands twice.
    """
    pairs = list(given.items()) if isinstance(given, Mapping) else [pair for text in given for pair in _pairs(text)]
    if not pairs:
        raise EstimatorListError("estimators: the list is empty; write names such as grpo,canon_inter")
    found: dict[str, str] = {}
    for name, spec in pairs:
        try:
            make(spec)
        except ValueError as error:
            raise EstimatorListError(f"estimators: {spec!r}: {error}") from None
        if name in found or safe(name) in map(safe, found):
            raise EstimatorListError(f"estimators: {name!r} stands twice; give each a name of its own: NAME={spec}")
        found[name] = spec
    return found


def make(spec: str) -> Estimator:
    """The estimator of a spec."""
    import upside

    return upside.estimator(spec)


def _pairs(text: str) -> list[tuple[str, str]]:
    parts: list[str] = []
    for part in split_outside_parentheses(text):
        if parts and ":" in parts[-1] and "=" in part.split(":")[0] and not _named(part):
            parts[-1] += f",{part}"
        else:
            parts.append(part.strip())
    if not all(parts):
        raise EstimatorListError(f"estimators: two commas with nothing between them in {text!r}")
    return [_named(part) or (part, part) for part in parts]


def _named(part: str) -> tuple[str, str] | None:
    """(NAME, SPEC) of NAME=SPEC, None where the text is no such pair."""
    name, equals, spec = (piece.strip() for piece in part.partition("="))
    head = re.split(r"[:>]", spec)[0].strip()
    if not (name and equals) or re.search(r"[:>]", name) or not _known(head):
        return None
    return name, spec


def _known(name: str) -> bool:
    try:
        look_up(name)
    except ValueError:
        return False
    return True


def safe(name: str) -> str:
    """The name as a part of a folder's name."""
    kept = "".join(c if c.isalnum() or c in "_.=-" else "-" for c in name.replace(" ", ""))
    return kept[:LONGEST]
