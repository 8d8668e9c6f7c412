"""One slot of the checking pool: a supervisor that forks, watches and kills the process which does the mathematics.

    python -P -m upside.verifiers.worker --memory 512

The pool (`upside.verifiers.pool`) starts it and talks JSON lines over stdin and stdout: first comes `{"ready": true}`
or `{"fatal": "..."}`; then a request `{"jobs": [[gold, answer], ...], "limit": seconds}` is answered by
`{"outcomes": [...]}`, one a job.

The supervisor imports the symbolic libraries once and never calls them. The forked child does; it has a memory limit
and an answer that takes longer than `limit` seconds of wall-clock costs it its life: SIGKILL, which no C code, no
`except` and no blocked signal can hold up. The next child is a fork of a warm process, milliseconds away. Where the
machine is so busy that the child got less than half of that time on a processor, it is given more, up to three times.

Nobody is left behind: the child dies with the supervisor (PDEATHSIG), the supervisor ends when its stdin closes or
when its parent is no longer the one that started it.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import logging
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

ANSWERS_A_CHILD = 400  # then a fresh one: the caches of the symbolic library cannot grow without end
STARVED = 3  # a child short of processor time has up to this many times its limit
PARENT_CHECK = 5.0  # seconds between looks at who the parent is
MIB = 1024 * 1024
_PR_SET_PDEATHSIG = 1

Check = Callable[[str, str], str]


class Child:
    """A forked process that runs `check` on one job after the other."""

    def __init__(self, check: Check, memory: int) -> None:
        self._requests_in, requests = os.pipe()
        results, self._results_out = os.pipe()
        self.left = ANSWERS_A_CHILD
        supervisor = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _run_child(check, memory, supervisor, self._requests_in, self._results_out)
        os.close(self._requests_in)
        os.close(self._results_out)
        self._requests, self.results = requests, results
        self._partial = b""

    def ask(self, jobs: list[list[str]]) -> None:
        data = json.dumps(jobs).encode() + b"\n"
        while data:  # the child reads a whole line before it works, so this cannot wait on a slow check
            data = data[os.write(self._requests, data) :]

    def read(self) -> list[str] | None:
        """The outcomes that have arrived; None when the child is gone."""
        data = os.read(self.results, 65536)
        if not data:
            return None
        *lines, self._partial = (self._partial + data).split(b"\n")
        return [line.decode() for line in lines]

    def processor_seconds(self) -> float:
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):  # gone, or no Linux: the wall-clock alone decides
            return float("inf")

    def kill(self) -> None:
        """End and reap it. No zombie, no open pipe."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._requests)
        os.close(self.results)


def _run_child(check: Check, memory: int, supervisor: int, requests: int, results: int) -> None:
    """The life of a child; never returns."""
    try:
        _die_with_parent(supervisor)
        low, high = sorted((requests, results))
        for first, end in ((3, low), (low + 1, high), (high + 1, 256)):
            os.closerange(first, end)
        for stream in (0, 1, 2):  # nothing that a library prints may reach the protocol
            os.dup2(os.open(os.devnull, os.O_RDWR), stream)
        _limit_memory(memory)
        with open(requests, "rb") as lines:
            for line in lines:
                for gold, answer in json.loads(line):
                    os.write(results, _one(check, gold, answer, memory).encode() + b"\n")
    except BaseException:
        os._exit(1)
    os._exit(0)


def _one(check: Check, gold: str, answer: str, memory: int) -> str:
    before = _peak()
    try:
        outcome = check(gold, answer)
    except MemoryError:
        return "timeout"
    except Exception:
        return "error"
    # a library may have swallowed the MemoryError and said "different": the peak tells
    return "timeout" if _peak() - before > memory * MIB // 2 else outcome


def _peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _limit_memory(memory: int) -> None:
    """`memory` MiB of address space more than the process has now."""
    try:
        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        limit = now + memory * MIB
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (OSError, ValueError):
        pass  # no Linux: the time limit alone protects


def _die_with_parent(supervisor: int) -> None:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:  # it died before the call
            os._exit(0)


class Supervisor:
    """Owns one child at a time and answers requests."""

    def __init__(self, check: Check, memory: int, stdin: int) -> None:
        self._check, self._memory, self._stdin = check, memory, stdin
        self._parent = os.getppid()
        self._child = Child(check, memory)

    def judge(self, jobs: list[list[str]], limit: float) -> list[str]:
        """One outcome a job; an answer over the limit is a "timeout", one that ends its process an "error"."""
        outcomes: list[str] = []
        while len(outcomes) < len(jobs):
            if self._child.left <= 0:
                self._replace()
            todo = jobs[len(outcomes) : len(outcomes) + self._child.left]
            self._child.left -= len(todo)
            outcomes += self._run(todo, limit)
        return outcomes

    def _run(self, jobs: list[list[str]], limit: float) -> list[str]:
        """The outcomes of the first jobs, all of them unless the child had to be replaced."""
        done: list[str] = []
        try:
            self._child.ask(jobs)
        except BrokenPipeError:
            self._replace()
            return ["error"]
        while len(done) < len(jobs):
            if not self._wait(limit):
                self._replace()
                return [*done, "timeout"]
            arrived = self._child.read()
            if arrived is None:
                self._replace()
                return [*done, "error"]
            done += arrived
        return done

    def _wait(self, limit: float) -> bool:
        """Whether the next outcome came in time."""
        start, used = time.monotonic(), self._child.processor_seconds()
        until = start + limit
        while True:
            now = time.monotonic()
            ready = self._select(min(max(until - now, 0.0), PARENT_CHECK))
            if ready:
                return True
            now = time.monotonic()
            if now < until:
                continue
            starved = self._child.processor_seconds() - used < limit / 2
            if not starved or now - start >= STARVED * limit:
                return False
            until = min(now + limit / 4, start + STARVED * limit)

    def _select(self, seconds: float) -> bool:
        """Whether the child has written. Ends everything when the parent is gone (nothing else is ever sent while a
        request is open, so a readable stdin is a closed one)."""
        ready, _, _ = select.select([self._child.results, self._stdin], [], [], seconds)
        if self._stdin in ready or os.getppid() != self._parent:
            self._child.kill()
            os._exit(0)
        return bool(ready)

    def _replace(self) -> None:
        self._child.kill()
        self._child = Child(self._check, self._memory)

    def close(self) -> None:
        self._child.kill()


def _serve(check: Check, memory: int, reply: Callable[[dict[str, Any]], None]) -> None:
    supervisor = Supervisor(check, memory, stdin=0)
    try:
        reply({"ready": True})
        while line := _line():
            request = json.loads(line)
            reply({"outcomes": supervisor.judge(request["jobs"], request["limit"])})
    except BrokenPipeError:
        pass
    finally:
        supervisor.close()


def _line() -> bytes:
    """The next request, empty at the end. Read without a buffer: the pool sends one and waits, and what select() sees
    on the pipe afterwards is news."""
    data = b""
    while not data.endswith(b"\n"):
        part = os.read(0, 1 << 20)
        if not part:
            return b""
        data += part
    return data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", type=int, default=512, help="MiB an answer may take (default 512)")
    memory = parser.parse_args().memory
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    out = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)

    def reply(message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(out, data) :]

    try:
        from upside.verifiers.compare import check, warm_up

        logging.disable(logging.CRITICAL)
        warm_up()
    except Exception as error:
        reply({"fatal": f"{type(error).__name__}: {error}"})
        return
    _serve(check, memory, reply)


if __name__ == "__main__":
    main()
