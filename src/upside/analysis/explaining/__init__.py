"""Why each response of a log got its advantage: groups with their numbers after every stage, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from upside.analysis.blocks import Column, Groups
from upside.analysis.explaining.catalog import KINDS, TRACED, Catalog, evenly, instructive
from upside.analysis.explaining.texts import within
from upside.analysis.explaining.traced import Traced
from upside.analysis.logs import Log
from upside.chains import Estimator
from upside.chains import estimator as build

LOOKED = 60  # steps that a limited choice looks at; ten times as many in search of a kind that the estimator decides
PLAIN: set[Any] = {"correct", "wrong"}  # outcomes that the column `correct` already shows


def explain_groups(
    log: Log,
    estimator: str | Estimator | None = None,
    *,
    step: int | None = None,
    group: int | None = None,
    prompt: str | None = None,
    kind: str | None = None,
    limit: int | None = 240,
    characters: int = 2_000_000,
) -> Groups:
    """Groups of a log, explained: `values` of a response is {column name: number, text or None}.

    estimator: what explains; None is the run's own (grpo where the log names none, and the note says so).
    step, group (its number within the step, from 0; without step: of the last), prompt (a part of its text), kind
    (one of KINDS): which groups. limit: at most so many, of every kind and spread over the steps (60 of these are
    looked at); None: all. characters: budget for all texts together; the longest are cut in the middle and say how
    much is missing.
    Raises ValueError when nothing fits, or the estimator needs what the log does not have.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit={limit} must be at least 1 group, or None for all")
    own = log.recipe.get("estimator")
    chain = build(estimator) if estimator else _own(log, own or "grpo")
    catalog = Catalog(log)
    found = catalog.find(step, group, prompt, kind)
    steps = np.unique(catalog.step[found]).tolist()
    most = len(steps) if limit is None else 10 * LOOKED if kind in TRACED else LOOKED
    looked = _trace(catalog, chain, evenly(steps, most))
    candidates, kinds = _candidates(catalog, looked, found, kind)
    chosen = instructive(kinds, limit)
    columns, groups = _groups(catalog, looked, [candidates[i] for i in chosen], [kinds[i] for i in chosen], characters)
    notes = [f"Explained by {chain}" + ("." if estimator or own else ": the log names no estimator.")]
    total = len(candidates) if kind in TRACED else len(found)
    if len(groups) < total:
        notes.append(f"Shown: {len(groups):,} of {total:,} groups, the most telling.")
    if kind in TRACED and len(looked) < len(steps):
        notes.append(f"Looked for in {len(looked):,} of {len(steps):,} steps.")
    if estimator is None:
        notes += _against_logged(looked)
    return Groups(log.source, columns, groups, total, " ".join(notes))


def _own(log: Log, spec: str) -> Estimator:
    try:
        return build(spec)
    except ValueError as error:
        raise ValueError(
            f"{log.source}: its estimator cannot be built here ({error}); import what registers it, or name another"
        ) from None


def _trace(catalog: Catalog, chain: Estimator, steps: list[int]) -> dict[int, Traced]:
    """step -> the whole batch of it: a stage may look beyond the group."""
    wanted = set(steps)
    rows = {step: rows for step, rows in catalog.log.by_step() if step in wanted}
    return {step: Traced(catalog.log, chain, step, rows[step], catalog.index[rows[step]]) for step in steps}


def _candidates(
    catalog: Catalog, looked: dict[int, Traced], found: np.ndarray, kind: str | None
) -> tuple[list[int], list[set[str]]]:
    """Groups of the steps looked at with the kinds that each belongs to."""
    traced: dict[str, set[int]] = {name: set() for name in TRACED}
    for each in looked.values():
        for name, members in each.kinds(catalog.kinds["dead"]).items():
            traced[name] |= members
    candidates = [k for k in found.tolist() if int(catalog.step[k]) in looked]
    kinds = [_kinds(catalog, traced, k) for k in candidates]
    if kind is None:
        return candidates, kinds
    kept = [i for i, own in enumerate(kinds) if kind in own]
    if not kept:
        raise ValueError(f"{catalog.log.source}: no group of {len(looked):,} steps is {kind} ({KINDS[kind]})")
    return [candidates[i] for i in kept], [kinds[i] for i in kept]


def _kinds(catalog: Catalog, traced: dict[str, set[int]], k: int) -> set[str]:
    return {name for name in KINDS if (k in traced[name] if name in traced else catalog.kinds[name][k])}


def _groups(
    catalog: Catalog, looked: dict[int, Traced], chosen: list[int], kinds: Sequence[set[str]], characters: int
) -> tuple[list[Column], list[dict[str, Any]]]:
    """Columns that hold something, and the groups as `blocks.Groups` wants them."""
    groups, rows = [], []
    for k, own in zip(chosen, kinds, strict=True):
        batch = looked[int(catalog.step[k])]
        places = np.flatnonzero(batch.groups == k).tolist()  # within the step
        rows.append(batch.rows[places])
        explanation = batch.explanation
        groups.append(
            {
                "step": batch.step,
                "group": int(catalog.number[k]),
                "sentence": explanation.groups[int(explanation.rollouts.group_index[places[0]])],
                "tags": [name for name in KINDS if name in own],
                "responses": [
                    {
                        "why": explanation.responses[place],
                        "values": {column.name: values[place] for column, values in batch.columns.items()},
                    }
                    for place in places
                ],
            }
        )
    _add_texts(catalog.log, groups, rows, characters)
    columns = list(dict.fromkeys(column for batch in looked.values() for column in batch.columns))
    return [column for column in columns if _says_something(column.name, groups)], groups


def _says_something(name: str, groups: list[dict[str, Any]]) -> bool:
    values = {response["values"].get(name) for group in groups for response in group["responses"]} - {None}
    return bool(values - {"outcome": PLAIN, "truncated": {False}}.get(name, set()))


def _add_texts(log: Log, groups: list[dict[str, Any]], rows: list[np.ndarray], characters: int) -> None:
    first = [int(own[0]) for own in rows]
    prompts = log.texts("prompt_text", first)
    responses = log.texts("response", np.concatenate(rows))
    texts = iter(within([*prompts, *responses], characters))
    for group, files in zip(groups, log.pictures(first), strict=True):
        group["prompt"], group["pictures"] = next(texts), files
    for group in groups:
        for response in group["responses"]:
            response["text"] = next(texts)


def _against_logged(looked: dict[int, Traced]) -> list[str]:
    """Whether the engine logged the advantages that are explained here."""
    logged = np.concatenate([batch.log.numbers("advantage") for batch in looked.values()])
    found = np.concatenate([batch.advantages for batch in looked.values()])
    known = ~np.isnan(logged)
    gaps = np.abs(found - logged)[known]
    off = int((gaps > 1e-3 * np.maximum(1.0, np.abs(logged[known]))).sum())
    if not off:
        return []
    return [f"The log has another advantage for {off:,} of {len(gaps):,} responses, by up to {gaps.max():.3g}."]


__all__ = ["KINDS", "explain_groups"]
