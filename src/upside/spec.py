"""Chains as text: "canon:metric=entropy,mu=0.5 > adora_weight:mode=attenuate", read and written.

    chain  = call { ">" call }          call = name [ ":" option { "," option } ]          option = key "=" value

A value is a number, true, false, none, a name, or a schedule with constants in parentheses: linear(start=1,end=0.5).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any


def parse_chain(text: str) -> list[tuple[str, dict[str, Any]]]:
    """A spec string as a list of (name, options)."""
    parts = [part.strip() for part in text.split(">")]
    if not all(parts):
        raise ValueError(f"estimator {text!r}: an empty link; write name:option=value,… > name:…")
    return [parse_call(part, opening=":", closing="") for part in parts]


def parse_call(text: str, opening: str = "(", closing: str = ")") -> tuple[str, dict[str, Any]]:
    """'name:a=1,b=x' (or 'name(a=1,b=x)') as ('name', {'a': 1, 'b': 'x'})."""
    name, found, rest = text.strip().partition(opening)
    name = name.strip()
    if not re.fullmatch(r"[A-Za-z_]\w*", name) or (found and closing and not rest.endswith(closing)):
        raise ValueError(f"cannot read {text!r}; write name{opening}option=value,option=value{closing}")
    rest = rest[: len(rest) - len(closing)] if found and closing else rest
    options: dict[str, Any] = {}
    for item in split_outside_parentheses(rest):
        key, equals, value = item.partition("=")
        key = key.strip()
        if not equals or not key or not value.strip():
            raise ValueError(f"cannot read option {item.strip()!r} of {text!r}; write option=value")
        if key in options:
            raise ValueError(f"option {key!r} stands twice in {text!r}")
        options[key] = parse_value(value.strip())
    if found and not options and not closing:
        raise ValueError(
            f"cannot read {text!r}: no option after {opening!r}; write name:option=value or the name alone"
        )
    return name, options


def split_outside_parentheses(text: str) -> list[str]:
    """Split at commas that stand in no parentheses."""
    if not text.strip():
        return []
    return re.split(r",(?![^()]*\))", text)


def parse_value(text: str) -> Any:
    literals = {"none": None, "null": None, "true": True, "false": False}
    if text.lower() in literals:
        return literals[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def format_call(name: str, options: Mapping[str, Any], opening: str = ":", closing: str = "") -> str:
    """The inverse of parse_call."""
    if not options:
        return name
    return name + opening + ",".join(f"{k}={format_value(k, v)}" for k, v in options.items()) + closing


def format_value(option: str, value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"option {option}={value} is not a finite number")
    if isinstance(value, str) and not _reads_back(value):
        raise ValueError(f"option {option}={value!r} cannot stand in a spec string; use letters, digits, underscores")
    return str(value)


def _reads_back(text: str) -> bool:
    try:
        return parse_chain(f"stage:option={text}") == [("stage", {"option": text})]
    except ValueError:
        return False
