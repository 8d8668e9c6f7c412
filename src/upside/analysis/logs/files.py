"""Tables in files: Parquet, JSON lines, JSON and CSV, plain or compressed, into one Arrow table.

What another program wrote may be broken in any way. A file that holds no table is an error with file, line and remedy;
what can be read without loss of rows is read, and a note says what was put in its place.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from upside.analysis.logs.log import LogError
from upside.analysis.logs.messages import is_text, said

READERS = {
    ".parquet": "parquet", ".jsonl": "lines", ".ndjson": "lines", ".json": "json", ".csv": "csv", ".tsv": "csv",
}  # fmt: skip
COMPRESSED = {".gz", ".bz2", ".zst", ".lz4"}
BLOCK = 1 << 25  # bytes that Arrow parses at once; a longer line takes the slow path


@dataclass
class Tables:
    """Files put one after the other. table: their rows. sizes: rows of each file."""

    files: Sequence[Path]
    table: pa.Table
    sizes: Sequence[int]
    notes: list[str] = field(default_factory=list)

    def where(self, row: int) -> str:
        """The file and its row, counted from 1, of a row of the table."""
        ends = np.cumsum(self.sizes)
        file = int(np.searchsorted(ends, row, side="right"))
        return f"{self.files[file]}, row {row - int(ends[file]) + self.sizes[file] + 1}"


def suffix(path: Path) -> str:
    """The ending that says what is inside: '.csv' of a.csv.gz."""
    endings = [ending.lower() for ending in path.suffixes]
    return (endings[:-1] if endings and endings[-1] in COMPRESSED else endings)[-1:][0] if endings else ""


def natural(path: Path) -> tuple[Any, ...]:
    """A key that puts step 10 after step 9."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name))


def read_tables(files: Sequence[Path]) -> Tables:
    """The rows of all files in the given order. LogError where a file holds no table or the files disagree."""
    notes: list[str] = []
    tables = [read_table(file, notes) for file in files]
    try:
        table = pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise LogError(
            f"{files[0]} and the {len(files) - 1} files after it disagree about a column ({error}); "
            "give those of one run alone, or bring the column to one type"
        ) from None
    if not len(table):
        raise LogError(f"{files[0]}: no rows" + (f", nor in the {len(files) - 1} files after it" if files[1:] else ""))
    return Tables(files, table, [len(table) for table in tables], list(dict.fromkeys(notes)))


def read_table(file: Path, notes: list[str]) -> pa.Table:
    """One file. notes takes what had to be replaced."""
    kind = READERS.get(suffix(file))
    if kind is None:
        raise LogError(f"{file}: unknown kind of file; give one that ends in {', '.join(READERS)}, also with .gz")
    if not file.is_file():
        raise LogError(f"{file}: no such file")
    if kind == "parquet":
        return read_parquet(file)
    data = _bytes(file)
    if not data.strip(b"\xef\xbb\xbf \t\r\n"):
        raise LogError(f"{file}: empty; leave it out")
    if kind == "csv":
        return _csv(file, data, notes)
    return _lines(file, data, notes) if kind == "lines" else _json(file, data, notes)


def read_parquet(file: Path) -> pa.Table:
    """A Parquet file whole; LogError where it was cut short or is something else."""
    try:
        with pyarrow.parquet.ParquetFile(pa.BufferReader(file.read_bytes())) as parquet:  # twice as fast on small ones
            table = parquet.read()
    except (pa.ArrowException, OSError) as error:
        text = str(error).splitlines()[0]
        raise LogError(f"{file} is cut short or no Parquet ({text}); write it anew or leave it out") from None
    if len(set(table.column_names)) < table.num_columns:
        raise LogError(f"{file}: column {_twice(table.column_names)!r} stands twice; rename one")
    return _plain(table)


def _plain(table: pa.Table) -> pa.Table:
    """Categories as what they stand for, and texts that are UTF-8: Parquet's writers do not see to it."""
    for place, kind in enumerate(table.schema.types):
        if pa.types.is_dictionary(kind):
            table = table.set_column(place, table.column_names[place], table[place].cast(kind.value_type))
    try:
        table.validate(full=True)
        return table
    except pa.ArrowInvalid:
        repaired = {name: _repaired(table[name]) for name in table.column_names}
        return pa.table(repaired)


def _repaired(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not is_text(column.type):
        return column
    texts = [None if text is None else text.decode(errors="replace") for text in column.cast(pa.binary()).to_pylist()]
    return pa.chunked_array([texts], pa.string())


def _bytes(file: Path) -> bytes:
    try:
        with pa.input_stream(str(file), compression="detect") as stream:
            return bytes(stream.read())
    except (pa.ArrowException, OSError) as error:
        raise LogError(f"{file}: cannot be read ({error}); is the file complete?") from None


def _csv(file: Path, data: bytes, notes: list[str]) -> pa.Table:
    """Every cell as text, so that id 01 stays 01; numbers are made where a number is meant."""
    data = _utf8(file, data, notes)
    head = data[: data.find(b"\n") if b"\n" in data else None].decode().rstrip("\r")
    delimiter = max(",;\t|", key=head.count)
    names = next(csv.reader(io.StringIO(head, newline=""), delimiter=delimiter))
    if len(set(names)) < len(names):
        raise LogError(f"{file}: column {_twice(names)!r} stands twice in the header; rename one")
    try:
        return pyarrow.csv.read_csv(
            io.BytesIO(data),
            read_options=pyarrow.csv.ReadOptions(block_size=max(BLOCK, len(data)) if len(data) < 2**31 - 1 else BLOCK),
            parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(column_types={name: pa.string() for name in names}),
        )
    except pa.ArrowInvalid as error:
        raise LogError(f"{file}: {error}; quote texts that hold {delimiter!r} or line breaks") from None


def _twice(names: Sequence[str]) -> str:
    return next(name for name in names if list(names).count(name) > 1)


def _utf8(file: Path, data: bytes, notes: list[str]) -> bytes:
    """Without byte-order mark, UTF-16 with one made UTF-8; bytes that are no UTF-8 replaced, with a note."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace").encode()
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        notes.append(f"{file.name} holds bytes that are no UTF-8 (the first at {error.start}), shown as \ufffd.")
        return data.decode(errors="replace").encode()
    return data


def _lines(file: Path, data: bytes, notes: list[str]) -> pa.Table:
    """JSON lines: Arrow's parser where it can, else line by line."""
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        first = json.loads(data.lstrip().split(b"\n", 1)[0])
        texts = [(name, pa.string()) for name, value in first.items() if isinstance(value, str)]  # else dates are seen
        table = pyarrow.json.read_json(
            io.BytesIO(data),
            read_options=pyarrow.json.ReadOptions(block_size=BLOCK, use_threads=len(data) > BLOCK),
            parse_options=pyarrow.json.ParseOptions(explicit_schema=pa.schema(texts)),
        )
        table.validate(full=True)  # texts that are no UTF-8
        if not any(pa.types.is_timestamp(column.type) or _rounded(column) for column in table.columns):
            return table
    except (pa.ArrowException, ValueError, AttributeError, RecursionError):
        pass
    lines = _utf8(file, data, notes).decode().split("\n")
    rows = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    return _table(file, [_parsed(file, number, line, number == rows[-1][0]) for number, line in rows], notes)


def _rounded(column: pa.ChunkedArray) -> bool:
    """Whether whole numbers, such as ids, may have lost digits: doubles beyond 2^53."""
    return pa.types.is_floating(column.type) and bool(pc.any(pc.greater_equal(pc.abs(column), 2.0**53)).as_py())


def _parsed(file: Path, number: int, line: str, last: bool) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        remedy = "the writer was cut short: delete this last line" if last else "repair or delete the line"
        raise LogError(f"{file}, line {number}: no JSON ({error}); {remedy}") from None
    if not isinstance(row, dict):
        raise LogError(f'{file}, line {number}: expected an object such as {{"reward": 1}}, got {line[:40]}')
    return row


def _json(file: Path, data: bytes, notes: list[str]) -> pa.Table:
    try:
        rows = json.loads(_utf8(file, data, notes))
    except (ValueError, RecursionError) as error:
        raise LogError(f"{file}: no JSON ({error}); for one object a line name it .jsonl") from None
    if isinstance(rows, dict):  # columns
        lengths = {name: len(column) if isinstance(column, list) else None for name, column in rows.items()}
        if len(set(lengths.values())) != 1 or None in lengths.values():
            raise LogError(f"{file}: expected a list of objects, or one object of equally long lists")
        return _columns(rows, notes)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise LogError(f"{file}: expected a list of objects, one a response")
    return _table(file, rows, notes)


def _table(file: Path, rows: list[dict[str, Any]], notes: list[str]) -> pa.Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return _columns({name: [row.get(name) for row in rows] for name in names}, notes)


def _columns(columns: dict[str, list[Any]], notes: list[str]) -> pa.Table:
    found = {_whole(str(name)): _array(str(name), values, notes) for name, values in columns.items()}
    return pa.table(found)


def _array(name: str, values: list[Any], notes: list[str]) -> pa.Array:
    """An Arrow column; values of several types become texts, half a surrogate pair the replacement character."""
    try:
        return pa.array(values)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        pass
    texts = [v if v is None or isinstance(v, str) else said(v) for v in values]
    whole = [None if text is None else _whole(text) for text in texts]
    if whole != texts:
        notes.append(f"Column {name} holds halves of surrogate pairs, which are no characters, shown as \ufffd.")
    return pa.array(whole, pa.string())


def _whole(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
