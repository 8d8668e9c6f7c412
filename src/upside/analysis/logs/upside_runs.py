"""Run folders of `upside train`, on either engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml  # type: ignore[import-untyped]

from upside.analysis.logs.files import read_parquet
from upside.analysis.logs.grouping import codes, pair_codes
from upside.analysis.logs.log import Log, LogError

SETTINGS: dict[str, Any] = {"estimator": str, "steps": int, "lr": int | float, "rewards": list}
"""Keys of recipe.yaml that the analyses compute with."""
LISTS = ("right", "judged", "drawn", "tokens")  # of a line of held_out.jsonl


def is_run(path: Path) -> bool:
    """A folder that `upside train` wrote."""
    return path.is_dir() and (path / "recipe.yaml").is_file() and (path / "rollouts").is_dir()


def read_run(path: Path) -> Log:
    """The rollouts, metrics, recipe and held-out results of a run folder. LogError where it has no rollouts yet, or a
    file was cut short or edited into something else."""
    from upside.training.folder import RunFolder

    folder = RunFolder(path)
    notes: list[str] = []
    parts = _parts(sorted(folder.rollouts.glob("step-*.parquet")), notes)
    if not parts:
        raise LogError(f"{path}: the run has written no rollouts yet; wait for its first step")
    return Log(
        source=str(path),
        kind="upside",
        table=_sound(folder.rollouts, lambda: joined(parts), lambda table: not table["step"].null_count),
        metrics=_sound(folder.metrics_file, folder.metrics, lambda lines: all(map(_is_step, lines))),
        recipe=_sound(folder.recipe_file, lambda: _recipe(folder.recipe_file), _is_recipe),
        summary=_sound(folder.summary_file, folder.summary, _is_summary),
        held_out=_sound(folder.held_out_file, folder.held_out, lambda lines: all(map(_is_evaluation, lines))),
        notes=notes,
    )


def _sound(path: Path, read: Callable[[], Any], fits: Callable[[Any], bool]) -> Any:
    """What a part of the folder holds, LogError where that cannot be what the run wrote."""
    try:
        found = read()
    except (ValueError, KeyError, pa.ArrowException, yaml.YAMLError) as error:
        raise LogError(f"{path}: not what `upside train` wrote ({' '.join(str(error).split())}); restore it") from None
    if not fits(found):
        raise LogError(f"{path}: not what `upside train` wrote (values are missing or of another type); restore it")
    return found


def _recipe(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8")) or {}


def _is_recipe(found: Any) -> bool:
    return isinstance(found, Mapping) and all(
        found.get(key) is None or isinstance(found[key], kind) for key, kind in SETTINGS.items()
    )


def _is_step(line: Any) -> bool:
    """A line of metrics.jsonl: numbers by name."""
    known = isinstance(line, dict) and isinstance(line.get("step"), int)
    return known and all(value is None or isinstance(value, int | float) for value in line.values())


def _is_evaluation(line: Any) -> bool:
    """A line of held_out.jsonl."""
    known = isinstance(line, dict) and isinstance(line.get("step"), int) and isinstance(line.get("mode"), str)
    return known and all(isinstance(line.get(name), list) for name in LISTS)


def _is_summary(found: Any) -> bool:
    if not isinstance(found, dict) or not isinstance(found.get("during", []), list):
        return False
    evaluations = [*(found.get(when) or {} for when in ("before", "after")), *found.get("during", [])]
    modes = [
        each[mode] for each in evaluations if isinstance(each, dict) for mode in ("greedy", "sampled") if mode in each
    ]
    return (
        all(isinstance(each, dict) for each in (*evaluations, *modes, found.get("seconds", {})))
        and all("step" in each for each in found.get("during", []))
        and all(isinstance(mode.get("accuracy"), int | float) for mode in modes)
    )


def joined(parts: list[pa.Table]) -> pa.Table:
    """The tables of a run's steps as one, with the columns of a log."""
    table = pa.concat_tables(parts, promote_options="permissive")
    if "images" in table.column_names:  # lists that are all empty or null have no type of their own in Parquet
        place = table.column_names.index("images")
        table = table.set_column(place, "images", table["images"].cast(pa.list_(pa.string())))
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
