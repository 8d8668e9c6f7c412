"""Text that a model wrote, made safe to keep in a page; JSON and packed JSON inside a script element."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any

import numpy as np

SURROGATES = re.compile("[\ud800-\udfff]")
CONTROLS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
"""Control characters as their symbols: NUL as ␀, ESC as ␛."""
UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def clean(text: str) -> str:
    """The text with control characters as symbols and lone surrogates, which no file can hold, as �."""
    return SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text).translate(CONTROLS)


def cleaned(value: Any) -> Any:
    """Plain data with every text in it cleaned, NaN and infinity as None, numbers to 6 digits, NumPy's made plain."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): cleaned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.6g}") if abs(value) < float("inf") else None
    return value


def script_json(value: Any) -> str:
    """Plain data as JSON for a script element: no text in it can end the element."""
    return _json(value).translate(UNSAFE)


def packed(value: Any) -> str:
    """Plain data as JSON, compressed, in base64: a fifth of its size, and nothing in it can end an element."""
    return base64.b64encode(gzip.compress(_json(value).encode(), 6, mtime=0)).decode()


def _json(value: Any) -> str:
    return json.dumps(cleaned(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
