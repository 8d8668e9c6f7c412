"""Evaluate a model on problems of a task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from upside.evaluation.backends import Backend, in_process
from upside.evaluation.fingerprint import of_problems
from upside.evaluation.generate import batches, seed_of
from upside.evaluation.judging import Judge, Row, Style, Verify
from upside.evaluation.results import Evaluation
from upside.evaluation.sampling import Sampling, as_dict
from upside.tasks.base import Problem, Task
from upside.tasks.prompts import Reader, prompt_ids

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from upside.engines.pictures import Pictures

Progress = Callable[[int, int, int], None]
"""Called after every batch with (responses done, responses in all, tokens of this batch)."""


def evaluate(
    model: PreTrainedModel,
    tokenizer: Reader,
    problems: Sequence[Problem],
    task: Task | Verify,
    *,
    samples: int = 1,
    greedy: bool = False,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
    max_new_tokens: int = 96,
    batch_size: int = 256,
    seed: int = 0,
    progress: Progress | None = None,
    style: Style | None = None,
    backend: str = "upside",
) -> Evaluation:
    """Draw `samples` responses to each problem from a loaded model and judge them with the task (or a function).
    tokenizer: the model's, or its processor where it takes pictures.

    Prompts become tokens as in training (`upside.tasks.prompts`). batch_size counts responses. The sampling has
    random numbers of its own, from `seed`: the same call gives the same responses, and neither the caller's random
    state nor the model's training mode changes. style: names the strategy of a response (default: the task's own
    `style`, if it has one). backend: "upside" or "transformers". Raises ValueError for no problems, ids that repeat,
    and settings out of range.
    """
    sampling = Sampling(samples, greedy, temperature, top_p, top_k, max_new_tokens)
    check_problems(problems)
    engine = in_process(backend, model, tokenizer)
    prompts = [prompt_ids(tokenizer, problem) for problem in problems]
    judge = Judge(task, style)
    rows: dict[str, list[Row]] = {}
    done = 0
    for batch in batches(prompts, samples, batch_size):
        found = respond(
            engine, [problems[i] for i in batch], [prompts[i] for i in batch], judge, sampling, batch_size, seed
        )
        done += len(found)
        for row in found:
            rows.setdefault(row.problem, []).append(row)
        if progress is not None:
            progress(done, len(problems) * samples, sum(row.tokens for row in found))
    settings: dict[str, Any] = {
        "task": getattr(task, "name", getattr(task, "__name__", "verify")),
        "problems_digest": of_problems(problems),
        **as_dict(sampling),
        "batch_size": batch_size,
        "seed": seed,
        "backend": engine.name,
    }
    return Evaluation([row for problem in problems for row in rows[problem.id]], settings)


def check_problems(problems: Sequence[Problem]) -> None:
    """ValueError for no problems and for ids that repeat."""
    if not problems:
        raise ValueError("no problems to evaluate on")
    if len({problem.id for problem in problems}) != len(problems):
        raise ValueError("problem ids repeat; every problem is evaluated once, with `samples` responses")


def respond(
    backend: Backend,
    problems: Sequence[Problem],
    prompts: Sequence[Sequence[int]],
    judge: Judge,
    sampling: Sampling,
    batch_size: int,
    seed: int,
) -> list[Row]:
    """The judged responses to some problems: `sampling.samples` rows each, problem after problem. prompts: token ids
    of each problem. What is drawn depends on the arguments alone, so a batch can be repeated after a kill."""
    asked = [(i, sample) for i in range(len(problems)) for sample in range(sampling.samples)]
    eos = backend.end_ids(judge.task)
    generated: list[list[int]] = []
    for part in _parts(asked, batch_size):
        seeds = [seed_of(seed, problems[i].id, sample) for i, sample in part]
        pictures = _shown(backend, [problems[i] for i, _ in part])
        shown = {} if pictures is None else {"pictures": pictures}  # backends of text alone need not know of any
        generated += backend.generate([prompts[i] for i, _ in part], seeds, eos, sampling, **shown)
    return judge(
        [problems[i] for i, _ in asked],
        [sample for _, sample in asked],
        backend.tokenizer.batch_decode(generated, skip_special_tokens=True),
        [len(ids) for ids in generated],
        [not ids or ids[-1] not in eos for ids in generated],
    )


def _shown(backend: Backend, problems: Sequence[Problem]) -> Pictures | None:
    """The pictures of a batch, loaded now; None of a batch of text."""
    if not any(problem.images for problem in problems):
        return None
    from upside.engines.pictures import Pictures

    return Pictures.of_problems(backend.reader, problems)


def within_context(sampling: Sampling, longest: int, context: int | None) -> Sampling:
    """The sampling with its token limit lowered to what the model has positions for after its longest prompt. Raises
    ValueError when there is no room for a single token."""
    if context is None or longest + sampling.max_new_tokens <= context:
        return sampling
    if longest >= context:
        raise ValueError(
            f"the longest prompt has {longest} tokens, the model has positions for {context}; leave long prompts out "
            f"with max_prompt_tokens (at most {context - 1})"
        )
    return replace(sampling, max_new_tokens=context - longest)


def _parts(asked: list[tuple[int, int]], size: int) -> Iterator[list[tuple[int, int]]]:
    for start in range(0, len(asked), size):
        yield asked[start : start + size]
