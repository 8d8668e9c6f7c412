"""Evaluate a model on problems of a task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from upside.evaluation.generate import Backend, Progress, Sampling, end_ids, generate
from upside.evaluation.results import Evaluation, Row
from upside.tasks.base import Problem, Task, Verdict
from upside.tasks.prompts import prompt_ids
from upside.verifiers.answers import canonical, final_answer

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Verify = Callable[[Problem, str], Verdict]
Style = Callable[[str], str]


def evaluate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    problems: Sequence[Problem],
    task: Task | Verify,
    *,
    samples: int = 1,
    greedy: bool = False,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
    max_new_tokens: int = 96,
    batch_size: int = 128,
    seed: int = 0,
    progress: Progress | None = None,
    style: Style | None = None,
    backend: Backend | None = None,
) -> Evaluation:
    """Draw `samples` responses to each problem and judge them with the task (or a verify function).

    Prompts become tokens as in training (`upside.tasks.prompts`). batch_size counts responses. The sampling has
    random numbers of its own, from `seed`: the same call gives the same responses, and the caller's random state
    is not touched. style: names the strategy of a response (default: the task's own `style`, if it has one).
    Raises ValueError for no problems, ids that repeat, and settings out of range.
    """
    if not problems:
        raise ValueError("no problems to evaluate on")
    if len({problem.id for problem in problems}) != len(problems):
        raise ValueError("problem ids repeat; every problem is evaluated once, with `samples` responses")
    sampling = settings_of(samples, greedy, temperature, top_p, top_k, max_new_tokens, batch_size)
    prompts = [ids for p in problems for ids in [prompt_ids(tokenizer, p)] * samples]
    eos = end_ids(model, tokenizer, task)
    generated = generate(
        model, prompts, eos, sampling, batch_size=batch_size, seed=seed, progress=progress, backend=backend
    )
    texts = tokenizer.batch_decode(generated, skip_special_tokens=True)
    judge = Judge(task, style)
    rows = []
    for index, (ids, text) in enumerate(zip(generated, texts, strict=True)):
        problem = problems[index // samples]
        rows.append(judge(problem, index % samples, text, len(ids), not ids or ids[-1] not in eos))
    settings: dict[str, Any] = {
        "task": getattr(task, "name", getattr(task, "__name__", "verify")),
        "samples": samples,
        "greedy": greedy,
        "temperature": temperature,
        "top_p": top_p,
        "top_k": top_k,
        "max_new_tokens": max_new_tokens,
        "batch_size": batch_size,
        "seed": seed,
    }
    return Evaluation(rows, settings)


def settings_of(
    samples: int, greedy: bool, temperature: float, top_p: float, top_k: int, max_new_tokens: int, batch_size: int
) -> Sampling:
    """How responses are drawn. ValueError for what is out of range."""
    if samples < 1 or (greedy and samples > 1):
        raise ValueError(f"samples must be at least 1, and 1 when greedy, got {samples}")
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    return Sampling(max_new_tokens, greedy, temperature, top_p, top_k)


class Judge:
    """Turns a response into a Row with the task's verdict, final answer and style."""

    def __init__(self, task: Task | Verify, style: Style | None = None) -> None:
        self.verify: Verify = task.verify if isinstance(task, Task) else task
        self.answer_of: Callable[[str], str | None] = getattr(task, "answer_of", final_answer)
        self.style: Style | None = style or getattr(task, "style", None)

    def __call__(self, problem: Problem, sample: int, response: str, tokens: int, truncated: bool) -> Row:
        response = response.encode("utf-8", "replace").decode()  # lone surrogates cannot be written to a file
        try:
            verdict = self.verify(problem, response)
        except Exception as error:
            raise ValueError(
                f"the verifier failed on problem {problem.id!r}, response {response!r:.120}: "
                f"{type(error).__name__}: {error}. It should return Verdict(None, None) for what it cannot judge"
            ) from error
        final = self.answer_of(response)
        return Row(
            problem=problem.id,
            level=problem.level,
            family=str(problem.metadata.get("family", "")),
            sample=sample,
            prompt=problem.prompt,
            gold=problem.answer,
            response=response,
            tokens=tokens,
            truncated=truncated,
            score=verdict.score,
            correct=verdict.correct,
            final=canonical(final) if final else None,
            style=self.style(response) if self.style else None,
        )
