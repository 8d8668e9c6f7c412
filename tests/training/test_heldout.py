"""Held-out accuracy: what training gained, paired by problem."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console as Rich

from upside.training.console import Console
from upside.training.heldout import add_gains


def line(step: int, mode: str, right: list[int], judged: list[int]) -> dict[str, Any]:
    return {"step": step, "mode": mode, "right": right, "judged": judged}


def test_the_gain_is_paired_by_problem_and_shown() -> None:
    lines = [
        line(0, "greedy", [1, 0, 0, 0], [1, 1, 1, 1]),
        line(0, "sampled", [1, 0, 2, 0], [2, 2, 2, 0]),
        line(5, "greedy", [1, 1, 1, 0], [1, 1, 1, 1]),
        line(5, "sampled", [2, 2, 2, 2], [2, 2, 2, 2]),
    ]
    facts = {"accuracy": 0.5, "low": 0.1, "high": 0.9, "n": 4, "length": 3.0}
    after = {"greedy": dict(facts), "sampled": dict(facts)}
    add_gains(after, lines)
    # differences 0, 1, 1, 0: mean 1/2, standard error 1/sqrt(12), t(3) = 3.1824, and no share moves by more than 1
    assert after["greedy"]["gain"] == {"value": 0.5, "low": pytest.approx(-0.4187, abs=0.003), "high": 1.0}
    assert after["sampled"]["gain"]["value"] == 0.5  # of 0.5, 1 and 0; the last problem was not judged before
    console = Console()
    console.out = Rich(file=StringIO(), width=100)
    console.results({"greedy": facts, "sampled": facts}, after)
    text = console.out.file.getvalue()
    assert text.count("gain") == 2
    assert "+50.0%" in text
    assert "% – +100.0%" in text


def test_where_nothing_can_be_paired_there_is_no_gain() -> None:
    after: dict[str, dict[str, Any]] = {"sampled": {}}
    add_gains(after, [line(5, "sampled", [1], [1]), line(10, "sampled", [1], [1])])
    add_gains(after, [])
    add_gains(after, [line(0, "sampled", [1, 0], [1, 1]), line(10, "sampled", [1], [1])])  # resumed with other problems
    add_gains(after, [line(0, "sampled", [0, 1], [0, 1]), line(10, "sampled", [1, 0], [1, 0])])  # none judged twice
    add_gains(after, [line(0, "sampled", [0], [1]), line(10, "sampled", [1], [1])])  # one problem has no interval
    assert after == {"sampled": {}}
