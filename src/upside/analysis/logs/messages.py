"""Prompts and completions as text: chat messages become what they say."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PICTURE = "[image]"
"""What stands for a picture in a message's text."""


def texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as text. Chat messages become their content, several of them one `role: content` line each."""
    kind = column.type
    if is_text(kind):
        return column
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        return pa.chunked_array([_messages(chunk) for chunk in column.chunks], pa.string())
    if pa.types.is_nested(kind):
        return pa.chunked_array([[None if value is None else said(value) for value in column.to_pylist()]], pa.string())
    return pc.cast(column, pa.string())


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of its texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def said(value: Any) -> str:
    """Messages of any shape as text; what is no message as JSON."""
    if isinstance(value, list) and value and all(isinstance(each, dict) and "content" in each for each in value):
        contents = [_content(message["content"]) for message in value]
        if len(value) == 1:
            return contents[0]
        return "\n".join(f"{m.get('role', '')}: {text}" for m, text in zip(value, contents, strict=True))
    return json.dumps(value, ensure_ascii=False, default=str)


def _messages(chunk: pa.ListArray) -> pa.Array:
    """As `said`, for all rows at once where every content is a text."""
    names = [field.name for field in chunk.type.value_type]
    if not ({"role", "content"} <= set(names) and is_text(chunk.type.value_type.field("content").type)):
        return pa.array([None if value is None else said(value) for value in chunk.to_pylist()], pa.string())
    flat = chunk.flatten()
    content = pc.fill_null(flat.field("content"), "")
    lines = pc.binary_join_element_wise(pc.fill_null(flat.field("role"), ""), content, ": ")
    sizes = pc.fill_null(pc.list_value_length(chunk), 0).to_numpy()
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    joined = [pc.binary_join(pa.ListArray.from_arrays(offsets, each), "\n") for each in (content, lines)]
    return pc.if_else(pa.array(sizes == 1), *joined)


def _content(content: Any) -> str:
    if isinstance(content, list):  # parts of a multimodal message
        parts = [part.get("text") or f"[{part.get('type')}]" for part in content if isinstance(part, dict)]
        return " ".join(map(str, parts))
    return "" if content is None else str(content)
