"""Responses become rows: verdict, outcome, final answer, strategy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from upside.tasks.base import Problem, Task, Verdict
from upside.verifiers.answers import canonical, final_answer, to_number

Verify = Callable[[Problem, str], Verdict]
Style = Callable[[str], str]


@dataclass(frozen=True)
class Row:
    """One judged response.

    tokens: generated ids, the end token included. truncated: the token limit came before an end token. score,
    correct: None where no verdict could be reached; outcome says why (`upside.verifiers.base.Outcome`). final: the
    answer read from the response in a normal form, None when it gives none. style: the name of its strategy.
    """

    problem: str
    level: int
    family: str
    sample: int
    prompt: str
    gold: str
    response: str
    tokens: int
    truncated: bool
    score: float | None
    correct: bool | None
    outcome: str | None
    final: str | None
    style: str | None


class Judge:
    """Turns responses into rows with a task's verdicts, a batch at a time so that its verifier may work in parallel.
    task: a Task, or a function (problem, response) -> Verdict. style: default the task's own, if it has one."""

    def __init__(self, task: Task | Verify, style: Style | None = None) -> None:
        self.task = task
        self.answer_of: Callable[[str], str | None] = getattr(task, "answer_of", final_answer)
        self.style: Style | None = style or getattr(task, "style", None)

    def __call__(
        self,
        problems: Sequence[Problem],
        samples: Sequence[int],
        responses: Sequence[str],
        tokens: Sequence[int],
        truncated: Sequence[bool],
    ) -> list[Row]:
        """One row a response; all arguments have one entry a response. Raises ValueError where the verifier fails."""
        texts = [text.encode("utf-8", "replace").decode() for text in responses]  # a file takes no lone surrogates
        verdicts = self._verdicts(problems, texts)
        for problem, verdict in zip(problems, verdicts, strict=True):
            if not isinstance(verdict, Verdict):
                raise ValueError(f"the verifier gave {verdict!r:.60} for problem {problem.id!r}; it must be a Verdict")
        parts = zip(problems, samples, texts, tokens, truncated, verdicts, strict=True)
        return [self._row(*part) for part in parts]

    def _verdicts(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        batch = getattr(self.task, "verify_batch", None)
        if batch is None:
            return [self._verdict(problem, text) for problem, text in zip(problems, texts, strict=True)]
        try:
            verdicts: list[Verdict] = batch(problems, texts)
        except Exception as error:
            raise ValueError(_failure(f"a batch that starts with problem {problems[0].id!r}", error)) from error
        if len(verdicts) != len(texts):
            raise ValueError(f"verify_batch gave {len(verdicts)} verdicts for {len(texts)} responses; give one each")
        return verdicts

    def _verdict(self, problem: Problem, text: str) -> Verdict:
        verify: Verify = self.task.verify if isinstance(self.task, Task) else self.task
        try:
            return verify(problem, text)
        except Exception as error:
            raise ValueError(_failure(f"problem {problem.id!r}, response {text!r:.120}", error)) from error

    def _row(self, problem: Problem, sample: int, text: str, tokens: int, truncated: bool, verdict: Verdict) -> Row:
        final = self.answer_of(text)
        return Row(
            problem=problem.id,
            level=problem.level,
            family=str(problem.metadata.get("family", "")),
            sample=sample,
            prompt=problem.prompt,
            gold=problem.answer,
            response=text,
            tokens=tokens,
            truncated=truncated,
            score=verdict.score,
            correct=verdict.correct,
            outcome=verdict.outcome,
            final=vote(final) if final else None,
            style=self.style(text) if self.style else None,
        )


def vote(answer: str) -> str:
    """The form in which an answer votes: a plain number by its exact value, other text by its spelling."""
    text = canonical(answer)
    number = to_number(text)
    return text if number is None else str(number)


def _failure(where: str, error: Exception) -> str:
    return (
        f"the verifier failed on {where}: {type(error).__name__}: {error}. "
        "It should return Verdict(None, None) for what it cannot judge"
    )
