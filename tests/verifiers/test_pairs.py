"""Answers a careful mathematician has judged: tests/verifiers/pairs.jsonl, one pair a line.

gold, response: as the verifier gets them. verdict: the outcome it must give. kind: what the pair is about. note: why.
disputed: where somebody may see it otherwise, the reason; `verdict` is then what upside does.
"""

import importlib.util
import json
import os
import time
from collections import Counter
from pathlib import Path

import pytest

from upside.verifiers.math import MathVerifier

ROOT = Path(__file__).parents[2]
PAIRS = [json.loads(line) for line in (Path(__file__).parent / "pairs.jsonl").read_text("utf-8").splitlines()]
SAMPLE = [json.loads(line) for line in (ROOT / "tests/data/gold_sample.jsonl").read_text("utf-8").splitlines()]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def verifier():
    return MathVerifier(timeout=10.0, workers=2)


@pytest.fixture(scope="module")
def outcomes(verifier):
    return verifier([pair["gold"] for pair in PAIRS], [pair["response"] for pair in PAIRS])


@pytest.mark.parametrize("kind", list(dict.fromkeys(pair["kind"] for pair in PAIRS)))
def test_pairs(outcomes, kind):
    for pair, verdict in zip(PAIRS, outcomes, strict=True):
        if pair["kind"] == kind:
            assert verdict.outcome == pair["verdict"], pair


def test_the_list_is_what_it_says():
    texts = [(pair["gold"], pair["response"]) for pair in PAIRS]
    assert len(set(texts)) == len(texts) >= 150
    verdicts = Counter(pair["verdict"] for pair in PAIRS)
    assert set(verdicts) == {"correct", "wrong", "unparsed", "error"}
    assert verdicts["wrong"] >= 80
    assert all(pair["disputed"] for pair in PAIRS if "disputed" in pair)
    assert sum("disputed" in pair for pair in PAIRS) <= len(PAIRS) // 20


def test_equality_has_no_direction(verifier):
    """Swapped, the verdict is the same, but where the rules look at the gold answer's form."""
    plain = [
        p for p in PAIRS if p["kind"] in ("surds", "sets and lists", "intervals", "inequalities", "complex numbers")
    ]
    boxed = [
        (p["response"].removeprefix(r"\boxed{")[:-1], rf"\boxed{{{p['gold'].replace('$', '')}}}", p) for p in plain
    ]
    swapped = verifier([gold for gold, _, _ in boxed], [response for _, response, _ in boxed])
    for (_, _, pair), verdict in zip(boxed, swapped, strict=True):
        assert verdict.outcome == pair["verdict"], pair


def test_gold_answers_of_public_sets(verifier):
    """Worked solutions (or the boxed answer) of a sample of GSM8K, MATH-500 and OlympiadBench against their golds."""
    verdicts = verifier([row["gold"] for row in SAMPLE], [row["response"] for row in SAMPLE])
    assert [row for row, verdict in zip(SAMPLE, verdicts, strict=True) if not verdict.correct] == []


def test_another_problems_answer_is_wrong(verifier):
    """Each gold against the answers of the next few problems: the same only where the texts agree on their value."""
    golds = list(dict.fromkeys(row["gold"] for row in SAMPLE))
    pairs = [(gold, golds[(k + step) % len(golds)]) for k, gold in enumerate(golds) for step in (1, 2, 5)]
    verdicts = verifier([gold for gold, _ in pairs], [rf"\boxed{{{other}}}" for _, other in pairs])
    assert [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict.outcome != "wrong"] == []


if os.environ.get("UPSIDE_DATA"):

    def test_gold_answers_of_the_full_sets():
        assert load("gold_check").main() == 0


def test_pathological_answers_cost_their_limit_at_most():
    pairs = load("pathological").pathological()
    assert len(set(pairs)) == 50
    verifier = MathVerifier(timeout=0.3, workers=2)
    verifier([r"\pi"], ["so $x$"])
    start = time.monotonic()
    verdicts = verifier(*zip(*pairs, strict=True))
    assert time.monotonic() - start < 25 * STARVED_SECONDS
    outcomes = Counter(verdict.outcome for verdict in verdicts)
    assert outcomes["correct"] == outcomes["error"] == 0
    assert outcomes["timeout"] >= 10
    assert verifier([r"\sqrt{8}"], [r"$2\sqrt{2}$"])[0].correct


STARVED_SECONDS = 1.0  # 50 answers on two workers, at most three limits each


@pytest.mark.slow
def test_a_thousand_answers_fifty_of_them_pathological_end_by_their_limits():
    """11 s on a quiet machine (benchmarks/pathological.py); without limits a single one of the fifty takes minutes."""
    bench = load("pathological").pathological()
    easy = [(rf"{k}\sqrt{{2}}", rf"\boxed{{\sqrt{{{2 * k * k}}}}}") for k in range(2, 477)]
    easy += [(str(k % 90), f"#### {k % 90}.0") for k in range(475)]
    pairs = [pair for group in zip(*[iter(easy)] * 19, strict=True) for pair in (*group, bench.pop())]
    assert len(pairs) == 1_000
    start = time.monotonic()
    verdicts = MathVerifier(workers=2)(*zip(*pairs, strict=True))
    assert time.monotonic() - start < 150
    assert sum(verdict.correct is True for verdict in verdicts) == 950
