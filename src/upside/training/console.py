"""What a run shows: a live progress bar on a terminal, plain lines elsewhere, and the table at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console as RichConsole
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

LIVE = (  # key in metrics.jsonl, its name in a plain line and on the progress bar, format
    ("reward", "reward", "reward", ".3f"),
    ("accuracy", "accuracy", "acc", ".1%"),
    ("length", "length", "len", ".1f"),
    ("entropy", "entropy", "entropy", ".2f"),
    ("zero_advantage_share", "zero-adv", "zero", ".0%"),
)
TROUBLE = (  # as LIVE, shown where above 0
    ("verify/timeout", "timeout", "timeout", ".1%"),
    ("verify/error", "error", "error", ".1%"),
)


class Console:
    """Progress and results of a run. quiet: show nothing (the other processes of a distributed run)."""

    def __init__(self, quiet: bool = False) -> None:
        self.out = RichConsole(quiet=quiet, highlight=False, soft_wrap=True)
        self._progress: Progress | None = None
        self._task: Any = None
        self._total, self._every = 0, 1

    def note(self, text: str) -> None:
        """One plain line."""
        self.out.print(Text(text))

    def start(self, total: int, done: int = 0) -> None:
        """Begin the steps; `done` of `total` are already behind."""
        self._total, self._every = total, max(1, total // 20)
        if not self.out.is_terminal:
            return
        narrow = Column(no_wrap=True)
        self._progress = Progress(
            MofNCompleteColumn(table_column=narrow),
            BarColumn(bar_width=8),
            TimeRemainingColumn(compact=True, table_column=narrow),
            TextColumn("{task.description}", markup=False, table_column=narrow),
            console=self.out,
        )
        self._task = self._progress.add_task("", total=total, completed=done)
        self._progress.start()

    def step(self, row: dict[str, Any]) -> None:
        """Show a finished step."""
        known = [(row[key], long, short, form) for key, long, short, form in LIVE if row.get(key) is not None]
        known += [(row[key], long, short, form) for key, long, short, form in TROUBLE if row.get(key)]
        if self._progress is not None:
            text = " ".join(f"{short} {value:{form}}" for value, _, short, form in known)
            self._progress.update(self._task, completed=row["step"], description=text)
        elif row["step"] % self._every == 0 or row["step"] in (1, self._total):
            text = "  ".join(f"{long} {value:{form}}" for value, long, _, form in known)
            self.note(f"step {row['step']}/{self._total}  {text}  {row['seconds']:.1f} s")

    def stop(self) -> None:
        """End the progress bar."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def results(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """The before/after table from what summary.json holds under these names."""
        table = Table(title="Held-out problems", title_justify="left")
        for column in ("", "accuracy", "95% interval", "mean length", "problems"):
            table.add_column(column, justify="right" if column else "left")
        for mode in ("greedy", "sampled"):
            for when, part in (("before", before), ("after", after)):
                if mode in part:
                    found = part[mode]
                    interval = f"{found['low']:.1%} – {found['high']:.1%}"
                    length = f"{found['length']:.1f}"
                    row = (f"{mode}, {when}", f"{found['accuracy']:.1%}", interval, length, str(found["n"]))
                    table.add_row(*row)
                if gain := part.get(mode, {}).get("gain"):
                    interval = f"{gain['low']:+.1%} – {gain['high']:+.1%}"
                    table.add_row(f"{mode}, gain", f"{gain['value']:+.1%}", interval, "", "", end_section=True)
        self.out.print(table)

    def samples(self, rows: Sequence[tuple[str, str, str]]) -> None:
        """Responses side by side: (prompt, before, after). The text of a model is shown as it is, never as markup."""
        for prompt, before, after in rows:
            text = Text.assemble(
                (f"{printable(prompt)}\n", "bold"), ("before  ", "dim"), f"{printable(before)}\n",
                ("after   ", "dim"), printable(after),
            )  # fmt: skip
            self.out.print(Panel(text, expand=False))


def printable(text: str, limit: int = 500) -> str:
    """Text without control characters (a response may hold terminal escapes), cut at `limit` characters."""
    cut = text if len(text) <= limit else text[:limit] + " …"
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in cut)
