"""Data sets of the reasoning-gym package (procedurally generated) as tasks."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import inspect
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from upside.tasks.base import Problem, Split, Verdict, check_request, in_test_split
from upside.verifiers.answers import answer_region, marked_answer

DEFAULT_COUNT = 1000
PATIENCE = 2_000
"""Draws without a new problem of the split after which a data set is taken to be exhausted."""
MAX_ANSWER = 10_000
"""Characters; a longer answer is wrong without being looked at."""

# Scorers that evaluate the response as Python to give part of the credit: here only their exact match counts.
EXACT_ONLY = frozenset({"binary_matrix", "spiral_matrix", "string_insertion", "n_queens"})
# Scorers that hand the response to a symbolic parser: only short sums of small integers reach them.
PLAIN_ARITHMETIC = frozenset({"countdown", "puzzle24"})
_PLAIN = re.compile(r"(?!.*[0-9]{7})(?!.*\* *\*)[-+*/() 0-9]{1,200}")
# The package's own logic parser, and evaluation of the data set's own problem, never of the response.
SAFE = frozenset({"propositional_logic", "number_sorting"})
_EVALUATES = re.compile(r"\b(eval|exec|parse_expr|sympify|parse_latex)\s*\(")


class GymTask:
    """`reasoning_gym:NAME`. Options are fields of the data set's configuration, except `seed` and `size`.

    The id is a hash of the question, and a hash of the id decides the split: whatever the seeds, train and
    test share no problem. A response's answer is its last `<answer>`, box or `####` mark, else the last line
    (all of it when the gold answer has several lines or is missing). The data set's own scorer gives the
    score (partial credit included); `correct` is a score of 1. A scorer that raises, or returns no finite
    number, makes the row invalid (score and correct None).

    Raises ValueError for an unknown name or option (with the nearest), and for a data set whose scorer would
    evaluate the response as code. ImportError when the package is missing.
    """

    def __init__(self, dataset: str, **options: Any) -> None:
        factory = _factory()
        if dataset not in factory.DATASETS or dataset == "composite":
            raise ValueError(f"unknown reasoning-gym data set {dataset!r}{_near(dataset, factory.DATASETS)}")
        self.name = f"reasoning_gym:{dataset}"
        self.dataset = dataset
        self.options = options
        self._class, self._config = factory.DATASETS[dataset]
        self._check_options()
        self._check_scorer()
        self._scorer = self._make(seed=0, size=1)

    def problems(self, split: Split, count: int | None = None, seed: int = 0) -> list[Problem]:
        """`count` distinct problems (default 1000). Raises ValueError when the data set yields fewer."""
        check_request(self.name, split, count)
        wanted = DEFAULT_COUNT if count is None else count
        found: dict[str, Problem] = {}
        chunk, misses = 0, 0
        while len(found) < wanted:
            for entry in self._make(self._seed(split, seed, chunk), size=256):
                problem = self._problem(entry)
                new = problem.id not in found and in_test_split(problem.id) == (split == "test")
                misses = 0 if new else misses + 1
                if new:
                    found[problem.id] = problem
                if len(found) == wanted:
                    break
                if misses > PATIENCE:
                    raise ValueError(
                        f"{self.name}: only {len(found)} distinct {split} problems found, {wanted} asked "
                        f"for; ask for fewer or widen its options ({', '.join(self._option_names())})"
                    )
            chunk += 1
        return list(found.values())

    def verify(self, problem: Problem, response: str) -> Verdict:
        """Score one response with the data set's own scorer, behind the guards named above."""
        answer = self._answer(problem, response)
        if not answer or len(answer) > MAX_ANSWER:
            return Verdict(0.0, False)
        entry = problem.metadata["entry"]
        if self.dataset in EXACT_ONLY:
            accepted = entry["metadata"].get("valid_answers") or [entry["answer"]]
            right = answer in [str(gold).strip() for gold in accepted]
            return Verdict(float(right), right)
        if self.dataset in PLAIN_ARITHMETIC and not _PLAIN.fullmatch(answer):
            return Verdict(0.0, False)
        try:
            score = float(self._scorer.score_answer(answer, entry))
        except Exception:  # the package's scorer failed: no reward could be computed
            return Verdict(None, None)
        return Verdict(score, score >= 1.0) if math.isfinite(score) else Verdict(None, None)

    def answer_of(self, response: str) -> str | None:
        """The final answer a response gives, for majority votes."""
        region = answer_region(response)
        marked = marked_answer(region)
        return marked if marked is not None else region.strip() or None

    def _answer(self, problem: Problem, response: str) -> str:
        region = answer_region(response)
        marked = marked_answer(region)
        if marked is not None:
            return marked
        whole = region.strip()
        one_line = problem.answer and "\n" not in problem.answer
        return whole.splitlines()[-1].strip() if one_line and whole else whole

    def _problem(self, entry: Mapping[str, Any]) -> Problem:
        question = str(entry["question"])
        digest = hashlib.sha256(" ".join(question.split()).encode()).hexdigest()[:16]
        gold = "" if entry["answer"] is None else str(entry["answer"])
        metadata = {"family": self.dataset, "entry": entry}
        return Problem(f"{self.dataset}/{digest}", question, gold, metadata=metadata)

    def _seed(self, split: Split, seed: int, chunk: int) -> int:
        text = f"{self.name}/{split}/{seed}/{chunk}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")

    def _make(self, seed: int, size: int) -> Any:
        try:
            return self._class(self._config(seed=seed, size=size, **self.options))
        except (AssertionError, TypeError, ValueError) as error:
            given = ", ".join(f"{k}={v!r}" for k, v in self.options.items())
            raise ValueError(f"{self.name} does not accept {given or 'its defaults'}: {error}") from error

    def _option_names(self) -> list[str]:
        return [f.name for f in dataclasses.fields(self._config) if f.name not in ("seed", "size")]

    def _check_options(self) -> None:
        for option in self.options:
            if option in ("seed", "size"):
                raise ValueError(f"{self.name}: {option!r} is set by problems(count, seed), not as an option")
            if option not in self._option_names():
                raise ValueError(f"{self.name} has no option {option!r}{_near(option, self._option_names())}")

    def _check_scorer(self) -> None:
        handled = EXACT_ONLY | PLAIN_ARITHMETIC | SAFE
        if self.dataset not in handled and _EVALUATES.search(inspect.getsource(self._class.score_answer)):
            raise ValueError(
                f"{self.name}: its scorer evaluates the response as code, which is never done with model "
                f"output; export the problems to a JSONL file and judge the answers with another reward"
            )


def _factory() -> Any:
    try:
        from reasoning_gym import factory
    except ImportError as error:
        raise ImportError("reasoning_gym: tasks need the package: pip install reasoning-gym") from error
    return factory


def _near(name: str, known: Any) -> str:
    near: Callable[..., list[str]] = difflib.get_close_matches
    names = near(name, list(known), n=3, cutoff=0.5)
    return f": did you mean {', '.join(map(repr, names))}?" if names else f": known are {', '.join(sorted(known))}"
