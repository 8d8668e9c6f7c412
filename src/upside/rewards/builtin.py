"""The rewards that come with the package: verdict, overlong, format."""

from __future__ import annotations

import re
from typing import Literal

from upside.rewards.base import Completions, RewardError, Scores
from upside.tasks.base import Task, judge
from upside.verifiers.answers import marked_answer

Answer = Literal["any", "boxed", "tag", "hash"]
Think = Literal["optional", "required", "none", "opened"]


class VerdictReward:
    """`verdict`: the task's own score of each response, with its correctness."""

    name = "verdict"
    judges = True

    def __init__(self, task: Task) -> None:
        self.task = task

    def __call__(self, completions: Completions) -> Scores:
        """Raises RewardError naming task, row and problem when the task's verifier raises."""
        try:
            verdicts = judge(self.task, completions.problems, completions.responses)
        except Exception as error:
            raise self._failure(completions, error) from error
        return Scores([v.score for v in verdicts], [v.correct for v in verdicts], [v.outcome for v in verdicts])

    def _failure(self, completions: Completions, error: Exception) -> RewardError:
        where = f"a batch of {len(completions)}, though on no single row of it"
        for row, (problem, response) in enumerate(zip(completions.problems, completions.responses, strict=True)):
            try:
                judge(self.task, [problem], [response])
            except Exception as alone:
                error = alone
                where = f"row {row} (problem {problem.id!r})"
                break
        return RewardError(
            f"reward 'verdict': task {self.task.name!r} failed on {where}: {type(error).__name__}: {error}. A "
            f"verifier returns Verdict(None, None) for a response it cannot judge; it does not raise"
        )


class OverlongReward:
    """`overlong`: DAPO's soft overlong punishment (arXiv 2503.14476, equation 13), in tokens.

        0                                      length <= max_length - cache
        (max_length - cache - length) / cache  in between: falls from 0 to -1
        -1                                     length >= max_length

    max_length: the token limit of a response; cache: width of the soft zone, 1..max_length.
    """

    name = "overlong"
    judges = False

    def __init__(self, max_length: int, cache: int) -> None:
        for option, tokens in (("max_length", max_length), ("cache", cache)):
            if isinstance(tokens, bool) or not isinstance(tokens, int):
                raise RewardError(f"reward 'overlong': {option} must be a whole number of tokens, got {tokens!r}")
        if not 1 <= cache <= max_length:
            raise RewardError(f"reward 'overlong': cache must be in 1..max_length={max_length} tokens, got {cache}")
        self.max_length, self.cache = max_length, cache

    def __call__(self, completions: Completions) -> Scores:
        free = self.max_length - self.cache
        return Scores([max(-1.0, min(0.0, (free - length) / self.cache)) for length in completions.lengths])


_MARKS = {
    "boxed": re.compile(r"\\(?:boxed|fbox)\s*\{"),
    "tag": re.compile(r"<answer>"),
    "hash": re.compile(r"#+"),
}
_ANY_TAG = re.compile(r"</?think>")


class FormatReward:
    """`format`: 1.0 for a well-formed response, else 0.0. Well-formed means

    - exactly one final answer that is not blank: a `\\boxed{}`, an `<answer></answer>` or text after a run of
      `#`. `answer` says which of them ("boxed", "tag", "hash"; default "any", still one in all);
    - think tags: none, or exactly one `<think>`, text that is not blank, `</think>`, in this order at the start,
      and the answer after them (`think="optional"`, default). "required" demands them, "none" forbids them,
      "opened" is for chat templates that write `<think>` themselves: the response only closes it.
    """

    name = "format"
    judges = False

    def __init__(self, answer: Answer = "any", think: Think = "optional") -> None:
        if answer not in ("any", *_MARKS):
            raise RewardError(f"reward 'format': answer must be any, boxed, tag or hash, got {answer!r}")
        if think not in ("optional", "required", "none", "opened"):
            raise RewardError(f"reward 'format': think must be optional, required, none or opened, got {think!r}")
        self.answer, self.think = answer, think

    def __call__(self, completions: Completions) -> Scores:
        return Scores([float(self.well_formed(response)) for response in completions.responses])

    def well_formed(self, response: str) -> bool:
        """Whether one response keeps the rules."""
        text = "<think>" + response if self.think == "opened" else response
        tags = _ANY_TAG.findall(text)
        if tags or self.think in ("required", "opened"):
            if self.think == "none" or tags != ["<think>", "</think>"]:
                return False
            before, _, rest = text.partition("<think>")
            thought, _, text = rest.partition("</think>")
            if before.strip() or not thought.strip():
                return False
            if self._marks(thought):
                return False
        return self._one_answer(text)

    def _marks(self, text: str) -> list[tuple[str, int]]:
        kinds = _MARKS if self.answer == "any" else {self.answer: _MARKS[self.answer]}
        return [(kind, match.end()) for kind, pattern in kinds.items() for match in pattern.finditer(text)]

    def _one_answer(self, text: str) -> bool:
        marks = self._marks(text)
        if len(marks) != 1:
            return False
        kind, start = marks[0]
        if kind == "tag":
            content, closing, rest = text[start:].partition("</answer>")
            return bool(closing and content.strip()) and "</answer>" not in rest
        return bool(marked_answer(text) if kind == "boxed" else text[start:].strip())
