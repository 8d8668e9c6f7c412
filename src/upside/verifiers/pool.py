"""Killable worker processes that compare answers: a wall-clock and a memory limit for each, from any thread.

    pool = shared_pool(workers=2, memory=512)
    pool.run([(r"\\sqrt{8}", r"2\\sqrt{2}"), ("1", "9^{9^{9^9}}")], limit=2.0)   # ["correct", "timeout"]

Each slot is a supervisor process with a forked child (`upside.verifiers.worker`), started by exec and spoken to in
JSON lines: the caller's `__main__` is not imported again, nothing is pickled, and a process full of torch threads is
never forked. A batch is dealt out in small chunks to whichever slot is free. A supervisor that dies is replaced and
its chunk asked again one by one; the job that kills a second one is an "error". Batches of several threads follow
one another. Pools start when first used, are shared in the process and end with it, however it ends; a fork of the
process starts its own.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import selectors
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from upside.verifiers.worker import STARVED

Job = tuple[str, str]
"""A gold answer and an answer, as text."""

CHUNK = 16  # jobs a message at most
GRACE = 20.0  # seconds beyond the limits of its jobs before a supervisor itself counts as stuck
START = 120.0  # seconds a supervisor may take to import its libraries
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "PYTHONHOME")
_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class _Gone(Exception):
    """A supervisor has ended, or no longer answers."""


class _Slot:
    """One supervisor process."""

    def __init__(self, memory: int) -> None:
        self.ready = False
        self.jobs: list[tuple[int, Job]] = []
        self.deadline = time.monotonic() + START
        self._partial = b""
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "upside.verifiers.worker", "--memory", str(memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            bufsize=0,
            start_new_session=True,  # Ctrl-C in the terminal goes to the caller alone
        )
        assert self.process.stdout is not None
        self.out = self.process.stdout

    def ask(self, jobs: list[tuple[int, Job]], limit: float) -> None:
        self.jobs = jobs
        self.deadline = time.monotonic() + STARVED * limit * len(jobs) + GRACE
        assert self.process.stdin is not None
        data = json.dumps({"jobs": [job for _, job in jobs], "limit": limit}).encode() + b"\n"
        try:
            while data:
                data = data[self.process.stdin.write(data) or 0 :]
        except OSError as error:
            raise _Gone from error

    def read(self) -> dict[str, object] | None:
        """The message that is complete now; None for part of one. _Gone when the process has ended."""
        data = os.read(self.out.fileno(), 1 << 20)
        if not data:
            raise _Gone
        self._partial += data
        if not self._partial.endswith(b"\n"):
            return None
        message: dict[str, object] = json.loads(self._partial)
        self._partial = b""
        return message

    def close(self) -> None:
        """Kill and reap; the child dies with its supervisor."""
        self.process.kill()
        self.process.wait()
        self.abandon()

    def abandon(self) -> None:
        """Close the pipes only: in a fork, where the process belongs to somebody else."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


def _environment() -> dict[str, str]:
    """What a worker sees of the environment: where Python is, one thread, a fixed hash seed, no secrets."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**kept, **dict.fromkeys(_ONE_THREAD, "1"), "PYTHONPATH": path, "PYTHONHASHSEED": "0"}


_alive: weakref.WeakSet[Pool] = weakref.WeakSet()


class Pool:
    """`workers` slots with `memory` MiB an answer. Use `shared_pool` unless the pool must be your own."""

    def __init__(self, workers: int, memory: int) -> None:
        self.workers, self.memory = workers, memory
        self._slots: list[_Slot] = []
        self._lock = threading.Lock()
        _alive.add(self)

    def run(self, jobs: Sequence[Job], limit: float) -> list[str]:
        """One outcome a job: what `upside.verifiers.compare.check` says, "timeout" over `limit` seconds or over the
        memory, "error" where the checking process crashed. RuntimeError if no worker can start."""
        outcomes: list[str | None] = [None] * len(jobs)
        with self._lock:
            try:
                self._run(deque(enumerate(jobs)), outcomes, limit)
            except BaseException:  # KeyboardInterrupt among them: the slots are mid-sentence
                self._close()
                raise
        return [outcome or "error" for outcome in outcomes]

    def _run(self, queue: deque[tuple[int, Job]], outcomes: list[str | None], limit: float) -> None:
        alone: deque[tuple[int, Job]] = deque()  # jobs whose supervisor died: asked again one by one
        tried: set[int] = set()
        wanted = min(self.workers, len(queue))
        while len(self._slots) < wanted:
            self._slots.append(_Slot(self.memory))
        with selectors.DefaultSelector() as selector:
            for slot in self._slots:
                selector.register(slot.out, selectors.EVENT_READ, slot)
            while True:
                for slot in self._slots:
                    if slot.ready and not slot.jobs and (queue or alone):
                        self._deal(slot, queue, alone, limit)
                busy = [slot for slot in self._slots if slot.jobs or (not slot.ready and (queue or alone))]
                if not busy:
                    return
                pause = max(0.0, min(slot.deadline for slot in busy) - time.monotonic())
                for key, _ in selector.select(pause):
                    slot = key.data
                    try:
                        self._take(slot, outcomes)
                    except _Gone:
                        self._bury(slot, selector, alone, tried, outcomes)
                for slot in busy:
                    if slot in self._slots and (slot.jobs or not slot.ready) and time.monotonic() > slot.deadline:
                        self._bury(slot, selector, alone, tried, outcomes)

    def _deal(self, slot: _Slot, queue: deque[tuple[int, Job]], alone: deque[tuple[int, Job]], limit: float) -> None:
        if queue:
            size = max(1, min(CHUNK, len(queue) // (4 * len(self._slots))))
            jobs = [queue.popleft() for _ in range(size)]
        else:
            jobs = [alone.popleft()]
        with contextlib.suppress(_Gone):  # its closed output says the same in a moment; the jobs stay in the slot
            slot.ask(jobs, limit)

    def _take(self, slot: _Slot, outcomes: list[str | None]) -> None:
        message = slot.read()
        if message is None:
            return
        if "fatal" in message:
            raise RuntimeError(
                f"the answer checker cannot start: {message['fatal']}; it needs math-verify: pip install upside[train]"
            )
        if "ready" in message:
            slot.ready = True
            return
        results = message["outcomes"]
        assert isinstance(results, list)
        for (index, _), outcome in zip(slot.jobs, results, strict=True):
            outcomes[index] = outcome
        slot.jobs = []

    def _bury(
        self,
        slot: _Slot,
        selector: selectors.BaseSelector,
        alone: deque[tuple[int, Job]],
        tried: set[int],
        outcomes: list[str | None],
    ) -> None:
        """Replace a slot whose supervisor is gone or stuck."""
        selector.unregister(slot.out)
        slot.close()
        if not slot.ready:
            raise RuntimeError(
                "the answer checker cannot start: its process ended before it was ready; "
                f"try: {sys.executable} -m upside.verifiers.worker"
            )
        for index, job in slot.jobs:
            if index in tried:
                outcomes[index] = "error"
            else:
                tried.add(index)
                alone.append((index, job))
        fresh = _Slot(self.memory)
        self._slots[self._slots.index(slot)] = fresh
        selector.register(fresh.out, selectors.EVENT_READ, fresh)

    def processes(self) -> list[int]:
        """Process ids of the running supervisors."""
        return [slot.process.pid for slot in self._slots]

    def close(self) -> None:
        """End all workers; the next `run` starts new ones."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        slots, self._slots = self._slots, []
        for slot in slots:
            slot.close()

    def _abandon(self) -> None:
        slots, self._slots = self._slots, []
        for slot in slots:
            slot.abandon()


_pools: dict[tuple[int, int], Pool] = {}
_pools_lock = threading.Lock()


def shared_pool(workers: int, memory: int) -> Pool:
    """The process's pool of that shape; it is closed when the process ends."""
    with _pools_lock:
        return _pools.setdefault((workers, memory), Pool(workers, memory))


@atexit.register
def _close_all() -> None:
    for pool in list(_alive):
        pool._close()


def _after_fork() -> None:
    """A fork must not hold the pipes open (the workers would outlive their owner) nor a lock of another thread."""
    global _pools_lock
    _pools_lock = threading.Lock()
    for pool in list(_alive):
        pool._lock = threading.Lock()
        pool._abandon()


os.register_at_fork(after_in_child=_after_fork)
