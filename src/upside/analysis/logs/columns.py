"""From somebody's columns to those of COLUMNS: names, sums of rewards, numbers, flags, texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from upside.analysis.logs.files import Tables
from upside.analysis.logs.log import LogError
from upside.analysis.logs.messages import is_text
from upside.registry import nearest

NAMES: dict[str, tuple[str, ...]] = {
    "step": ("step", "global_step", "iteration", "train_step"),
    "group": ("group", "group_id", "uid", "prompt_id", "problem_id"),
    "prompt": ("prompt_text", "prompt", "input", "question", "problem", "query"),
    "response": ("response", "completion", "output", "generation"),
    "reward": ("reward", "score", "total_reward", "rewards"),
    "correct": ("correct", "is_correct", "acc"),
    "outcome": ("outcome",),
    "length": ("length", "response_length", "completion_length", "num_tokens", "tokens"),
    "entropy": ("entropy",),
    "truncated": ("truncated", "is_truncated"),
    "reference_reward": ("reference_reward",),
    "advantage": ("advantage", "advantages"),
}
"""What a log may hold -> the names it is looked for under, the first that is there."""

NUMBERS = ("reward", "length", "entropy", "reference_reward", "advantage")
FLAGS = ("correct", "truncated")
TEXTS = ("prompt", "response", "outcome")
MISSING = pa.array(["", "nan", "null", "none", "na", "n/a"])
TRUTH = {"true": True, "1": True, "1.0": True, "yes": True, "false": False, "0": False, "0.0": False, "no": False}


def find(tables: Tables, mapping: Mapping[str, str] | None) -> dict[str, str]:
    """meaning -> column of the file (for the reward also a sum such as 2*accuracy+format). LogError for an unknown
    meaning or column, with the nearest known ones."""
    there = tables.table.column_names
    found = {meaning: next((name for name in names if name in there), "") for meaning, names in NAMES.items()}
    for meaning, name in (mapping or {}).items():
        if meaning not in NAMES:
            raise LogError(f"map: {meaning!r} is nothing a log holds.{nearest(meaning, NAMES)}")
        terms = _terms(name) if meaning == "reward" and name not in there else {name: 1.0}
        for column in terms:
            if column not in there:
                raise LogError(f"map: {tables.files[0]} has no column {column!r}.{nearest(column, there)}")
        found[meaning] = name
    if not found["reward"]:
        raise LogError(
            f"{tables.files[0]}: no column of rewards among {', '.join(there)}; name it: map reward=COLUMN"
            " (a sum of several: reward=2*accuracy+format)"
        )
    return {meaning: name for meaning, name in found.items() if name}


def _terms(text: str) -> dict[str, float]:
    """'2*accuracy+format' as {accuracy: 2, format: 1}."""
    terms = {}
    for part in text.split("+"):
        weight, name = re.fullmatch(r"\s*(?:(-?(?:\d+\.?\d*|\.\d+))\s*\*)?\s*(.*?)\s*", part, re.DOTALL).groups()  # type: ignore[union-attr]
        terms[name] = float(weight or 1)
    return terms


def reward(tables: Tables, expression: str) -> pa.Array:
    """A column, or a weighted sum over the terms that are there, null where none is."""
    there = tables.table.column_names
    terms = {expression: 1.0} if expression in there else _terms(expression)
    columns = [numbers(tables, name) for name in terms]
    if len(columns) == 1 and [*terms.values()] == [1.0]:
        return columns[0]
    weights = np.array([*terms.values()])[:, None]
    values = np.stack([column.to_numpy(zero_copy_only=False) for column in columns])  # (terms, N)
    total = np.nansum(weights * values, axis=0)
    return pa.array(total, mask=np.isnan(values).all(axis=0))


def numbers(tables: Tables, name: str) -> pa.Array:
    """A column as double, null for null, NaN and an empty text. LogError names the first cell that is no number, or
    is infinite."""
    column = tables.table[name]
    if pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.int8())
    if is_text(column.type):
        column = _without_missing(column)
        for word, digit in (("true", "1"), ("false", "0")):  # flags, as CSV files have them
            column = pc.if_else(pc.equal(pc.utf8_lower(column), word), digit, column)
        bad = pc.and_kleene(pc.is_valid(column), pc.invert(pc.match_substring_regex(column, NUMBER)))
        _refuse(tables, name, bad, "is no number; repair it, or leave it empty where there is none")
        column = pc.cast(pc.utf8_trim_whitespace(column), pa.float64())
    elif pa.types.is_null(column.type) or pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        column = pc.cast(column, pa.float64(), safe=False)
    elif pa.types.is_decimal(column.type):
        column = pc.cast(column, pa.float64())
    else:
        raise LogError(f"{tables.files[0]}: column {name!r} holds {column.type}; expected numbers")
    _refuse(tables, name, pc.is_inf(column), "is infinite; leave it empty where there is no number")
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pc.if_else(pc.is_nan(values), pa.scalar(None, pa.float64()), values)


NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


def lengths(tables: Tables, name: str) -> pa.Array:
    """As `numbers`; LogError for one below 0."""
    values = numbers(tables, name)
    _refuse(tables, name, pc.less(values, 0.0), "is negative; give tokens, or leave it empty where they are unknown")
    return values


def flags(tables: Tables, name: str) -> pa.Array:
    """A column as bool, null where unknown. LogError names the first cell that is neither true nor false."""
    column = tables.table[name]
    if pa.types.is_boolean(column.type):
        return column.combine_chunks()
    if is_text(column.type):
        texts = pc.utf8_lower(_without_missing(column)).combine_chunks()
        at = pc.index_in(texts, pa.array([*TRUTH]))
        _refuse(
            tables, name, pc.and_(pc.is_valid(texts), pc.is_null(at)), "is neither true nor false; write true or false"
        )
        return pa.array([*TRUTH.values()]).take(at)
    values = numbers(tables, name)
    _refuse(tables, name, pc.invert(pc.is_in(values, pa.array([0.0, 1.0, None]))), "is neither 0 nor 1")
    return pc.equal(values, 1.0)


def stand_in(response: pa.ChunkedArray, unit: str) -> pa.ChunkedArray:
    """Characters or words of each response."""
    if unit not in ("chars", "words"):
        raise LogError(f"lengths={unit!r}: give chars or words, which stand in for tokens where the log has none")
    text = pc.fill_null(response, "")
    count = pc.utf8_length(text) if unit == "chars" else pc.count_substring_regex(text, r"\S+")
    return pc.cast(count, pa.float64())


def _without_missing(column: Any) -> Any:
    missing = pc.is_in(pc.utf8_lower(pc.utf8_trim_whitespace(column)), MISSING)
    return pc.if_else(missing, pa.scalar(None, pa.string()), pc.cast(column, pa.string()))


def _refuse(tables: Tables, name: str, bad: Any, why: str) -> None:
    found = np.flatnonzero(np.asarray(pc.fill_null(bad, False)))
    if len(found):
        row, more = int(found[0]), f" ({len(found)} rows in all)" if len(found) > 1 else ""
        value = str(tables.table[name][row].as_py())
        raise LogError(f"{tables.where(row)}: {name} {value[:40]!r} {why}{more}")
