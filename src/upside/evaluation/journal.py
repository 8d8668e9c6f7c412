"""An evaluation that is being made, on disk: what is finished survives a kill and is not done again."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from upside.evaluation.fingerprint import differences
from upside.evaluation.judging import Row
from upside.evaluation.suite import FIGURES, Suite, is_finished

PARTIAL = "unfinished.jsonl"


class Journal:
    """The folder of an evaluation. Its first line in `unfinished.jsonl` holds the settings, every further one a batch
    of judged responses, synced to disk before the next batch starts. A last line that a kill cut short is dropped and
    its batch done again; `close` turns it all into the finished files.

    settings: the tree that `Suite.settings` is. Raises ValueError when the folder holds an evaluation with other
    settings (naming them), a damaged line, or one that another process is writing.
    """

    def __init__(self, folder: str | Path, settings: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        self.settings = dict(settings)
        self.finished: Suite | None = None
        self.rows: dict[tuple[str, int], list[Row]] = {}
        self._file: IO[bytes] | None = None
        if is_finished(self.folder):
            self.finished = Suite.load(self.folder)
            self.settings = self._check(self.finished.settings)
        else:
            self._open()

    def append(self, name: str, batch: int, rows: Sequence[Row]) -> None:
        """Keep batch number `batch` of a set; returns when it is on disk."""
        self.rows[name, batch] = list(rows)
        self._write({"set": name, "batch": batch, "rows": [asdict(row) for row in rows]})

    def close(self, suite: Suite) -> None:
        """Write the finished files and drop the unfinished one."""
        suite.save(self.folder)
        self.stop()
        (self.folder / PARTIAL).unlink(missing_ok=True)

    def stop(self) -> None:
        """Let go of the folder, finished or not."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # what could not be written has been reported by `_write`
                file.close()

    def _open(self) -> None:
        path = self.folder / PARTIAL
        if (self.folder / FIGURES).exists():
            raise ValueError(f"{self.folder} holds {FIGURES} without its responses; name another output folder")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b")
        _lock(self._file, self.folder)
        lines, whole = self._read()
        if len(lines) < 2:  # nothing was answered yet: whatever the settings, nothing is lost
            lines, whole = [], 0
        self._file.truncate(whole)
        if not lines:
            self._write({"settings": self.settings})
            return
        try:
            there = dict(lines[0]["settings"])
            self.rows = {(line["set"], line["batch"]): [Row(**row) for row in line["rows"]] for line in lines[1:]}
        except (KeyError, TypeError, ValueError) as error:
            self.stop()
            raise ValueError(
                f"{path} was not written by this version of upside ({type(error).__name__}: {error}); "
                "remove the file to start anew"
            ) from None
        self.settings = self._check(there)

    def _read(self) -> tuple[list[dict[str, Any]], int]:
        """The lines that are whole, and the bytes they take."""
        assert self._file is not None
        self._file.seek(0)
        lines: list[dict[str, Any]] = []
        whole = 0
        content = self._file.readlines()
        for number, line in enumerate(content, start=1):
            try:
                if not line.endswith(b"\n"):
                    raise ValueError("no line end")
                lines.append(json.loads(line))
            except ValueError as error:
                if number == len(content):
                    break
                raise ValueError(
                    f"{self.folder / PARTIAL}, line {number}: damaged ({error}); remove the file to start anew"
                ) from None
            whole += len(line)
        return lines, whole

    def _write(self, line: Mapping[str, Any]) -> None:
        assert self._file is not None
        content = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        try:
            self._file.write(content)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:  # a full disk; the error itself does not say where
            raise OSError(error.errno, error.strerror, str(self.folder / PARTIAL)) from error

    def _check(self, there: dict[str, Any]) -> dict[str, Any]:
        """The settings of the folder, when they are those of this evaluation (versions may differ: they are kept as
        they were at the start)."""
        differing = differences(there, json.loads(json.dumps(self.settings)))
        if differing:
            self.stop()
            shown = "; ".join(differing[:4]) + (f"; and {len(differing) - 4} more" if len(differing) > 4 else "")
            raise ValueError(
                f"{self.folder} holds an evaluation with other settings: {shown}. Name another output folder, remove "
                "this one, or repeat its settings"
            )
        return there


def _lock(file: IO[bytes], folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not on this system; then two processes in one folder are the user's care
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ValueError(f"{folder}: another process is writing an evaluation there; wait for it to end") from None
