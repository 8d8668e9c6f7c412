"""Rollouts that somebody logged, under one set of names, whatever engine wrote them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from upside.analysis.logs.messages import is_text
from upside.rollouts import Rollouts

LogKind = Literal["upside", "trl", "verl", "table"]

COLUMNS: dict[str, str] = {
    "step": "int64: optimisation step, ascending",
    "group": "int64: one code per group of the whole log: the same prompt at two steps is two groups",
    "prompt": "int64: one code per prompt text, so that visits of a prompt at several steps can be compared",
    "prompt_text": "string",
    "response": "string",
    "images": "list of strings: files of the prompt's pictures, relative to the folder of an Upside run",
    "reward": "double, null where none could be computed",
    "correct": "bool, null where not judged",
    "outcome": "string: correct, wrong, unparsed, timeout, error",
    "length": "double: generated tokens incl. EOS",
    "entropy": "double: mean nats per token",
    "truncated": "bool: hit the token limit",
    "reference_reward": "double: of the paired reference response",
    "advantage": "double: as the engine logged it",
}
"""What a log's table may hold; step, group and reward it always does. Other columns keep their own names."""


class LogError(ValueError):
    """A log that cannot be read or lacks what is asked of it; the message names file, row or column, and the remedy."""


@dataclass(frozen=True)
class Log:
    """N responses in logged order.

    source: the path as given. kind: who wrote it. table: columns as COLUMNS names them. metrics: the steps' lines where
    the engine keeps them (metrics.jsonl), else []. recipe: resolved settings as plain values, {} where unknown.
    summary: held-out results of an Upside run, else {}. held_out: per-problem results of an Upside run, else [].
    notes: what the reader had to assume, one sentence each.
    """

    source: str
    kind: LogKind
    table: pa.Table
    metrics: list[dict[str, Any]] = field(default_factory=list)
    recipe: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    held_out: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def has(self, name: str) -> bool:
        """Whether the column is there and holds at least one value."""
        return name in self.table.column_names and self.table[name].null_count < len(self)

    def numbers(self, name: str) -> np.ndarray:
        """A column as float64 (N,), NaN where null or absent."""
        if name not in self.table.column_names:
            return np.full(len(self), np.nan)
        column = self.table[name]
        if pa.types.is_boolean(column.type):
            column = pc.cast(column, pa.int8())
        if is_text(column.type):  # a further column of a CSV file
            column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
        try:
            column = pc.cast(column, pa.float64())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise LogError(f"{self.source}: column {name!r} holds no numbers ({error})") from None
        return np.array(column.to_numpy(zero_copy_only=False), dtype=np.float64)

    def codes(self, name: str) -> np.ndarray:
        """step, group or prompt as int64 (N,)."""
        return np.array(self.table[name].to_numpy(), dtype=np.int64)

    def texts(self, name: str, rows: np.ndarray | list[int]) -> list[str | None]:
        """prompt_text, response or outcome of some rows; None where absent."""
        if name not in self.table.column_names:
            return [None] * len(rows)
        return self.table[name].take(pa.array(np.asarray(rows, dtype=np.int64))).to_pylist()

    def pictures(self, rows: np.ndarray | list[int]) -> list[list[str]]:
        """Files of some rows' pictures, relative to the folder of the log; [] where there are none."""
        if "images" not in self.table.column_names:
            return [[] for _ in rows]
        found = self.table["images"].take(pa.array(np.asarray(rows, dtype=np.int64))).to_pylist()
        return [[file for file in files or [] if file is not None] for files in found]

    @cached_property
    def steps(self) -> list[int]:
        """The steps, ascending."""
        return [int(step) for step in np.unique(self.codes("step"))]

    def rollouts(
        self, rows: np.ndarray | slice | None = None, *, step: int = 0, metrics: Sequence[str] = ()
    ) -> Rollouts:
        """Some rows (default: all) as the batch an estimator reads, with training=False. Columns that are missing, or
        null in a row that has a reward, are left out of the batch; `Estimator.needs` says which are wanted. metrics:
        further columns to take along, for CANON or ReMax.

        Whole logs may go through an estimator at once only where none of its stages looks beyond a group.
        """
        pick = slice(None) if rows is None else rows
        reward = self.numbers("reward")[pick]
        known = ~np.isnan(reward)
        fields: dict[str, Any] = {}
        for name, key in (
            ("length", "lengths"),
            ("entropy", "entropy"),
            ("correct", "correct"),
            ("truncated", "truncated"),
            ("reference_reward", "reference_rewards"),
        ):
            values = self.numbers(name)[pick] if name in self.table.column_names else np.full(len(reward), np.nan)
            complete = known.any() and not np.isnan(values[known]).any()
            if complete or (name == "reference_reward" and not np.isnan(values).all()):
                fields[key] = np.nan_to_num(values) > 0 if name in ("correct", "truncated") else values
        named = {name: self.numbers(name)[pick] for name in metrics if self.has(name)}
        fields["metrics"] = {name: values for name, values in named.items() if not np.isnan(values[known]).any()}
        total = self.recipe.get("steps")
        return Rollouts(
            rewards=reward, groups=self.codes("group")[pick], step=step, total_steps=total, training=False, **fields
        )

    def by_step(self) -> Iterator[tuple[int, np.ndarray]]:
        """(step, its rows) in order."""
        steps = self.codes("step")
        order = np.argsort(steps, kind="stable")
        edges = np.flatnonzero(np.diff(steps[order])) + 1
        for rows in np.split(order, edges) if len(order) else []:
            yield int(steps[rows[0]]), rows
