"""How judgements ended, counted: correct, wrong, unparsed, timeout, error (see `upside.verifiers.Outcome`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from upside.verifiers import Outcome

NAMES: tuple[str, ...] = get_args(Outcome)
UNJUDGED = ("timeout", "error")


def shares(outcomes: Sequence[str | None]) -> dict[str, float]:
    """`verify/NAME` -> share of all responses of a batch. They sum to 1 where every judgement says how it ended."""
    return {f"verify/{name}": sum(o == name for o in outcomes) / max(1, len(outcomes)) for name in NAMES}


def totals(rows: Iterable[Mapping[str, Any]], responses: int) -> dict[str, int]:
    """Outcome -> number over the logged steps of `responses` each; {} where nothing was judged."""
    judged = [row for row in rows if f"verify/{NAMES[0]}" in row]
    return {name: sum(round(row[f"verify/{name}"] * responses) for row in judged) for name in NAMES} if judged else {}


def unjudged_example(rollouts: Path) -> dict[str, Any] | None:
    """The first response in a run's rollout files whose judgement ended in a timeout or error, None without one."""
    import pyarrow.parquet

    columns = ["step", "prompt", "response", "outcome"]
    for path in sorted(rollouts.glob("step-*.parquet")):
        outcomes = pyarrow.parquet.read_table(path, columns=["outcome"])["outcome"].to_pylist()
        row = next((i for i, outcome in enumerate(outcomes) if outcome in UNJUDGED), None)
        if row is not None:
            table = pyarrow.parquet.read_table(path, columns=columns)
            return {name: table[name][row].as_py() for name in columns}
    return None


def complaint(outcomes: Mapping[str, int], total: int) -> str | None:
    """`3 of 64 responses could not be judged (timeout 2, error 1)`, None where all could."""
    found = {name: outcomes.get(name, 0) for name in UNJUDGED if outcomes.get(name, 0)}
    if not found:
        return None
    kinds = ", ".join(f"{name} {count}" for name, count in found.items())
    return f"{sum(found.values())} of {total} responses could not be judged ({kinds})"
