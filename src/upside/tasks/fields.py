"""Values of a row's fields as what a problem needs. Every ValueError names the field and the remedy."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

Column = str | Sequence[str]
_LEVEL = re.compile(r"\s*(?:level\s*)?(\d{1,6}|\?)\s*", re.ASCII | re.IGNORECASE)
_ABSENT = object()


def look_up(fields: Mapping[str, Any], column: Column, role: str) -> tuple[str, Any]:
    """(name, value) of the first of the columns that the row has; a dot descends. role: the option that names it."""
    names = [column] if isinstance(column, str) else list(column)
    for name in names:
        value = _descend(fields, name)
        if value is not _ABSENT:
            return name, value
    near = difflib.get_close_matches(names[0], list(fields), n=1)
    hint = f"; did you mean {near[0]!r}? " if near else "; "
    raise ValueError(
        f"no field {' or '.join(map(repr, names))}{hint}fields present: {', '.join(map(repr, fields)) or 'none'}. "
        f"Name yours with the option {role}=FIELD"
    )


def _descend(fields: Mapping[str, Any], name: str) -> Any:
    if name in fields:
        return fields[name]
    value: Any = fields
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _ABSENT
        value = value[part]
    return value


def text_of(name: str, value: Any) -> str:
    """The field as text: strings and numbers only, and only text that can be encoded."""
    if isinstance(value, Real | Decimal) and not isinstance(value, bool):  # numpy's numbers too
        if not _finite(value):
            raise ValueError(f"field {name!r} is {value}, no finite number")
        value = str(value)
    if not isinstance(value, str):
        kind = "is empty (null)" if value is None else f"must be text or a number, got {type(value).__name__}"
        raise ValueError(f"field {name!r} {kind}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"field {name!r} holds a lone surrogate, which is not valid Unicode") from None
    return value


def _finite(value: Any) -> bool:
    """By comparison, for `math.isfinite` turns numbers of any size into floats first."""
    return bool(value == value and abs(value) != math.inf)


def answer_text(name: str, value: Any) -> str:
    """The answer as text, "" for null (pandas writes NaN); several answers in a list are joined by ", "."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, list):
        return ", ".join(text_of(name, part) for part in value)
    return text_of(name, value)


def prompt_parts(name: str, value: Any) -> tuple[str | None, str]:
    """(system prompt or None, what the user asks) of text or of a list of messages."""
    system = None
    if isinstance(value, list):
        roles = [message.get("role") if isinstance(message, Mapping) else None for message in value]
        if roles not in (["user"], ["system", "user"]):
            raise ValueError(
                f"field {name!r} is a list that is not exactly one user message, with at most a system message "
                f"before it; put other text into the option template"
            )
        if len(value) == 2:
            system = _message(name, value[0].get("content"))
        value = value[-1].get("content")
    return system, _message(name, value)


def _message(name: str, value: Any) -> str:
    if not isinstance(value, str):
        kind = "null" if value is None else type(value).__name__
        raise ValueError(f"field {name!r} must be text, got {kind}")
    if not value.strip():
        raise ValueError(f"field {name!r} is empty")
    return text_of(name, value)


def level_number(name: str, value: Any) -> int:
    """3 of 3, "3" and "Level 3"; 0 of MATH's "Level ?"."""
    if isinstance(value, str):
        match = _LEVEL.fullmatch(value)
        if match:
            return 0 if match[1] == "?" else int(match[1])
    elif isinstance(value, Real | Decimal) and not isinstance(value, bool) and _finite(value):
        number = math.floor(value)
        if number == value:
            return int(number)
    raise ValueError(f"field {name!r} must be a whole number or text such as 'Level 3', got {value!r:.80}")


def whole_numbers(value: Any, option: str) -> list[int]:
    """The numbers of an option in order: [3, 5], 3, "3,5" and "3-5" (which is 3, 4, 5). ValueError for others."""
    if isinstance(value, int) and not isinstance(value, bool):
        return [value]
    if isinstance(value, str):
        bounds = re.fullmatch(r"\s*(\d{1,6})\s*-\s*(\d{1,6})\s*", value, re.ASCII)
        if bounds and int(bounds[1]) <= int(bounds[2]) < int(bounds[1]) + 1000:
            return list(range(int(bounds[1]), int(bounds[2]) + 1))
        if re.fullmatch(r"\s*\d{1,6}\s*(,\s*\d{1,6}\s*)*", value, re.ASCII):
            return [int(part) for part in value.split(",")]
    elif isinstance(value, Sequence) and all(isinstance(v, int) and not isinstance(v, bool) for v in value):
        return list(value)
    raise ValueError(f"{option}: {value!r} must be whole numbers, such as [3, 5]")
