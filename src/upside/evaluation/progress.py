"""How far an evaluation is: a bar on a terminal, a line every half minute elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from upside.evaluation.run import Progress

if TYPE_CHECKING:
    from rich.console import Console

EVERY = 30.0  # seconds between two lines


@contextmanager
def shown(console: Console, title: str, total: int, done: int = 0) -> Iterator[Progress]:
    """A Progress callback that shows responses done, tokens a second and the time left. done: responses that were
    there before, which count neither for the speed nor for the time left."""
    speed = Speed(total, done)
    if not console.is_terminal:
        yield lambda at, total, tokens: speed.line(console, title, at, tokens)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[speed]}"))
    with Progress(*columns, console=console, transient=True) as bars:
        bar = bars.add_task(title, total=total, completed=done, speed="")

        def update(at: int, total: int, tokens: int) -> None:
            bars.update(bar, completed=at, speed=speed.after(at, tokens))

        yield update


class Speed:
    """Tokens a second and time left since it was made."""

    def __init__(self, total: int, done: int = 0, clock: float | None = None) -> None:
        self.total, self.before, self.tokens = total, done, 0
        self.started = self.told = time.monotonic() if clock is None else clock

    def after(self, done: int, tokens: int, clock: float | None = None) -> str:
        """'412 tokens/s, 3:05 left' after a batch of `tokens` tokens, with `done` responses there."""
        self.tokens += tokens
        seconds = max(1e-9, (time.monotonic() if clock is None else clock) - self.started)
        left = (self.total - done) * seconds / max(1, done - self.before)
        minutes, rest = divmod(round(left), 60)
        hours, minutes = divmod(minutes, 60)
        clock_text = f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
        return f"{self.tokens / seconds:.0f} tokens/s, {clock_text} left"

    def line(self, console: Console, title: str, done: int, tokens: int) -> None:
        text = self.after(done, tokens)
        if time.monotonic() - self.told >= EVERY:
            self.told = time.monotonic()
            console.print(f"{title}: {done} of {self.total} responses, {text}", markup=False, highlight=False)
