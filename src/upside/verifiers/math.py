"""`math`: mathematical equality of final answers, decided in worker processes that can be killed.

The order for each row: the gold answer must be readable, else the row is an error and never a reward (a gold that
does not parse once made every response right: tinker-cookbook#335); the final answer is taken from the response
(`upside.verifiers.answers.math_answer`); text, plain numbers and the cache are compared at once; everything else goes
to the pool. docs/verification.md has the rules of equality.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal, cast, get_args

from upside.verifiers.answers import MAX_ANSWER, math_answer
from upside.verifiers.base import Outcome, Verdict
from upside.verifiers.pool import Job, shared_pool
from upside.verifiers.spelling import decide, read, squeezed

OnFailure = Literal["invalid", "wrong"]

CACHE = 200_000  # pairs of gold and answer whose outcome is kept
_LASTING = ("correct", "wrong", "unparsed", "gold")  # a timeout or a crash may be the machine's fault: asked again


class MathVerifier:
    """1 for an answer equal to the gold answer, else 0; a response without a readable answer is "unparsed" and 0.

    timeout: seconds of wall-clock one answer may take (default 1); memory: MiB it may take (default 512).
    workers: processes that compare (default: one a core, at most 8); all verifiers of a process with the same workers
        and memory share them. They start with the first answer that needs one.
    on_failure: what a timeout or a crash makes of a row: "invalid" (score None, kept out of every statistic; default)
        or "wrong" (score 0). The outcome says "timeout" or "error" either way. A row whose gold answer cannot be read
        is always invalid.
    ValueError for an option out of range; ImportError without math-verify.
    """

    name = "math"

    def __init__(
        self,
        timeout: float = 1.0,
        memory: int = 512,
        workers: int | None = None,
        on_failure: OnFailure = "invalid",
    ) -> None:
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= 3600:
            raise ValueError(f"math verifier: timeout={timeout!r} must be a number of seconds above 0, at most 3600")
        if isinstance(memory, bool) or not isinstance(memory, int) or memory < 64:
            raise ValueError(f"math verifier: memory={memory!r} must be a whole number of MiB, at least 64")
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
            raise ValueError(f"math verifier: workers={workers!r} must be a whole number, at least 1, or None")
        if on_failure not in get_args(OnFailure):
            raise ValueError(
                f"math verifier: on_failure={on_failure!r} must be one of {', '.join(get_args(OnFailure))}"
            )
        if importlib.util.find_spec("math_verify") is None:
            raise ImportError("the math verifier needs math-verify: pip install 'upside[train]'")
        self.timeout, self.on_failure = float(timeout), on_failure
        self._pool = shared_pool(workers or default_workers(), memory)
        self._cache: OrderedDict[Job, str] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, golds: Sequence[str], responses: Sequence[str]) -> list[Verdict]:
        if len(golds) != len(responses):
            raise ValueError(f"math verifier: {len(golds)} gold answers for {len(responses)} responses")
        answers = [math_answer(response) for response in responses]
        pairs = [(gold, answer if answer is not None else gold) for gold, answer in zip(golds, answers, strict=True)]
        outcomes = self._outcomes(pairs)
        return [
            self._verdict("unparsed" if answer is None and outcome == "correct" else outcome)
            for outcome, answer in zip(outcomes, answers, strict=True)
        ]

    def usable(self, gold: str) -> bool:
        """Whether the gold answer can be read: by text and number rules at once, else by the parser."""
        return self.usable_batch([gold])[0]

    def usable_batch(self, golds: Sequence[str]) -> list[bool]:
        """`usable` for many golds in one go through the pool."""
        return [outcome == "correct" for outcome in self._outcomes([(gold, gold) for gold in golds])]

    def answer_of(self, response: str) -> str | None:
        """The final answer in the normal form of its number or text, so that votes for `1/2` and `0.50` add up."""
        answer = math_answer(response)
        if answer is None:
            return None
        reading = read(answer)
        if reading.number is not None:
            return f"{reading.number.value}{reading.mark}"
        return (reading.plain.casefold() if reading.prose else squeezed(reading.latex)) or answer

    def processes(self) -> list[int]:
        """Process ids of the running supervisors; empty before the first answer that needed one."""
        return self._pool.processes()

    def _outcomes(self, pairs: list[Job]) -> list[str]:
        known: dict[Job, str] = {}
        asked: list[Job] = []
        for pair in dict.fromkeys(pairs):
            outcome = self._at_once(pair)
            if outcome is None:
                asked.append(pair)
            else:
                known[pair] = outcome
        if asked:
            fresh = dict(zip(asked, self._pool.run(asked, self.timeout), strict=True))
            self._keep(fresh)
            known.update(fresh)
        return [known[pair] for pair in pairs]

    def _at_once(self, pair: Job) -> str | None:
        """The outcome without the pool: from the cache, the text or the numbers."""
        with self._lock:
            if pair in self._cache:
                self._cache.move_to_end(pair)
                return self._cache[pair]
            gold_known = self._cache.get((pair[0], pair[0])) == "correct"
        gold, answer = read(pair[0]), read(pair[1])
        if not gold.latex:
            return "gold"
        if not gold_known and gold.number is None and not gold.prose:
            return None
        same = decide(gold, answer)
        if same is None:
            return None if answer.latex else "unparsed"
        return "correct" if same else "wrong"

    def _keep(self, fresh: dict[Job, str]) -> None:
        with self._lock:
            for (gold, answer), outcome in fresh.items():
                if outcome in _LASTING and len(gold) + len(answer) <= 2 * MAX_ANSWER:
                    self._cache[gold, answer] = outcome
                    if outcome in ("correct", "wrong", "unparsed"):
                        self._cache[gold, gold] = "correct"
            while len(self._cache) > CACHE:
                self._cache.popitem(last=False)

    def _verdict(self, outcome: str) -> Verdict:
        if outcome == "gold":
            return Verdict(None, None, "error")
        if outcome in ("timeout", "error"):
            failure = cast(Outcome, outcome)
            return Verdict(0.0, False, failure) if self.on_failure == "wrong" else Verdict(None, None, failure)
        right = outcome == "correct"
        return Verdict(float(right), right, cast(Outcome, outcome))


def default_workers() -> int:
    """One a core this process may use, at most 8."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 8)
