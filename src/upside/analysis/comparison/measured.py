"""What a finished run left, as arrays: T steps, E evaluations, P held-out problems."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.parquet

from upside.analysis.comparison.plan import PlannedRun
from upside.analysis.names import make

MODES = ("sampled", "greedy")
CURVES = ("accuracy", "length", "entropy", "zero_advantage_share")


@dataclass(frozen=True)
class HeldOut:
    """Evaluations in one mode. steps: (E,). accuracy: (E, P) share of right responses, NaN where none was judged.
    tokens: (E, P) of a response. first: the line of the evaluation before training, as it is in the file."""

    steps: np.ndarray
    accuracy: np.ndarray
    tokens: np.ndarray
    first: dict[str, Any]

    @property
    def curve(self) -> np.ndarray:
        """Mean over the problems. (E,)"""
        return np.asarray(np.nanmean(self.accuracy, axis=1))


@dataclass(frozen=True)
class Measured:
    """A run. curves: name -> (T,), NaN where not measured. tokens: (T,) generated up to each step, with those of AAPO's
    fresh reference responses. reference_tokens: these alone; estimated: from the initial model's mean length, where the
    run did not log them. prompts: a digest a step. seconds, cpu_seconds: by phase."""

    name: str
    seed: int
    held_out: dict[str, HeldOut]
    curves: dict[str, np.ndarray]
    tokens: np.ndarray
    reference_tokens: float
    estimated: bool
    prompts: list[str]
    versions: dict[str, Any]
    seconds: dict[str, float]
    cpu_seconds: dict[str, float]

    @property
    def mode(self) -> str:
        """What is compared: sampled as in training, where the recipe asks for it."""
        return next(mode for mode in MODES if mode in self.held_out)

    def tokens_at(self, steps: np.ndarray) -> np.ndarray:
        """Tokens generated up to some steps, 0 at step 0."""
        return np.concatenate([[0.0], self.tokens])[steps]


def measure(run: PlannedRun) -> Measured:
    """Read a finished run."""
    folder, recipe = run.folder, run.recipe
    rows = folder.metrics()
    held_out = _held_out(folder.held_out())
    own = np.array([round(row["length"] * recipe.responses) for row in rows], dtype=float)
    logged = "reference_tokens" in rows[0]
    estimated = not logged and recipe.reference == "fresh" and "reference_rewards" in make(recipe.estimator).needs
    reference = np.array([float(row.get("reference_tokens") or 0) for row in rows])
    if estimated:
        initial = held_out[next(mode for mode in MODES if mode in held_out)].tokens[0].mean()
        reference = np.full(len(rows), recipe.responses * initial)
    return Measured(
        name=run.name,
        seed=recipe.seed,
        held_out=held_out,
        curves={key: np.array([_number(row.get(key)) for row in rows]) for key in CURVES},
        tokens=np.cumsum(own + reference),
        reference_tokens=float(reference.sum()),
        estimated=estimated,
        prompts=[_prompts(path) for path in sorted(folder.rollouts.glob("step-*.parquet"))],
        versions=json.loads(folder.versions_file.read_text()),
        seconds=_seconds(rows, folder.summary()["seconds"]),
        cpu_seconds=_cpu_seconds(folder.summary().get("cpu_seconds", {})),
    )


def _held_out(lines: list[dict[str, Any]]) -> dict[str, HeldOut]:
    found = {}
    for mode in MODES:
        mine = [line for line in lines if line["mode"] == mode]
        if not mine:
            continue
        right, judged, tokens, drawn = (
            np.array([line[key] for line in mine], dtype=float) for key in ("right", "judged", "tokens", "drawn")
        )
        with np.errstate(invalid="ignore"):
            found[mode] = HeldOut(np.array([line["step"] for line in mine]), right / judged, tokens / drawn, mine[0])
    return found


def _prompts(path: Any) -> str:
    """A digest of a step's prompts and their pictures, in order."""
    table = pyarrow.parquet.read_table(path)
    texts = table["prompt"].to_pylist()
    if "images" in table.column_names:
        texts += [",".join(files) for files in table["images"].to_pylist()]
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()


def _seconds(rows: list[dict[str, Any]], phases: dict[str, float]) -> dict[str, float]:
    rollout = sum(row.get("seconds_rollout", 0.0) for row in rows)
    evaluation = sum(value for name, value in phases.items() if name.startswith("evaluate"))
    return {
        "rollout": rollout,
        "update": sum(row["seconds"] for row in rows) - rollout,
        "evaluation": evaluation,
        "load": phases.get("load", 0.0),
    }


def _cpu_seconds(phases: dict[str, float]) -> dict[str, float]:
    during = phases.get("evaluate_during", 0.0)  # a part of train's
    evaluation = sum(value for name, value in phases.items() if name.startswith("evaluate"))
    return {"steps": phases.get("train", 0.0) - during, "evaluation": evaluation, "load": phases.get("load", 0.0)}


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)
