"""Time of every preset on a million responses, beside the loops found in the wild.

    python benchmarks/estimators.py [--rows 1000000] [--repeats 3] [--full]

One thread, groups of 16, UUID strings as group ids. Times are medians of CPU seconds. "estimate" is the call on a
built Rollouts; "with ids" includes building it, with its dict pass over the uid strings. The loops run on batches
where they finish, next to the preset at the same size in the same run; --full runs those that are linear in the
rows at --rows as well.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

import torch
import wild

import upside

GROUP = 16
LOOPS: dict[str, tuple[Callable[..., torch.Tensor], str, str]] = {  # name -> function, same result here, growth
    "grpo, dict of lists": (wild.grpo_dict_of_lists, "grpo:eps=1e-6", "rows"),
    "rloo, dict of lists": (wild.rloo_dict_of_lists, "rloo", "rows"),
    "canon, sorted(zip) per uid": (wild.canon_sorted_zip, "canon_inter", "rows"),
    "adora, mask per group": (wild.adora_mask_per_group, "adora:no_success=tds,no_failure=tas", "groups x rows"),
}


def fields(rows: int) -> dict[str, Any]:
    """A Rollouts' fields: binary rewards, rows of all groups mixed, every optional field."""
    g = torch.Generator().manual_seed(0)
    uniform = lambda: torch.rand(rows, generator=g)  # noqa: E731
    names = [str(uuid.UUID(int=i * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128)) for i in range(-(-rows // GROUP))]
    rewards = (uniform() < 0.4).float()
    return {
        "rewards": rewards,
        "groups": [names[i // GROUP] for i in torch.randperm(rows, generator=g).tolist()],
        "lengths": torch.randint(1, 4096, (rows,), generator=g).float(),
        "entropy": uniform(),
        "correct": rewards == 1,
        "truncated": uniform() < 0.05,
        "reference_rewards": (uniform() < 0.4).float(),
        "metrics": {"baseline": uniform()},
        "step": 10,
        "total_steps": 100,
    }


def timed(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Median CPU time of `repeats` runs in seconds, and the result of the last. One thread: CPU time is wall time
    without what other programs take."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        result = work()
        times.append(time.process_time() - start)
    return statistics.median(times), result


def presets_table(rows: int, repeats: int) -> None:
    given = fields(rows)
    build, _ = timed(lambda: upside.Rollouts(**given).grouping, repeats)
    print(f"\n## Presets, {rows:,} responses in {-(-rows // GROUP):,} groups\n")
    print(f"Building the Rollouts, all fields and the dict pass over the ids included: {build:.2f} s.\n")
    print("| preset | estimate, s | with ids, s |\n|---|---|---|")
    always = {"rewards", "groups", "step", "metrics"}
    for name in upside.presets():
        estimator = upside.estimator(name)
        needed = {k: v for k, v in given.items() if k in always | estimator.needs}
        batch = upside.Rollouts(**needed)
        estimator(batch)
        alone, _ = timed(lambda e=estimator, b=batch: e(b), repeats)
        whole, _ = timed(lambda e=estimator, f=needed: e(upside.Rollouts(**f)), repeats)
        print(f"| {name} | {alone:.3f} | {whole:.3f} |", flush=True)


def loop_times(name: str, rows: int, repeats: int) -> tuple[float, float]:
    """Seconds of the loop and of the preset (ids included) on one batch. Raises if their results differ."""
    loop, spec, _ = LOOPS[name]
    given = fields(rows)
    estimator = upside.estimator(spec)
    needed = {k: v for k, v in given.items() if k in estimator.needs or k in ("rewards", "groups")}
    arguments = (given["rewards"], given["groups"], given["lengths"], given["entropy"])
    slow, theirs = timed(lambda: loop(*arguments), repeats)
    fast, result = timed(lambda: estimator(upside.Rollouts(**needed)), max(repeats, 3))
    ours = result.values
    if not torch.allclose(theirs, ours, atol=1e-4):
        raise RuntimeError(f"{name}: the loop and {spec} differ by {float((theirs - ours).abs().max()):.3g}")
    return slow, fast


def loops_table(rows: int, repeats: int, full: bool) -> None:
    print("\n## Loops found in the wild, beside the preset at the same size in the same run (ids included)\n")
    print("| loop | responses | loop, s | preset, s | ratio |\n|---|---|---|---|---|")
    for name, (_, _, growth) in LOOPS.items():
        linear = growth == "rows"
        sizes = [4_096, 16_384, *([131_072] if linear else []), *([rows] if linear and full else [])]
        for n in dict.fromkeys(min(size, rows) for size in sizes):
            slow, fast = loop_times(name, n, repeats if n < 100_000 else 1)
            print(f"| {name} | {n:,} | {slow:.3g} | {fast:.3g} | {slow / fast:,.0f} |", flush=True)
        if not linear and n < rows:
            hours = slow * (rows / n) ** 2 / 3600
            print(f"| {name} | {rows:,} | *{hours:,.1f} h, extrapolated as {growth}, not run* | | |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="responses in the large batch (default 1,000,000)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of which the median is shown (default 3)")
    parser.add_argument("--full", action="store_true", help="run the linear loops at --rows too (minutes)")
    args = parser.parse_args()
    if args.rows < GROUP or args.repeats < 1:
        parser.error(f"--rows must be at least {GROUP} and --repeats at least 1")
    torch.set_num_threads(1)
    versions = f"upside {upside.__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    command = " ".join(["python", *sys.argv])
    print(f"{time.strftime('%Y-%m-%d')}, {versions}, {platform.machine()}, 1 thread: `{command}`")
    presets_table(args.rows, args.repeats)
    loops_table(args.rows, args.repeats, args.full)


if __name__ == "__main__":
    main()
