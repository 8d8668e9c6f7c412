"""The math verifier beside one math-verify process, and against answers made to hang.

    OMP_NUM_THREADS=1 python benchmarks/verifier.py [--workers 2] [--repeats 3]

Prints answers a second for both on repeated GSM8K-style answers and on distinct surds, the time for 1,000 answers of
which 50 are pathological, and what 10,000 answers leave behind. Wall-clock; the two sides take turns, the median of
the repeats counts. math-verify runs as documented: `verify(parse(gold), parse(response))` with its own timeouts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import math_verify
from pathological import pathological

from upside.verifiers.math import MathVerifier

Pair = tuple[str, str]


def gsm8k_like(rows: int, samples: int) -> list[Pair]:
    """`samples` responses to each of `rows` problems: the worked solution, a boxed answer or a wrong one."""
    file = Path(__file__).parents[1] / "tests" / "data" / "gsm8k_test.jsonl"
    draw = random.Random(0)
    pairs = []
    for line in file.read_text(encoding="utf-8").splitlines()[:rows]:
        solution, _, gold = json.loads(line)["answer"].rpartition("####")
        gold = gold.strip()
        for _ in range(samples):
            said = draw.choice([gold, gold, str(draw.randint(1, 99))])
            pairs.append((gold, f"{solution}The answer is $\\boxed{{{said}}}$."))
    return pairs


def surds(count: int, start: int) -> list[Pair]:
    """Pairs that are all different, each side a surd in another form; every third is wrong."""
    pairs = []
    for k in range(start, start + count):
        a, b = k % 89 + 2, k // 89 % 97 + 2
        other = a * a * b + (k % 3 == 0)
        pairs.append(
            (rf"\frac{{{a}\sqrt{{{b}}}}}{{{k + 3}}}", rf"So we get $\boxed{{\frac{{\sqrt{{{other}}}}}{{{k + 3}}}}}$.")
        )
    return pairs


def peer(pairs: Sequence[Pair]) -> list[bool]:
    return [math_verify.verify(math_verify.parse(f"${gold}$"), math_verify.parse(said)) for gold, said in pairs]


def ours(verifier: MathVerifier, pairs: Sequence[Pair]) -> list[bool]:
    return [verdict.correct is True for verdict in verifier(*zip(*pairs, strict=True))]


def rate(work: Callable[[], list[bool]]) -> tuple[float, list[bool]]:
    start = time.perf_counter()
    result = work()
    return len(result) / (time.perf_counter() - start), result


def compare(name: str, batches: Sequence[Sequence[Pair]], workers: int) -> None:
    """One line: median answers a second of both sides over the batches, and how often they agree."""
    theirs, mine, agree = [], [], 0
    for pairs in batches:
        verifier = MathVerifier(workers=workers)  # a fresh cache
        speed, expected = rate(lambda pairs=pairs: peer(pairs))
        theirs.append(speed)
        speed, result = rate(lambda v=verifier, pairs=pairs: ours(v, pairs))
        mine.append(speed)
        agree += sum(a == b for a, b in zip(expected, result, strict=True))
    total = sum(map(len, batches))
    a, b = statistics.median(theirs), statistics.median(mine)
    print(
        f"| {name} | {total // len(batches):,} | {a:,.0f} | {b:,.0f} | {b / a:,.1f} | {agree / total:.2%} |", flush=True
    )


def hard(workers: int) -> None:
    pairs = surds(475, 50_000) + gsm8k_like(20, 24)[:475] + pathological()
    random.Random(1).shuffle(pairs)
    start = time.perf_counter()
    verdicts = MathVerifier(workers=workers)(*zip(*pairs, strict=True))
    seconds = time.perf_counter() - start
    print(f"\n1,000 answers, 50 of them pathological: {seconds:.1f} s; {dict(Counter(v.outcome for v in verdicts))}")


def many(workers: int) -> None:
    verifier = MathVerifier(workers=workers)
    ours(verifier, surds(100, 90_000))

    def state() -> str:
        resident = [
            int(line.split()[1]) // 1024
            for pid in verifier.processes()
            for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            if line.startswith("VmRSS")
        ]
        return f"{len(os.listdir('/proc/self/fd'))} open files here, supervisors {resident} MiB"

    print(f"before: {state()}")
    speed, _ = rate(lambda: ours(verifier, surds(10_000, 100_000)))
    print(f"after 10,000 answers ({speed:,.0f}/s): {state()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2, help="processes of the verifier (default 2)")
    parser.add_argument("--repeats", type=int, default=3, help="batches of which the median counts (default 3)")
    args = parser.parse_args()
    start = time.perf_counter()
    ours(MathVerifier(workers=args.workers), surds(args.workers * 8, 10_000))
    print(
        f"{time.strftime('%Y-%m-%d')}, math-verify {version('math-verify')}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}: `{' '.join(['python', *sys.argv])}`\n\n"
        f"Starting {args.workers} workers: {time.perf_counter() - start:.1f} s, once in a process.\n"
    )
    peer(surds(20, 20_000) + gsm8k_like(5, 1))
    print("| answers | a batch | math-verify, /s | upside, /s | ratio | same verdict |\n|---|---|---|---|---|---|")
    compare("GSM8K-style, 16 a problem", [gsm8k_like(20, 16)] * args.repeats, args.workers)
    compare("distinct surds", [surds(300, 30_000 + 300 * k) for k in range(args.repeats)], args.workers)
    hard(args.workers)
    many(args.workers)
    print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
