"""Run folders of `upside train`, on either engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import yaml  # type: ignore[import-untyped]

from upside.analysis.logs.log import Log, LogError

RENAMED = {"prompt": "prompt_text"}


def is_run(path: Path) -> bool:
    """A folder that `upside train` wrote."""
    return path.is_dir() and (path / "recipe.yaml").is_file() and (path / "rollouts").is_dir()


def read_run(path: Path) -> Log:
    """The rollouts, metrics, recipe and held-out results of a run folder. LogError where it has no rollouts yet."""
    from upside.training.folder import RunFolder

    folder = RunFolder(path)
    files = sorted(folder.rollouts.glob("step-*.parquet"))
    if not files:
        raise LogError(f"{path}: the run has written no rollouts yet; wait for its first step")
    table = pa.concat_tables([_one(file) for file in files], promote_options="permissive")
    table = table.rename_columns([RENAMED.get(name, name) for name in table.column_names])
    invalid = pc.invert(pc.fill_null(table["valid"], True))
    reward = pc.if_else(invalid, pa.scalar(None, pa.float64()), pc.cast(table["reward"], pa.float64()))
    reward = pc.if_else(pc.is_nan(reward), pa.scalar(None, pa.float64()), reward)
    table = _set(table, "reward", reward)
    keys = pa.StructArray.from_arrays(
        [table["step"].combine_chunks(), pc.cast(table["group"], pa.string()).combine_chunks()], ["step", "group"]
    )
    table = _set(table, "group", _codes(pa.chunked_array([_joined(keys)])))
    table = _set(table, "prompt", _codes(table["prompt_text"]))
    recipe: dict[str, Any] = yaml.safe_load(folder.recipe_file.read_text(encoding="utf-8")) or {}
    return Log(
        source=str(path),
        kind="upside",
        table=table.drop_columns(["valid"]),
        metrics=folder.metrics(),
        recipe=recipe,
        summary=folder.summary(),
        held_out=folder.held_out(),
    )


def _one(file: Path) -> pa.Table:
    try:
        return pyarrow.parquet.read_table(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise LogError(f"{file} is cut short or no Parquet ({error}); delete it, the run logs the step anew") from None


def _set(table: pa.Table, name: str, column: Any) -> pa.Table:
    if name not in table.column_names:
        return table.append_column(name, column)
    return table.set_column(table.column_names.index(name), name, column)


def _joined(keys: pa.StructArray) -> pa.Array:
    return pc.binary_join_element_wise(pc.cast(keys.field(0), pa.string()), keys.field(1), "/")


def _codes(column: Any) -> Any:
    """Texts as numbers in order of first appearance."""
    encoded = pc.dictionary_encode(column)
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().chunk(0)
    return pc.cast(encoded.indices, pa.int64())
