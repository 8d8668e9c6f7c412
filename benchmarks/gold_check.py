"""The gold answers of public sets against their own solutions: how often does the math verifier say "correct"?

    UPSIDE_DATA=folder python benchmarks/gold_check.py

The folder has gsm8k, math500, aime24, aime25, amc23 and olympiadbench, each with a test.jsonl (columns `question` or
`problem`, `answer`, and `solution` where there is one). The response is the worked solution; where a set has none, the
gold answer in a sentence with a box. Exit status 1 when a set is below 99.5%.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from upside.verifiers.answers import math_answer
from upside.verifiers.math import MathVerifier

SETS = ("gsm8k", "math500", "aime24", "aime25", "amc23", "olympiadbench")
SHARE = 0.995


def pairs(file: Path) -> list[tuple[str, str]]:
    """(gold, response) of every row."""
    found = []
    for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
        answer = str(row["answer"])
        if "####" in answer:  # GSM8K keeps the worked solution in the answer
            found.append((answer.rpartition("####")[2].strip(), answer))
        else:
            boxed = answer.replace("$", "") if answer.count("$") != 1 else answer
            found.append((answer, row.get("solution") or f"Therefore the answer is $\\boxed{{{boxed}}}$."))
    return found


def main() -> int:
    folder = Path(
        os.environ.get("UPSIDE_DATA") or sys.exit("gold_check: set UPSIDE_DATA to the folder of the data sets")
    )
    verifier, below = MathVerifier(timeout=5.0), 0
    for name in SETS:
        rows = pairs(folder / name / "test.jsonl")
        start = time.perf_counter()
        verdicts = verifier(*zip(*rows, strict=True))
        seconds = time.perf_counter() - start
        right = sum(verdict.correct is True for verdict in verdicts)
        below += right < SHARE * len(rows)
        print(f"{name}: {right}/{len(rows)} correct ({right / len(rows):.2%}), {seconds:.1f} s")
        for (gold, response), verdict in zip(rows, verdicts, strict=True):
            if verdict.correct is not True:
                print(f"  {verdict.outcome}: gold {gold!r}, answer {math_answer(response)!r}")
    return int(below > 0)


if __name__ == "__main__":
    sys.exit(main())
