"""Explained groups on the console: the prompt, why, the numbers of each response, and one sentence for those alike."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from upside.analysis.blocks import Column, Groups
from upside.analysis.show import cell_text
from upside.training.console import printable


def print_groups(block: Groups, full: bool = False, out: Console | None = None) -> None:
    """full: whole texts instead of one line of each."""
    out = out or Console(highlight=False)
    for group in block.groups:
        title = f"step {group['step']}, group {group['group']}"
        out.print(Text.assemble((title, "bold"), f"  {', '.join(tag.replace('_', ' ') for tag in group['tags'])}"))
        out.print(_text(group["prompt"], full, "cyan"))
        for file in group.get("pictures", ()):
            out.print(Text(printable(str(Path(block.source) / file)), "cyan"), soft_wrap=True)
        out.print(Text(group["sentence"]))
        out.print(_table(block.columns, group["responses"]))
        _print_responses(group["responses"], full, out)
        out.print()
    out.print(Text(f"{printable(block.source)}: {block.note}", "dim"))


def _table(columns: Sequence[Column], responses: Sequence[dict[str, Any]]) -> Table:
    """The columns that hold something here; where they are too wide, the headers fold and the numbers stay whole."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("#", justify="right")
    filled: list[list[str]] = [[str(number) for number in range(len(responses))]]
    for column in columns:
        values = [response["values"].get(column.name) for response in responses]
        if all(value is None for value in values):
            continue
        filled.append([printable(cell_text(value, column)) for value in values])
        side: Literal["left", "right"] = "left" if column.kind == "text" else "right"
        widest = max(map(len, filled[-1]))
        table.add_column(column.name.replace("_", " "), justify=side, overflow="fold", min_width=widest)
    for row in zip(*filled, strict=True):
        table.add_row(*map(Text, row))
    return table


def _print_responses(responses: Sequence[dict[str, Any]], full: bool, out: Console) -> None:
    by_sentence: dict[str, list[int]] = {}
    for number, response in enumerate(responses):
        by_sentence.setdefault(response["why"], []).append(number)
    for why, numbers in by_sentence.items():
        for number in numbers:
            head = Text(f"{number:>2} ", "bold")
            text = head + _text(responses[number]["text"], full)
            out.print(text, no_wrap=not full, overflow="fold" if full else "ellipsis")
        out.print(Padding(Text(why, "dim"), (0, 0, 0, 3)))


def _text(text: str, full: bool, style: str = "") -> Text:
    """What a model wrote, without control characters; its lines as one unless it is shown in full."""
    return Text(printable(text if full else " ⏎ ".join(text.splitlines()), len(text) if full else 500), style)
