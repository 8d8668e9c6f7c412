"""Run folders of `upside train`, on either engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml  # type: ignore[import-untyped]

from upside.analysis.logs.files import read_parquet
from upside.analysis.logs.grouping import codes, pair_codes
from upside.analysis.logs.log import Log, LogError


def is_run(path: Path) -> bool:
    """A folder that `upside train` wrote."""
    return path.is_dir() and (path / "recipe.yaml").is_file() and (path / "rollouts").is_dir()


def read_run(path: Path) -> Log:
    """The rollouts, metrics, recipe and held-out results of a run folder. LogError where it has no rollouts yet."""
    from upside.training.folder import RunFolder

    folder = RunFolder(path)
    notes: list[str] = []
    parts = _parts(sorted(folder.rollouts.glob("step-*.parquet")), notes)
    if not parts:
        raise LogError(f"{path}: the run has written no rollouts yet; wait for its first step")
    recipe: dict[str, Any] = yaml.safe_load(folder.recipe_file.read_text(encoding="utf-8")) or {}
    return Log(
        source=str(path),
        kind="upside",
        table=joined(parts),
        metrics=folder.metrics(),
        recipe=recipe,
        summary=folder.summary(),
        held_out=folder.held_out(),
        notes=notes,
    )


def joined(parts: list[pa.Table]) -> pa.Table:
    """The tables of a run's steps as one, with the columns of a log."""
    table = pa.concat_tables(parts, promote_options="permissive")
    columns: dict[str, Any] = {name: table[name] for name in table.column_names if name not in ("valid", "prompt")}
    reward = pc.cast(table["reward"], pa.float64())
    known = pc.and_(pc.fill_null(table["valid"], True), pc.invert(pc.is_nan(reward)))
    columns["reward"] = pc.if_else(known, reward, pa.scalar(None, pa.float64()))
    columns["prompt_text"] = table["prompt"]
    columns["group"] = pair_codes(table["step"].to_numpy(), codes(table["group"]))
    columns["prompt"] = codes(_asked(table))
    return pa.table(columns)


def _asked(table: pa.Table) -> Any:
    """What tells prompts apart: their text, and the files of their pictures where there are any."""
    if "images" not in table.column_names:
        return table["prompt"]
    files = pc.fill_null(pc.binary_join(table["images"], ","), "")
    return pc.binary_join_element_wise(table["prompt"], files, "\0")


def _parts(files: list[Path], notes: list[str]) -> list[pa.Table]:
    """Each step's table; the last may be in the course of being written."""
    parts = []
    for file in files:
        try:
            parts.append(read_parquet(file))
        except LogError:
            if file != files[-1]:
                raise
            notes.append(f"{file.name} is incomplete (still being written, or cut short by a kill) and left out.")
    return parts
