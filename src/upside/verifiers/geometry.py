"""`geometry`: the last boxed answer, compared by the `math` verifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from upside.verifiers import load_verifier
from upside.verifiers.answers import answer_region, boxed_answer
from upside.verifiers.base import Verdict

RIGHT, WRONG, NO_BOX = 1.0, 0.1, 0.0


class GeometryVerifier:
    """1 for a right boxed answer, 0.1 for a wrong one, 0 without a box that holds anything (ADORA's
    reward_func_math.py, commit c518485). Only what follows the last `</think>` counts.

    options: those of `math`, which compares the boxed answer with the gold. What it could not judge (timeout, error)
    follows its `on_failure`: no score and no correctness, or wrong.
    """

    name = "geometry"

    def __init__(self, **options: Any) -> None:
        self.math = load_verifier("math", **options)

    def __call__(self, golds: Sequence[str], responses: Sequence[str]) -> list[Verdict]:
        boxes = [boxed_answer(answer_region(response)) for response in responses]
        asked = [row for row, box in enumerate(boxes) if box]
        judged = self.math([golds[row] for row in asked], [f"\\boxed{{{boxes[row]}}}" for row in asked])
        verdicts = [Verdict(NO_BOX, False, "unparsed")] * len(boxes)
        for row, verdict in zip(asked, judged, strict=True):
            score = None if verdict.score is None else RIGHT if verdict.correct else WRONG
            verdicts[row] = Verdict(score, verdict.correct, verdict.outcome)
        return verdicts

    def usable(self, gold: str) -> bool:
        return self.math.usable(gold)

    def answer_of(self, response: str) -> str | None:
        return boxed_answer(answer_region(response)) or None
