"""Rows from files: JSON lines, Parquet and CSV.

Nothing is guessed: a CSV field stays the text it is ("007" and "1e5" too), a JSON number keeps its digits.
"""

from __future__ import annotations

import csv
import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

Row = tuple[int, Mapping[str, Any] | str]
"""Number of the line or row, from 1, and its fields, or the reason why it is left out."""
Change = Callable[[Mapping[str, Any]], Mapping[str, Any] | str | None]

MAX_FIELD = 1 << 26
"""Characters of a CSV field."""
ENDINGS = (".jsonl", ".parquet", ".csv")


@dataclass(frozen=True)
class Source:
    """Where rows come from.

    name: what an error calls it, a path or a spec. short: its name in a problem's metadata. unit: what its numbers
    count, "line" or "row". read: the rows, each time from the start; a text in a row's place is the reason why it is
    left out. folder: what paths in it are relative to, None where there is none.
    """

    name: str
    short: str
    unit: str
    read: Callable[[], Iterable[Row]]
    folder: Path | None = None

    def at(self, number: int) -> str:
        """Where a row is, as errors and logs say it."""
        return f"{self.name}, {self.unit} {number}"

    def changed(self, change: Change) -> Source:
        """The same rows, each changed; None leaves a row out, a text leaves it out and is the reason. A ValueError of
        `change` gets the row's place."""

        def read() -> Iterator[Row]:
            for number, row in self.read():
                try:
                    new = row if isinstance(row, str) else change(row)
                except ValueError as error:
                    raise ValueError(f"{self.at(number)}: {error}") from None
                if new is not None:
                    yield number, new

        return replace(self, read=read)


def file_source(path: str | Path) -> Source:
    """A JSONL, Parquet or CSV file. FileNotFoundError (with the nearest file) where there is none, ValueError for
    another ending; reading it raises ValueError that names the file and the line or row."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no data file {path}{_nearest_file(path)}")
    readers = {".jsonl": _read_jsonl, ".parquet": _read_parquet, ".csv": _read_csv}
    ending = path.suffix.lower()
    if ending not in readers:
        raise ValueError(f"{path}: cannot read {ending or 'a file without ending'}; use {', '.join(ENDINGS)}")
    unit = "row" if ending == ".parquet" else "line"
    return Source(str(path), path.name, unit, lambda: readers[ending](path), path.parent)


def _read_jsonl(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                text = line.decode("utf-8-sig")
                row = json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant)
            except (ValueError, RecursionError) as error:
                reason = "nested too deeply" if isinstance(error, RecursionError) else error
                raise ValueError(f"{path}, line {number}: not valid JSON ({reason}): {line[:60]!r}") from None
            if not isinstance(row, dict):
                kind = type(row).__name__
                raise ValueError(f"{path}, line {number}: expected one JSON object a line, got {kind}")
            yield number, row


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


def _read_parquet(path: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, partitioning=None)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path}: not a readable Parquet file ({error})") from None
    yield from enumerate((row for batch in table.to_batches() for row in batch.to_pylist()), start=1)


def _read_csv(path: Path) -> Iterator[Row]:
    """Rows under a header line, all fields text. A row's number is the line it ends on."""
    csv.field_size_limit(max(csv.field_size_limit(), MAX_FIELD))  # 128 KiB of its own, which worked solutions exceed
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            if len(set(header)) < len(header):
                twice = next(name for name in header if header.count(name) > 1)
                raise ValueError(f"{path}, line 1: the column {twice!r} stands twice in the header; rename one")
            for fields in reader:
                if not fields:
                    continue
                if len(fields) != len(header):
                    raise ValueError(
                        f"{path}, line {reader.line_num}: {len(fields)} fields under a header of {len(header)}; quote "
                        f"fields that hold commas or line breaks"
                    )
                yield reader.line_num, dict(zip(header, fields, strict=True))
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: not valid CSV ({error})") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text ({error}); save it as UTF-8") from None


def _nearest_file(path: Path) -> str:
    if not path.parent.is_dir():
        return f"; there is no folder {path.parent}"
    siblings = [p.name for p in path.parent.iterdir() if p.suffix.lower() in ENDINGS and p.is_file()]
    near = difflib.get_close_matches(path.name, siblings, n=1, cutoff=0.3)
    if near:
        return f"; the nearest there is {near[0]!r}"
    return f"; {path.parent} holds {len(siblings) or 'no'} other {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]} files"
