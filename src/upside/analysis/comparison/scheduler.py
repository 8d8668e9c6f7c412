"""Running what is not finished, so many at a time, until all have ended or somebody says stop."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from upside.analysis.comparison.plan import PlannedRun
from upside.analysis.comparison.processes import Handle, Job, Process, environment
from upside.analysis.comparison.progress import Display

EVERY = 0.25  # seconds between two looks at the runs
Start = Callable[[Job, int], Handle | None]
"""Starts a job in a slot; None where an earlier process of the run is still ending."""


class Stopped(Exception):
    """Somebody stopped the comparison; its runs saved what they had."""


def local(threads: int) -> Start:
    """Starts runs as children of this process."""

    def start(job: Job, slot: int) -> Handle | None:
        log = job.open_log()
        return None if log is None else Process(job, log, environment(threads, slot))

    return start


def execute(runs: Sequence[PlannedRun], output: Path, jobs: int, start: Start, console: Any) -> dict[str, str]:
    """Bring every run to its end, `jobs` at a time. Returns {key: the last lines of its log} of those that failed; the
    others go on. Raises Stopped after SIGINT or SIGTERM, once the runs have saved a checkpoint; a second signal ends
    them at once."""
    queue = [run for run in runs if run.state != "finished"]
    under_way: dict[int, tuple[Job, Handle]] = {}  # by slot
    failed: dict[str, str] = {}
    waiting: set[str] = set()
    with Display(console, runs) as display, _signals() as signals:
        try:
            while (queue or under_way) and not signals:
                for slot in range(jobs):
                    if slot in under_way or not queue:
                        continue
                    job = Job.of(queue[0], output)
                    handle = start(job, slot)
                    if handle is None:
                        if job.run.key not in waiting:
                            display.note(f"{job.run.key}: waiting for its earlier process to save and end")
                        waiting.add(job.run.key)
                        queue.append(queue.pop(0))
                        break
                    display.started(queue.pop(0))
                    under_way[slot] = job, handle
                _collect(under_way, failed, display)
                time.sleep(EVERY)
            if signals:
                _stop(under_way, signals, display)
                done = sum(run.state == "finished" for run in runs)
                raise Stopped(
                    f"stopped by {signals[0]}; {done} of {len(runs)} runs are finished; the same command goes on"
                )
        finally:
            for _, handle in under_way.values():
                handle.kill()
    return failed


def _collect(under_way: dict[int, tuple[Job, Handle]], failed: dict[str, str], display: Display) -> None:
    """Show how far the runs are; take out those that have ended."""
    for slot, (job, handle) in list(under_way.items()):
        code = handle.poll()
        display.update(job.run)
        if code is None:
            continue
        del under_way[slot]
        if code == 0 and job.run.state == "finished":
            display.finished(job.run)
        else:
            ended = f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
            failed[job.run.key] = f"{ended}; {job.log} ends with:\n{job.last_lines()}"
            display.finished(job.run, f"FAILED, {failed[job.run.key]}")


def _stop(under_way: dict[int, tuple[Job, Handle]], signals: list[str], display: Display) -> None:
    display.note(f"{signals[0]}: the runs finish their step and save a checkpoint (again to stop at once)")
    for _, handle in under_way.values():
        handle.stop()
    while under_way and len(signals) == 1:
        for slot, (_, handle) in list(under_way.items()):
            if handle.poll() is not None:
                del under_way[slot]
        time.sleep(EVERY)


@contextmanager
def _signals() -> Iterator[list[str]]:
    """The names of SIGINT and SIGTERM as they come; the handlers are as before afterwards."""
    seen: list[str] = []
    if threading.current_thread() is not threading.main_thread():
        yield seen  # Python gives signals to the main thread alone
        return
    handle = lambda number, frame: seen.append(signal.Signals(number).name)  # noqa: E731
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
