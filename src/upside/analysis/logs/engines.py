"""What TRL and verl leave behind, and any other table: which files, which columns, what has to be assumed.

verl (`trainer.rollout_data_dir`) writes <step>.jsonl: input, output, gts, score, step, and what else the reward
function returned. The newer trainer adds uid, {prompt}_{rollout}_{output}, one per response. For TRL see `trl`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from upside.analysis.logs import columns, trl
from upside.analysis.logs.files import READERS, Tables, natural, read_tables, suffix
from upside.analysis.logs.grouping import by_prompt, codes, pair_codes
from upside.analysis.logs.log import Log, LogError, LogKind
from upside.analysis.logs.messages import PICTURE, texts

VERL = {"input", "output", "score"}
LAST_STEP = 2**53  # what a double still tells from the next


def files_in(folder: Path) -> list[Path]:
    """The files of a log that is a folder: TRL's, verl's, or tables of one kind. LogError where there are none."""
    trl = sorted([*folder.glob("completions/completions_*.parquet"), *folder.glob("completions_*.parquet")])
    verl = [file for file in folder.glob("*.jsonl") if file.stem.isdecimal()]
    if found := trl or verl:
        return sorted(found, key=natural)
    tables = sorted((file for file in folder.iterdir() if suffix(file) in READERS and file.is_file()), key=natural)
    kinds = {suffix(file) for file in tables}
    if len(kinds) == 1:
        return tables
    what = f"files of several kinds ({', '.join(sorted(kinds))}); name those of the log" if kinds else "no log"
    raise LogError(
        f"{folder} holds {what}. Known are run folders of `upside train`, TRL's output folder (log_completions=True), "
        "verl's trainer.rollout_data_dir, and tables (.parquet, .jsonl, .csv)"
    )


def read_files(
    source: str, files: Sequence[Path], mapping: Mapping[str, str] | None, lengths: str | None = None
) -> Log:
    """Files of one log, in the order of their steps. See `read_log`."""
    tables, mapping = read_tables(files), dict(mapping or {})
    there = set(tables.table.column_names)
    kind: LogKind = "trl" if there >= trl.COLUMNS else "verl" if there >= VERL else "table"
    if kind == "trl":
        tables = trl.without_repeats(tables)
        if "reward" not in mapping:
            mapping["reward"] = trl.total(tables, mapping)
    found = columns.find(tables, mapping)
    _note_names(tables, found, mapping, kind)
    step = _steps(tables, found.get("step"))
    table = _canonical(tables, found)
    if lengths and "length" not in found:
        if "response" not in found:
            raise LogError(f"{source}: lengths={lengths} needs the responses; map response=COLUMN")
        table["length"] = columns.stand_in(table["response"], lengths)
        tables.notes.append(f"The log has no token counts; lengths are {lengths} of the response.")
    _assume_correct(table, tables.notes)
    prompt = codes(_asked(table, tables.notes)) if "prompt_text" in table else None
    ids = _ids(tables, found.get("group"), kind)
    if ids is not None and prompt is not None and _names_responses(step, ids, prompt):
        tables.notes.append(f"Every {found['group']} occurs once, so it is no group id; groups are by prompt.")
        ids = None
    if ids is not None:
        group = pair_codes(step, ids)
    elif prompt is not None:
        if len(missing := np.flatnonzero(pc.fill_null(pc.equal(table["prompt_text"], ""), True))):
            where = tables.where(int(missing[0]))
            raise LogError(f"{where}: {found['prompt']} is missing; without group ids every response needs its prompt")
        group = by_prompt(step, prompt, tables.notes)
    else:
        raise LogError(f"{source}: neither group ids nor prompts; map group=COLUMN or prompt=COLUMN")
    table = {"step": step, "group": group, "prompt": ids if prompt is None else prompt, **table}
    return Log(source, kind, _ascending(pa.table(table), step, tables.notes), notes=tables.notes)


def _asked(table: Mapping[str, Any], notes: list[str]) -> Any:
    """What tells prompts apart: their text, and what a further column holds of their pictures."""
    prompts = table["prompt_text"]
    for name in ("images (as logged)", "image"):
        if name in table:
            seen = [hashlib.blake2b(repr(value).encode()).hexdigest() for value in table[name].to_pylist()]
            if len(set(seen)) < len(seen):  # else each response has a copy of its own, which tells no prompts apart
                return pc.binary_join_element_wise(prompts, pa.array(seen), "\0")
    if pc.any(pc.match_substring(prompts, PICTURE)).as_py():
        notes.append(
            "The prompts have pictures that the log does not hold: where one text is asked about several, they count "
            "as one prompt, and without group ids as one group. (map group=COLUMN)"
        )
    return prompts


def _note_names(tables: Tables, found: Mapping[str, str], mapping: Mapping[str, str], kind: LogKind) -> None:
    guessed = [f"{name} as {meaning}" for meaning, name in found.items() if name != meaning and meaning not in mapping]
    if guessed and kind == "table":
        tables.notes.append(f"Columns are read by their names: {', '.join(guessed)}.")


def _canonical(tables: Tables, found: Mapping[str, str]) -> dict[str, pa.Array]:
    """The columns of COLUMNS but step, group and prompt; then what else the files hold, under its own name."""
    table: dict[str, pa.Array] = {"reward": columns.reward(tables, found["reward"])}
    if "valid" in tables.table.column_names:  # of Upside's own files
        valid = pc.fill_null(columns.flags(tables, "valid"), True)
        table["reward"] = pc.if_else(valid, table["reward"], pa.scalar(None, pa.float64()))
    for meaning, name in found.items():
        if meaning in columns.TEXTS:
            table["prompt_text" if meaning == "prompt" else meaning] = texts(tables.table[name])
        elif meaning in columns.FLAGS:
            table[meaning] = columns.flags(tables, name)
        elif meaning == "length":
            table[meaning] = columns.lengths(tables, name)
        elif meaning in columns.NUMBERS and meaning != "reward":
            table[meaning] = columns.numbers(tables, name)
    for name in tables.table.column_names:
        if name not in found.values():
            taken = name in table or name in ("step", "group", "prompt", "images")
            table[f"{name} (as logged)" if taken else name] = tables.table[name]
    return table


def _assume_correct(table: dict[str, pa.Array], notes: list[str]) -> None:
    known = pc.unique(pc.drop_null(table["reward"])).to_pylist()
    if "correct" not in table and known and set(known) <= {0.0, 1.0}:
        table["correct"] = pc.equal(table["reward"], 1.0)
        notes.append("Nothing says which responses are correct; every reward is 0 or 1, so 1 counts as correct.")


def _steps(tables: Tables, name: str | None) -> np.ndarray:
    """(N,) int64: the column, else the number in each file's name, else one step for all."""
    if name is not None:
        values = columns.numbers(tables, name).to_numpy(zero_copy_only=False)
        bad = np.isnan(values) | (values < 0) | (values > LAST_STEP) | (values != np.floor(values))
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise LogError(f"{tables.where(row)}: {name} {values[row]} is no step; steps count 0, 1, 2, …")
        return values.astype(np.int64)
    if len(tables.files) == 1:
        tables.notes.append("No column says the step: all responses count as one step. (map step=COLUMN)")
        return np.ones(len(tables.table), np.int64)
    numbers = [[part for part in natural(file) if isinstance(part, int)][-1:] for file in tables.files]
    if not all(numbers) or len({number[0] for number in numbers}) < len(numbers):
        raise LogError(f"{tables.files[0]}: no column says the step, nor do the files' names; map step=COLUMN")
    tables.notes.append("Steps are the numbers in the files' names.")
    return np.repeat([number[0] for number in numbers], tables.sizes).astype(np.int64)


def _ids(tables: Tables, name: str | None, kind: LogKind) -> np.ndarray | None:
    if name is None:
        return None
    column = tables.table[name]
    if kind == "verl" and pa.types.is_string(column.type):
        column = pc.replace_substring_regex(column, r"^(.+)_\d+_\d+$", r"\1")  # {prompt}_{rollout}_{output}
    if pa.types.is_nested(column.type):
        raise LogError(f"{tables.files[0]}: column {name!r} holds {column.type}; expected one id per response")
    if pa.types.is_string(column.type):
        column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    found = codes(column)
    if (found < 0).any():
        row = int(np.flatnonzero(found < 0)[0])
        raise LogError(f"{tables.where(row)}: {name} is missing; every response needs the id of its group")
    return found


def _names_responses(step: np.ndarray, ids: np.ndarray, prompt: np.ndarray) -> bool:
    """Every id occurs once though prompts occur several times in a step."""
    unique = lambda codes: len(np.unique(pair_codes(step, codes))) == len(step)  # noqa: E731
    return unique(ids) and not unique(prompt)


def _ascending(table: pa.Table, step: np.ndarray, notes: list[str]) -> pa.Table:
    if not (np.diff(step) < 0).any():
        return table
    notes.append("Steps were not in order; rows are sorted by step.")
    wide = [pa.large_string() if pa.types.is_string(field.type) else field.type for field in table.schema]
    table = table.cast(pa.schema([field.with_type(kind) for field, kind in zip(table.schema, wide, strict=True)]))
    return table.take(pa.array(np.argsort(step, kind="stable")))
