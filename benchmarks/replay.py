"""`upside replay` on a million responses: reading the log and five estimators.

    python benchmarks/replay.py [--steps 7813] [--format run|trl|verl|csv] [--folder FOLDER]

Makes a log of 16 prompts x 8 responses a step, with texts of 40 to 400 characters, in FOLDER (a temporary one by
default; a log that is there is taken as it is) and times reading, replaying and rendering, one thread. CPU seconds are
what counts where other programs run; wall-clock seconds stand beside them.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import torch

from upside.analysis import read_log, replay

PROMPTS, SIZE, VISITS = 16, 8, 4
ESTIMATORS = ("grpo", "canon_inter", "canon_dynamic", "adora", "aapo")


def step_table(step: int, steps: int) -> pa.Table:
    """One step's responses, with every column; a prompt is seen VISITS times in a run."""
    rng = np.random.default_rng(step)
    n = PROMPTS * SIZE
    prompt = np.repeat((step * PROMPTS + np.arange(PROMPTS)) % max(steps * PROMPTS // VISITS, PROMPTS), SIZE)
    lengths = rng.integers(10, 100, n)
    right = rng.random(n) < rng.beta(0.5, 0.5, PROMPTS).repeat(SIZE)
    return pa.table(
        {
            "step": np.full(n, step),
            "prompt": [f"What is {p} + {p}?" for p in prompt],
            "response": [f"{i:04d} " * length for i, length in zip(rng.integers(0, 9999, n), lengths, strict=True)],
            "group": np.repeat(np.arange(PROMPTS), SIZE),
            "valid": np.full(n, True),
            "reward": right.astype(float),
            "correct": right,
            "length": lengths.astype(float),
            "entropy": rng.random(n),
            "truncated": lengths > 95,
            "reference_reward": (rng.random(n) < 0.4).astype(float),
        }
    )


def write_run(table: pa.Table, step: int, folder: Path) -> None:
    (folder / "rollouts").mkdir(exist_ok=True)
    (folder / "recipe.yaml").touch()
    pyarrow.parquet.write_table(table, folder / "rollouts" / f"step-{step:05d}.parquet")


def write_trl(table: pa.Table, step: int, folder: Path) -> None:
    (folder / "completions").mkdir(exist_ok=True)
    named = table.select(["step", "prompt", "response", "reward", "length"]).append_column("advantage", table["reward"])
    named = named.rename_columns(["step", "prompt", "completion", "is_right", "length", "advantage"])
    pyarrow.parquet.write_table(named, folder / "completions" / f"completions_{step:05d}.parquet")


def write_verl(table: pa.Table, step: int, folder: Path) -> None:
    names = {"prompt": "input", "response": "output", "reward": "score", "step": "step", "length": "length"}
    rows = table.select([*names]).rename_columns([*names.values()]).to_pylist()
    (folder / f"{step}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def make(folder: Path, kind: str, steps: int) -> Path:
    """The log's path; made where the folder is empty."""
    if any(folder.iterdir()):
        return folder / "log.csv" if kind == "csv" else folder
    if kind == "csv":
        tables = [step_table(step, steps).drop_columns(["valid"]) for step in range(1, steps + 1)]
        pyarrow.csv.write_csv(pa.concat_tables(tables), folder / "log.csv")
        return folder / "log.csv"
    write = {"run": write_run, "trl": write_trl, "verl": write_verl}[kind]
    for step in range(1, steps + 1):
        write(step_table(step, steps), step, folder)
    return folder


def timed(what: str, work: Callable[[], Any]) -> Any:
    cpu, wall = time.process_time(), time.perf_counter()
    result = work()
    print(f"| {what} | {time.process_time() - cpu:.1f} | {time.perf_counter() - wall:.1f} |", flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=7813)
    parser.add_argument("--format", choices=["run", "trl", "verl", "csv"], default="run")
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    torch.set_num_threads(1)
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        path = make(folder, given.format, given.steps)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20
        print(f"{given.steps * PROMPTS * SIZE:,} responses over {given.steps:,} steps, {given.format}, {size:.0f} MiB")
        print(f"torch {torch.__version__}, pyarrow {pa.__version__}, Python {platform.python_version()}, 1 thread\n")
        print("| | CPU, s | wall-clock, s |\n|---|---|---|")
        log = timed("read the log", lambda: read_log(path))
        found = timed(f"replay {len(ESTIMATORS)} estimators", lambda: replay(log, ESTIMATORS))
        timed("sections", found.sections)
        print(f"\nreplayed: {', '.join(found.values)}; left out: {', '.join(found.left_out) or 'none'}")


if __name__ == "__main__":
    main()
