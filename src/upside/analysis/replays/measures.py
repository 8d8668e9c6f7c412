"""How estimators differ on the same responses: signs, sizes, who gains, and what hangs on their conditions.

N responses, K groups, S steps. A response without a reward trains nothing: it counts as one without signal and stays
out of every other figure. Signs take |A| up to 1e-8 as 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from upside.analysis.logs.log import Log
from upside.analysis.replays.values import Replayed, replayed
from upside.metrics import ZERO

LOGGED = "logged"
SAME = 1e-3  # relative: engines compute in float32
HALVES = {"entropy": "canon:metric=entropy", "length": "canon:metric=length"}
ADVANTAGES = {
    "length advantage": "group_mean > adora_weight:criteria=length",
    "difficulty advantage": "group_mean > adora_weight:criteria=difficulty",
}


@dataclass(frozen=True)
class Rows:
    """A log as dense indices. step: (N,) in [0, S); group: (N,) in [0, K); scored: (N,) bool."""

    log: Log

    @cached_property
    def step(self) -> np.ndarray:
        return np.unique(self.log.codes("step"), return_inverse=True)[1]

    @cached_property
    def group(self) -> np.ndarray:
        return np.unique(self.log.codes("group"), return_inverse=True)[1]

    @cached_property
    def reward(self) -> np.ndarray:
        return self.log.numbers("reward")

    @cached_property
    def scored(self) -> np.ndarray:
        return ~np.isnan(self.reward)

    @cached_property
    def first(self) -> np.ndarray:
        """(K,) a row of each group."""
        return np.unique(self.group, return_index=True)[1]

    def by_step(self, x: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Sums over each step. (N,) -> (S,)"""
        step, x = (self.step, x) if rows is None else (self.step[rows], x[rows])
        return np.bincount(step, x, minlength=len(self.log.steps))

    def by_group(self, x: np.ndarray) -> np.ndarray:
        """Sums over the scored rows of each group. (N,) -> (K,)"""
        return np.bincount(self.group, np.where(self.scored, x, 0.0), minlength=len(self.first))


def measure(log: Log, found: Mapping[str, Replayed], baseline: str, own: Mapping[str, Replayed]) -> dict[str, Any]:
    """Every figure as plain data; lists have one entry a step. own: what the logged advantages ought to be."""
    rows = Rows(log)
    values = {name: each.values.astype(np.float64) for name, each in found.items()}
    if log.has("advantage"):
        values[LOGGED] = np.nan_to_num(log.numbers("advantage"))
    names = list(values)
    signs = {name: _signs(each[rows.scored]) for name, each in values.items()}
    same = [[float((signs[a] == signs[b]).mean()) for b in names] for a in names]
    opposite = [[float((signs[a] * signs[b] < 0).mean()) for b in names] for a in names]
    return {
        "assumed": _assumed(log, rows),
        "responses": len(log),
        "groups": len(rows.first),
        "steps": log.steps,
        "unscored": int((~rows.scored).sum()),
        "baseline": baseline,
        "names": names,
        "same_sign": same,
        "opposite_sign": opposite,
        "correlation": _correlations([each[rows.scored] for each in values.values()]),
        "estimators": {name: _one(rows, name, values, found, baseline) for name in names},
        "slices": _slices(rows, values),
        "advantageous": _advantageous(log, rows, found),
        "halves": _halves(log, rows),
        "logged": _logged(values, found, own, rows) if LOGGED in values else None,
    }


def _assumed(log: Log, rows: Rows) -> list[str]:
    """What counts as success where not every response was judged."""
    unjudged = int(np.isnan(log.numbers("correct")[rows.scored]).sum())
    if not unjudged:
        return []
    why = f"{unjudged} scored responses have no verdict" if log.has("correct") else "Nothing says what is correct"
    return [f"{why}; where an estimator asks for success, a reward above 0.5 counts as one."]


def _signs(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) <= ZERO, 0, np.sign(x)).astype(np.int8)


def _correlations(values: list[np.ndarray]) -> list[list[float | None]]:
    """Pearson's over responses; None where one of the two is constant."""
    flat = [x.std() <= ZERO for x in values]
    with np.errstate(invalid="ignore", divide="ignore"):
        matrix = np.atleast_2d(np.corrcoef(values))
    pairs = range(len(values))
    return [[None if flat[a] or flat[b] else float(matrix[a, b]) for b in pairs] for a in pairs]


def _one(
    rows: Rows, name: str, values: Mapping[str, np.ndarray], found: Mapping[str, Replayed], baseline: str
) -> dict[str, Any]:
    """What one estimator gives, and per step what it shares with the baseline."""
    x, base = values[name], values[baseline]
    size, square = np.abs(x), x**2
    count = rows.by_step(np.ones(len(x)))
    zero = size <= ZERO
    active = rows.by_group(~zero) > 0
    live = rows.by_group(np.ones(len(x))) > 0
    effective = rows.by_step(size) ** 2 / np.where(rows.by_step(square) > 0, rows.by_step(square), 1.0) / count
    opposite = _signs(x) * _signs(base) < 0
    weight = found[name].columns.get("weight") if name in found else None
    return {
        "zero_share": float(zero.mean()),
        "zero_groups": float((~active & live).sum() / max(live.sum(), 1)),
        "effective": float(effective.mean()),
        "size": float(size.sum() / np.abs(base).sum()) if np.abs(base).sum() else None,
        "largest": float(size.max()),
        "mean_weight": None if weight is None else float(weight[rows.scored].mean()),
        "steps": {
            "zero_share": (rows.by_step(zero) / count).tolist(),
            "effective": effective.tolist(),
            "opposite": (rows.by_step(opposite) / count).tolist(),
        },
    }


def _slices(rows: Rows, values: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """Kinds of responses: how many there are, the share of the total |A| that each estimator gives them, and its net
    push, the sum of their A over the total |A|."""
    total = {name: np.abs(x).sum() for name, x in values.items()}
    return [
        {
            "name": name,
            "rows": float(which[rows.scored].mean()),
            "share": {k: float(np.abs(x[which]).sum() / total[k]) if total[k] else None for k, x in values.items()},
            "push": {k: float(x[which].sum() / total[k]) if total[k] else None for k, x in values.items()},
        }
        for name, which in _kinds(rows)
        if which.any()
    ]


def _kinds(rows: Rows) -> list[tuple[str, np.ndarray]]:
    """(name, which rows (N,) bool); scored rows only."""
    log, scored = rows.log, rows.scored
    kinds: list[tuple[str, np.ndarray]] = []
    if log.has("correct"):
        right = log.numbers("correct")
        solved, judged = rows.by_group(right == 1), rows.by_group(~np.isnan(right))
        hard = (solved <= 0.5 * judged)[rows.group]
        known = scored & (judged > 0)[rows.group]
        kinds += [("right", scored & (right == 1)), ("wrong", scored & (right == 0))]
        kinds += [("prompts solved at most half the time", known & hard), ("prompts solved more often", known & ~hard)]
    for column, low, high in (("length", "shortest", "longest"), ("entropy", "lowest entropy", "highest entropy")):
        if log.has(column):
            place = _place(rows.step, log.numbers(column), scored)
            kinds += [(f"{low} third", place < 1 / 3), (f"{high} third", place >= 2 / 3)]
    if log.has("truncated"):
        kinds.append(("truncated", scored & (log.numbers("truncated") == 1)))
    return kinds


def _place(step: np.ndarray, x: np.ndarray, scored: np.ndarray) -> np.ndarray:
    """Where each response stands among its step's by x, in [0, 1); equal values stand together; NaN where unknown."""
    place = np.full(len(x), np.nan)
    known = np.flatnonzero(scored & ~np.isnan(x))
    order = known[np.lexsort((x[known], step[known]))]
    s, v = step[order], x[order]
    new = np.concatenate([[True], (s[1:] != s[:-1]) | (v[1:] != v[:-1])])[: len(s)]
    block = np.cumsum(new) - 1
    start, size = np.flatnonzero(new), np.bincount(block)
    middle = (start + (size - 1) / 2)[block]
    first, count = np.unique(s, return_index=True)[1], np.bincount(s)
    place[order] = (middle - first[np.unique(s, return_inverse=True)[1]] + 0.5) / count[s]
    return place


def _advantageous(log: Log, rows: Rows, found: Mapping[str, Replayed]) -> list[dict[str, Any]]:
    """How often a prompt's state (ADORA's TAS or TDS) changes from one visit to the next, beside what independent
    draws with the same share would give: 2 p (1 - p)."""
    known = {**replayed(log, ADVANTAGES)[0], **found}
    states = {name: each.columns["tas"][rows.first] for name, each in known.items() if "tas" in each.columns}
    prompt, step = log.codes("prompt")[rows.first], rows.step[rows.first]
    order = np.lexsort((step, prompt))
    again = (np.diff(prompt[order]) == 0) & (np.diff(step[order]) > 0)  # a later visit of the same prompt
    result = []
    for name, state in states.items():
        share = float(state.mean())
        turned = np.diff(state[order])[again] != 0
        seen = np.concatenate([state[order][:-1][again], state[order][1:][again]])
        p = float(seen.mean()) if len(seen) else 0.0
        flips, chance = (float(turned.mean()), 2 * p * (1 - p)) if len(turned) else (None, None)
        result.append({"name": name, "share": share, "visits": len(turned), "flips": flips, "by_chance": chance})
    return result


def _halves(log: Log, rows: Rows) -> dict[str, dict[str, Any]]:
    """CANON's halves by each metric that the log has: mean reward of the high half less that of the low one."""
    result = {}
    step = rows.step[rows.first]
    for metric, each in replayed(log, HALVES)[0].items():
        half = each.columns["half"]
        reward = np.nan_to_num(rows.reward)
        n = rows.by_group(np.ones(len(half)))
        high, low = rows.by_group(half), rows.by_group(1 - half)
        pairs = n > 1
        top, bottom = rows.by_group(half * reward), rows.by_group((1 - half) * reward)
        gap = top / np.where(high > 0, high, 1) - bottom / np.where(low > 0, low, 1)
        gap = np.where(np.abs(gap) <= ZERO, 0.0, gap)[pairs]
        size = np.bincount(step[pairs], minlength=len(log.steps))
        with np.errstate(invalid="ignore"):
            steps = np.bincount(step[pairs], gap, minlength=len(log.steps)) / size
        result[metric] = {
            "gap": float(gap.mean()) if len(gap) else None,
            "high_better": float((gap > 0).mean()) if len(gap) else None,
            "low_better": float((gap < 0).mean()) if len(gap) else None,
            "steps": [None if np.isnan(value) else float(value) for value in steps],
        }
    return result


def _logged(
    values: Mapping[str, np.ndarray], found: Mapping[str, Replayed], own: Mapping[str, Replayed], rows: Rows
) -> dict[str, Any]:
    """Share of responses to which each estimator gives what was logged."""
    logged = values[LOGGED][rows.scored]
    candidates = {**{name: each.values for name, each in found.items()}, **{n: each.values for n, each in own.items()}}
    equal = {
        name: float((np.abs(x[rows.scored] - logged) <= SAME * (1 + np.abs(logged))).mean())
        for name, x in candidates.items()
    }
    best = max(equal, key=lambda name: equal[name])
    return {"equal": equal, "closest": best, "own": list(own)}
