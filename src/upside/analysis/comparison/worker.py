"""`python -m upside.analysis.comparison.worker FD train …`: the command line in a process that does not outlive the one
that started it.

FD is the reading end of a pipe whose other end the starting process holds. However that one ends, SIGKILL included, the
pipe closes; then this process gets SIGTERM, at which a training run saves a checkpoint.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

GRACE = 600.0  # seconds until a process that is still there is killed


def watch(pipe: int) -> None:
    """Wait for the pipe to close, then end this process."""
    os.read(pipe, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=watch, args=(int(sys.argv.pop(1)),), daemon=True).start()
    from upside.cli import main

    main(prog_name="upside")
