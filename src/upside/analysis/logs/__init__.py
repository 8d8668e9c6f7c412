"""Reading logged rollouts: run folders of Upside, TRL's completions, verl's dumps, any mapped table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from upside.analysis.logs.engines import files_in, read_files
from upside.analysis.logs.files import natural
from upside.analysis.logs.log import COLUMNS, Log, LogError
from upside.analysis.logs.metrics_only import is_metrics, metrics_beside, read_metrics
from upside.analysis.logs.upside_runs import is_run, read_run


def read_log(
    path: str | Path | Sequence[str | Path], mapping: Mapping[str, str] | None = None, lengths: str | None = None
) -> Log:
    """The log at a path, whoever wrote it; several files are the parts of one log.

    path: a run folder of `upside train` on either engine; TRL's output or completions folder; verl's
        rollout_data_dir; a table, or a folder of tables: .parquet, .jsonl, .json, .csv, .tsv, plain or .gz. A log that
        holds numbers of each step and no responses (trainer_state.json, verl's console) gives an empty table.
    mapping: {meaning: column} where columns have other names than `columns.NAMES` knows: {"reward": "score",
        "group": "uid"}. The reward may be a sum: "2*accuracy+format".
    lengths: "chars" or "words" of the response stand in for token counts where the log has none.

    What had to be assumed stands in `Log.notes`. Raises LogError naming file, row or column, and the remedy.
    """
    if not isinstance(path, str | Path):
        files = sorted(map(Path, path), key=natural)
        return read_log(files[0], mapping, lengths) if len(files) == 1 else _files(files, mapping, lengths)
    path = Path(path)
    if not path.exists():
        raise LogError(f"{path}: no such file or folder")
    if path.is_dir() and is_run(path):
        if mapping:
            raise LogError(f"{path} is a run of `upside train`, whose columns are known; leave out the map")
        return read_run(path)
    if not mapping and is_metrics(path):
        return read_metrics(path)
    if not path.is_dir():
        return read_files(str(path), [path], mapping, lengths)
    return replace(read_files(str(path), files_in(path), mapping, lengths), metrics=metrics_beside(path))


def _files(files: list[Path], mapping: Mapping[str, str] | None, lengths: str | None) -> Log:
    if not files:
        raise LogError("no log was given")
    return read_files(f"{files[0]} … {files[-1].name} ({len(files)} files)", files, mapping, lengths)


__all__ = ["COLUMNS", "Log", "LogError", "is_run", "read_log", "read_run"]
