"""Speed and time left."""

import io

from rich.console import Console

from upside.evaluation import progress
from upside.evaluation.progress import Speed, shown


def test_speed_and_time_left():
    speed = Speed(total=100, clock=0.0)
    assert speed.after(10, 500, clock=10.0) == "50 tokens/s, 1:30 left"
    assert speed.after(100, 500, clock=20.0) == "50 tokens/s, 0:00 left"
    assert Speed(total=7210, clock=0.0).after(10, 5, clock=10.0) == "0 tokens/s, 2:00:00 left"


def test_what_was_there_before_counts_for_neither():
    assert Speed(total=100, done=90, clock=0.0).after(95, 10, clock=5.0) == "2 tokens/s, 0:05 left"


def test_quiet_without_a_terminal(monkeypatch):
    out = io.StringIO()
    console = Console(file=out, force_terminal=False, width=80)
    with shown(console, "math500", 4) as tell:
        tell(1, 4, 10)
    assert out.getvalue() == ""  # nothing before half a minute is over
    monkeypatch.setattr(progress, "EVERY", 0.0)
    with shown(console, "math500", 4) as tell:
        tell(1, 4, 10)
        tell(4, 4, 10)
    lines = out.getvalue().splitlines()
    assert [line.partition(" responses")[0] for line in lines] == ["math500: 1 of 4", "math500: 4 of 4"]


def test_a_bar_on_a_terminal():
    out = io.StringIO()
    with shown(Console(file=out, force_terminal=True, width=100), "math500", 4) as tell:
        tell(2, 4, 10)
    assert "tokens/s" in out.getvalue()
    assert "2/4" in out.getvalue()
