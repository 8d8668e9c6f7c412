"""`exact`: the final answer as text or as an exact number (rules in `upside.verifiers.answers`)."""

from __future__ import annotations

from collections.abc import Sequence

from upside.verifiers.answers import canonical, final_answer, is_right
from upside.verifiers.base import Verdict


class ExactVerifier:
    """1 for the gold answer in another spelling or the same plain number, else 0. A response without any text is
    unparsed; an empty gold answer is an error, with neither score nor correctness."""

    name = "exact"

    def __call__(self, golds: Sequence[str], responses: Sequence[str]) -> list[Verdict]:
        return [self._judge(gold, response) for gold, response in zip(golds, responses, strict=True)]

    def _judge(self, gold: str, response: str) -> Verdict:
        if not self.usable(gold):
            return Verdict(None, None, "error")
        if final_answer(response) is None:
            return Verdict(0.0, False, "unparsed")
        right = is_right(response, gold)
        return Verdict(float(right), right)

    def usable(self, gold: str) -> bool:
        return bool(canonical(gold))

    def answer_of(self, response: str) -> str | None:
        return final_answer(response)
