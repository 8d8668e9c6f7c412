from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from upside.analysis.blocks import Chart, Column, Facts, Findings, Interval, Prose, Section, Series, Table
from upside.analysis.show import cell_text, markdown, number, picture, print_sections


@pytest.mark.parametrize(
    ("value", "kind", "digits", "shown"),
    [
        (12.345, "number", 1, "12.3"),
        (12345, "number", 1, "12,345"),
        (0.1234, "percent", 1, "12.3%"),
        (1, "percent", 0, "100%"),
        (0.5, "signed", 2, "+0.50"),
        (-0.012, "points", 1, "-1.2"),
        (0.012, "points", 1, "+1.2"),
        (2.5, "seconds", 1, "2.5 s"),
        (-0.04, "number", 1, "0.0"),
        (None, "number", 1, "–"),
        (float("nan"), "percent", 1, "–"),
        (np.bool_(True), "text", 1, "yes"),
        (np.int64(1234), "number", 1, "1,234"),
        (np.float32("nan"), "number", 1, "–"),
        (True, "text", 1, "yes"),
        (False, "number", 1, "no"),
    ],
)
def test_numbers_are_written_by_kind(value: Any, kind: Any, digits: int, shown: str) -> None:
    assert number(value, kind, digits) == shown


@pytest.mark.parametrize(
    ("cell", "kind", "shown"),
    [
        (Interval(0.5, 0.25, 0.75), "percent", "50.0% (25.0 to 75.0)"),
        (Interval(2.0, 1.0, 3.0), "seconds", "2.0 s (1.0 to 3.0)"),
        (Interval(0.5), "percent", "50.0%"),
        (Interval(None, 0.1, 0.2), "percent", "–"),
        ("[bold]text", "number", "[bold]text"),
    ],
)
def test_cells(cell: Any, kind: Any, shown: str) -> None:
    assert cell_text(cell, Column("c", kind)) == shown


def printed(*blocks: Any) -> str:
    out = io.StringIO()
    print_sections([Section("s", "Heading", blocks, "Intro.")], Console(file=out, width=100, color_system=None))
    return out.getvalue()


def test_the_console_shows_every_block_but_charts() -> None:
    findings = [
        {
            "check": "easy",
            "level": "warn",
            "title": "T",
            "evidence": "60% dead",
            "threshold": "50%",
            "remedy": "harder",
        },
        {"check": "kl", "level": "ok", "title": "K", "evidence": "0.1", "threshold": "1", "remedy": "none"},
    ]
    table = Table("Runs", [Column("run"), Column("accuracy", "percent")], [["one", 0.25]], note="A note.")
    text = printed(table, Facts([("Task", "sums", "small")]), Prose(["A sentence."]), Findings(findings))
    for said in ("Heading", "Intro.", "Runs", "one", "25.0%", "A note.", "sums  small", "A sentence.",
                 "warn    easy: 60% dead", "threshold: 50%", "remedy: harder", "ok      kl: 0.1"):  # fmt: skip
        assert said in text
    assert "remedy: none" not in text


def test_a_narrow_console_folds_figures_and_cuts_none() -> None:
    table = Table("T", [Column(f"estimator{n}") for n in range(8)], [["canon_dynamic"] * 8])
    out = io.StringIO()
    print_sections([Section("s", "Heading", [table])], Console(file=out, width=60, color_system=None))
    assert "…" not in out.getvalue()


def test_a_long_finding_keeps_its_indent() -> None:
    finding = dict.fromkeys(("check", "title", "evidence", "threshold", "remedy"), "word " * 30) | {"level": "warn"}
    lines = [line for line in printed(Findings([finding])).splitlines() if "word" in line]
    assert len(lines) > 6
    assert lines[0].startswith("warn    word")
    assert all(line.startswith("        ") for line in lines[1:])


def test_the_console_shows_markup_and_escapes_as_text() -> None:
    text = "[red]x[/red] \x1b]0;title\x07 \u202e"
    finding = dict.fromkeys(("check", "title", "evidence", "threshold", "remedy"), text) | {"level": "fail"}
    shown = printed(Prose([text]), Facts([(text, text)]), Findings([finding]), Table(text, [Column(text)], [[text]]))
    assert shown.count("[red]x[/red]") == 10
    assert not set("\x1b\x07\u202e") & set(shown)


def test_markdown_keeps_a_row_in_its_line() -> None:
    table = Table("t", [Column("a|b"), Column("n", "number")], [["x|y\nz", 1.25], ["<b>", None]])
    assert markdown(table) == "| a\\|b | n |\n| --- | ---: |\n| x\\|y z | 1.2 |\n| &lt;b> | – |\n"


def test_a_picture_of_charts_of_both_kinds(tmp_path: Path) -> None:
    lines = Chart(
        "l",
        "step",
        "y",
        [Series("_$a_b$^^$", [1, 2, 4], [0.1, None, 0.3], [0, None, 0.2], [0.2, None, 0.4])],
        log_x=True,
    )
    points = Chart("p", "x", "y", [Series("_$a_b$^^$", [1], [0.5], [0.4], [0.6])], kind="points", percent=True)
    picture([lines, points], tmp_path / "p.png", "title")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
