"""One run as a process of its own: started, watched, stopped."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from upside.analysis.comparison.plan import PlannedRun
from upside.training.recipe import to_yaml

POOLS = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "RAYON")
LAST_LINES = 8


class Handle(Protocol):
    """A run under way, here or on a cluster."""

    def poll(self) -> int | None:
        """Its exit code, None while it runs."""

    def stop(self) -> None:
        """Ask it to save a checkpoint and end."""

    def kill(self) -> None:
        """End it at once."""


@dataclass(frozen=True)
class Job:
    """What starting a run takes; plain enough to be sent to another machine that sees the same folders."""

    run: PlannedRun
    recipe: Path
    log: Path
    here: str  # the working folder: data files and a reward of one's own are found from it

    @classmethod
    def of(cls, run: PlannedRun, output: Path) -> Job:
        """Writes the run's recipe into the output folder."""
        recipe, log = output / "recipes" / f"{run.key}.yaml", output / "logs" / f"{run.key}.log"
        for path in (recipe, log):
            path.parent.mkdir(parents=True, exist_ok=True)
        recipe.write_text(to_yaml(run.recipe))
        return cls(run, recipe, log, os.getcwd())

    def open_log(self, wait: bool = False) -> IO[bytes] | None:
        """The log, locked for as long as this process or the run's has it open; None where an earlier process of the
        run still has (its parent was killed, and it is saving a checkpoint). wait: until that one ends."""
        log = self.log.open("ab")
        try:
            fcntl.flock(log, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            log.close()
            return None
        return log

    def last_lines(self) -> str:
        """The end of the log, for a run that failed."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(line for line in lines[-LAST_LINES:] if line.strip())


class Process:
    """A run as a child of this process; it ends when this one does. log: from `Job.open_log`."""

    def __init__(self, job: Job, log: IO[bytes], environment: dict[str, str]) -> None:
        words = ["train", str(job.recipe)]
        if job.run.state == "new":
            shutil.rmtree(job.run.recipe.folder, ignore_errors=True)  # empty folders, where a kill came early
        else:
            words.append("resume=true")
        pipe, self._alive = os.pipe()  # closed by the system when this process ends
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "upside.analysis.comparison.worker", str(pipe), *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=job.here,
                pass_fds=(pipe,),
                start_new_session=True,  # Ctrl-C reaches this process, which tells each run once
            )
        finally:
            os.close(pipe)
            log.close()

    def poll(self) -> int | None:
        return self.process.poll()

    def stop(self) -> None:
        if self.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        if self.poll() is None:
            self.process.kill()
        self.process.wait()

    def __del__(self) -> None:
        if hasattr(self, "_alive"):
            os.close(self._alive)


def environment(threads: int, slot: int = 0) -> dict[str, str]:
    """The environment of a run: its thread pools hold `threads`, and where this machine has several GPUs it sees one,
    in turn by slot."""
    found = {**os.environ, **{f"{pool}_NUM_THREADS": str(threads) for pool in POOLS}}
    gpus = visible_gpus()
    if len(gpus) > 1:
        found["CUDA_VISIBLE_DEVICES"] = gpus[slot % len(gpus)]
    return found


def visible_gpus() -> list[str]:
    """The GPUs this process may use, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name for name in named.split(",") if name.strip()]
    import torch

    return [str(index) for index in range(torch.cuda.device_count())]


def run_here(job: Job, threads: int) -> int:
    """The exit code of a run, once it has ended; stopped when this process is told to."""
    log = job.open_log(wait=True)
    assert log is not None
    process = Process(job, log, environment(threads))
    try:
        while (code := process.poll()) is None:
            time.sleep(0.2)
        return code
    except BaseException:
        process.stop()
        process.process.wait()
        raise
