"""One step of a log through an estimator: what each group was, and each response's numbers and sentence."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from upside.analysis.blocks import Column
from upside.analysis.logs import Log
from upside.chains import Estimator
from upside.explanation import Explanation
from upside.metrics import ZERO
from upside.rollouts import RESERVED

LOGGED = {
    "reward": Column("reward", "number", 3, "What the response earned; – where no reward could be computed."),
    "correct": Column("correct", "text", 0, "Whether the answer is right, whatever its reward."),
    "outcome": Column("outcome", "text", 0, "How the judgement of the answer ended."),
    "length": Column("length", "number", 0, "Generated tokens."),
    "entropy": Column("entropy", "number", 3, "Mean nats per token of the distribution it was sampled from."),
    "truncated": Column("truncated", "text", 0, "Whether it was cut off at the token limit."),
    "reference_reward": Column("reference reward", "number", 3, "What the paired response of the reference earned."),
}
NOTED = {
    "half": Column("half", "text", 0, "CANON's half: high or low in its metric; both: the response stands at the cut."),
    "weight": Column("weight", "number", 2, "ADORA's weight of the prompt."),
    "margin": Column("margin", "signed", 2, "AAPO's clipped margin over the reference's reward."),
}
SILENT = {"metric", "tas", "success"}  # what stages note and other columns already say
ADVANTAGE = Column("advantage", "signed", 3, "What the response is trained with.")


class Traced:
    """rows: (n,) the step's rows of the log. groups: their positions in the catalog, (n,)."""

    def __init__(self, log: Log, estimator: Estimator, step: int, rows: np.ndarray, groups: np.ndarray) -> None:
        self.step, self.rows, self.groups = step, rows, groups
        self.log = replace(log, table=log.table.take(pa.array(rows)))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # what they warn of is told group by group
                batch = self.log.rollouts(step=step, metrics=sorted(estimator.needs - RESERVED))
                self.explanation = Explanation(estimator, batch)
        except ValueError as error:
            raise ValueError(f"{log.source}, step {step}, by {estimator}: {error}") from None

    @cached_property
    def advantages(self) -> np.ndarray:
        """(n,)"""
        return self.explanation.advantages.numpy()

    def kinds(self, dead: np.ndarray) -> dict[str, set[int]]:
        """Kind -> positions of groups, of the kinds that the estimator decides. dead: (K,) bool."""
        values = np.stack([output.values.numpy() for output in self.explanation.outputs])  # (stages, n)
        signs = np.where(np.abs(values) <= ZERO, 0, np.sign(values))
        flipped = (signs.max(axis=0) > 0) & (signs.min(axis=0) < 0)
        size = np.abs(self.advantages)
        weight = np.prod([np.ones(len(self.rows)), *self._noted("weight")], axis=0)
        weight = np.where(size > ZERO, weight, 1.0)
        of = lambda rows: set(self.groups[rows].tolist())  # noqa: E731
        return {
            "flipped": of(flipped),
            "rescued": of((size > ZERO) & dead[self.groups]),
            "extreme": of([int(size.argmax())]) if size.max() > ZERO else set(),
            "attenuated": of(weight < 1 - ZERO),
            "amplified": of(weight > 1 + ZERO),
        }

    def _noted(self, name: str) -> list[np.ndarray]:
        return [o.columns[name].double().numpy() for o in self.explanation.outputs if name in o.columns]

    @cached_property
    def columns(self) -> dict[Column, list[Any]]:
        """Column -> (n,) plain values; None where there is none."""
        found: dict[Column, list[Any]] = {}
        for name, column in LOGGED.items():
            if name == "outcome":
                found[column] = self.log.texts(name, np.arange(len(self.rows)))
            else:
                flag = name in ("correct", "truncated")
                found[column] = [_number(x, flag) for x in self.log.numbers(name).tolist()]
        explained = self.explanation.columns()
        for stage, output in zip(self.explanation.estimator.stages, self.explanation.outputs, strict=True):
            for name, values in output.columns.items():
                if name not in SILENT:
                    column = NOTED.get(name, Column(name, "number", 3, f"Noted by {stage.info.name}."))
                    found[_free(column, found)] = [_half(v) if name == "half" else v for v in values.tolist()]
            after = Column(f"after {stage.info.name}", "signed", 3, f"The value after {stage.info.name}.")
            found[_free(after, found)] = [_rounded(v) for v in output.values.tolist()]
        last = next(reversed(found))
        del found[last]
        return found | {ADVANTAGE: [_rounded(v) for v in explained["advantage"]]}


def _free(column: Column, taken: dict[Column, Any]) -> Column:
    """The column, numbered where its name is taken."""
    names = {each.name for each in taken}
    number = next(n for n in range(1, len(names) + 2) if (column.name if n == 1 else f"{column.name} {n}") not in names)
    return column if number == 1 else replace(column, name=f"{column.name} {number}")


def _number(value: float, flag: bool) -> Any:
    if value != value:
        return None
    if flag:
        return bool(value)
    return int(value) if value == round(value) else value


def _rounded(value: float) -> float:
    """A rounding residue is 0."""
    return 0.0 if abs(value) <= ZERO else value


def _half(share: float) -> str:
    return {1.0: "high", 0.0: "low"}.get(share, "both")
