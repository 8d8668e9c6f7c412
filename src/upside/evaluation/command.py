"""What `upside evaluate` does: load the problems and the model, evaluate, keep what is finished, print the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from upside.evaluation import fingerprint
from upside.evaluation.backends import Backend, Choice, choose
from upside.evaluation.generate import batches
from upside.evaluation.journal import Journal
from upside.evaluation.judging import Judge, Row
from upside.evaluation.progress import shown
from upside.evaluation.results import Evaluation, OnFailure
from upside.evaluation.run import respond
from upside.evaluation.sampling import SHORT_TASKS, Sampling, as_dict, resolve
from upside.evaluation.sets import ProblemSet, Prompted, load_sets, named, prompted
from upside.evaluation.suite import FIGURES, RESPONSES, Suite, flat_settings, is_finished
from upside.evaluation.table import describe_paired, describe_suite, verdict
from upside.models.loading import load_config
from upside.tasks import Split
from upside.tasks.prompts import Reader

if TYPE_CHECKING:
    from rich.console import Console


def run_evaluation(
    model: str | Path = "bundled",
    data: str | Path | Sequence[str | Path] = "reasoner",
    *,
    options: Mapping[str, Any] | None = None,
    split: Split = "test",
    problems: int | None = None,
    sampling: str | None = None,
    samples: int | None = None,
    greedy: bool = False,
    temperature: float | None = None,
    top_p: float | None = None,
    top_k: int | None = None,
    max_new_tokens: int | None = None,
    max_prompt_tokens: int | None = None,
    pass_at: Sequence[int] = (),
    on_failure: OnFailure = "exclude",
    batch_size: int | None = None,
    seed: int = 0,
    backend: str = "auto",
    baseline: str | Path | None = None,
    output: str | Path | None = None,
    console: Console | None = None,
) -> Suite:
    """Evaluate a model ("bundled", "bundled_vision", a folder, a hub id) on one or more sets and print the figures.

    data: task specs as `load_task` takes them, `NAME=SPEC` to name one. options: of the tasks, `NAME.key` for one set,
    `key` for all. problems: how many of the split (None: all, and 512 of a task that makes them up; 0: all). sampling:
    a preset (`upside.evaluation.sampling.PRESETS`), in which every explicit setting wins. Prompts over
    `max_prompt_tokens` are left out and counted. pass_at: the k of pass@k (default: powers of two). on_failure: a
    response without a verdict is left out ("exclude") or counts as wrong ("wrong"). batch_size: responses at once
    (default: the backend's). backend: "auto", "upside", "transformers", "vllm" or "vllm:key=value,…"
    (`backends.choose`).

    baseline: another model, answered with the same problems, settings and seeds, or the output folder of a finished
    evaluation; its paired differences are printed below. output: folder for `evaluation.json` and
    `responses.parquet`; finished problems are kept there as they come, so that the same call after a kill goes on
    where it was and ends in the same files. None writes nothing.

    Raises ValueError for anything out of range before a model is loaded, and for a folder of other settings.
    """
    from rich.console import Console

    console = console or Console()
    short = all(spec in SHORT_TASKS for spec in named(data).values())
    chosen = resolve(
        sampling, short=short, samples=samples, greedy=greedy, temperature=temperature, top_p=top_p, top_k=top_k,
        max_new_tokens=max_new_tokens,
    )  # fmt: skip
    _check(chosen, pass_at, on_failure, batch_size)
    answering = choose(backend)
    sets = load_sets(data, options or {}, split, problems, seed)
    if any(problem.images for each in sets for problem in each.problems):
        answering = choose(backend, load_config(model).model_type)
    base = Suite.load(baseline, on_failure) if baseline and is_finished(Path(baseline)) else None
    tokenizer = _tokenizer(model)
    other = _tokenizer(baseline) if baseline is not None and base is None else tokenizer
    preset = f"sampling {sampling}: " if sampling else ""
    _say(console, f"{preset}{chosen}; seed {seed}; backend {answering} ({answering.why})")
    run = _Run(answering, chosen, batch_size or answering.batch_size, seed, tuple(pass_at), on_failure, console)
    parts = run.prepare(model, tokenizer, sets, max_prompt_tokens)
    if baseline is None or base is not None:
        suite = run.evaluate(model, tokenizer, parts, output, base)
    else:
        others = run.prepare(baseline, other, [part.of for part in parts])  # before hours go into the model itself
        suite = run.evaluate(model, tokenizer, parts, output)
        folder = Path(output) / "baseline" if output is not None else None
        base = run.evaluate(baseline, other, others, folder)
    suite = replace(suite, baseline=base)
    _report(console, suite, model, baseline, output)
    return suite


class _Run:
    """One way of answering, for the model and its baseline alike."""

    def __init__(
        self, backend: Choice, sampling: Sampling, batch_size: int, seed: int, pass_at: tuple[int, ...],
        on_failure: OnFailure, console: Console,
    ) -> None:  # fmt: skip
        self.backend, self.sampling, self.batch_size, self.seed = backend, sampling, batch_size, seed
        self.pass_at, self.on_failure, self.console = pass_at, on_failure, console
        self.told: set[str] = set()

    def prepare(
        self, model: str | Path, tokenizer: Reader, sets: Sequence[ProblemSet],
        max_prompt_tokens: int | None = None,
    ) -> list[Prompted]:  # fmt: skip
        """The sets as a model reads them, without the prompts that are too long. Raises ValueError, naming the model,
        where one leaves no room for a response."""
        limits = [fingerprint.context_of(model), self.backend.options.get("max_model_len")]
        context = min((limit for limit in limits if limit), default=None)
        try:
            parts = [prompted(each, tokenizer, self.sampling, context, max_prompt_tokens) for each in sets]
        except ValueError as error:
            raise ValueError(f"{model}: {error}") from error
        for part in parts:
            self._tell(part, model, context)
        return parts

    def evaluate(
        self, model: str | Path, tokenizer: Reader, parts: list[Prompted], output: str | Path | None,
        base: Suite | None = None,
    ) -> Suite:  # fmt: skip
        """The suite of a model. base: a baseline that is there already; where it cannot be compared with, nothing is
        answered."""
        settings = self._settings(model, fingerprint.of_tokenizer(tokenizer), parts)
        if base is not None:
            base.check_sets([part.of.name for part in parts], settings)
        journal = Journal(output, settings) if output is not None else None
        try:
            suite = self._suite(model, parts, settings, journal)
            if journal is not None:
                journal.close(suite)
        finally:
            if journal is not None:
                journal.stop()
        return suite

    def _suite(
        self, model: str | Path, parts: list[Prompted], settings: dict[str, Any], journal: Journal | None
    ) -> Suite:
        if journal is not None:
            settings = journal.settings
        if journal is not None and journal.finished is not None:
            self._say(f"{journal.folder} holds this evaluation, finished")
            rows = {name: each.rows for name, each in journal.finished.evaluations.items()}
        else:
            rows = self._answer(model, parts, journal)
        evaluations = {
            name: Evaluation(found, flat_settings(settings, name), self.on_failure) for name, found in rows.items()
        }
        return Suite(evaluations, settings, self.pass_at)

    def _answer(self, model: str | Path, parts: list[Prompted], journal: Journal | None) -> dict[str, list[Row]]:
        """The rows of every set, problems in their order; batches that the journal has are not done again."""
        known = journal.rows if journal is not None else {}
        if known:
            count = len({(name, row.problem) for (name, _), rows in known.items() for row in rows})
            self._say(f"going on after {count} finished problems in {journal.folder if journal else ''}")
        loaded: Backend | None = None
        found: dict[str, list[Row]] = {}
        for part in parts:
            plan = batches(part.prompts, part.sampling.samples, self.batch_size)
            missing = [i for i in range(len(plan)) if (part.of.name, i) not in known]
            if missing and loaded is None:
                loaded = self.backend.load(model)
            rows = {i: known[part.of.name, i] for i in range(len(plan)) if i not in missing}
            if loaded is not None and missing:
                self._batches(part, plan, missing, loaded, rows, journal)
            by_problem: dict[str, list[Row]] = {}
            for row in (row for i in range(len(plan)) for row in rows[i]):
                by_problem.setdefault(row.problem, []).append(row)
            found[part.of.name] = [row for problem in part.of.problems for row in by_problem[problem.id]]
        return found

    def _batches(
        self, part: Prompted, plan: list[list[int]], missing: list[int], backend: Backend,
        rows: dict[int, list[Row]], journal: Journal | None,
    ) -> None:  # fmt: skip
        """Answers the missing batches of a set and adds them to `rows`."""
        judge = Judge(part.of.task, part.of.style)
        total = len(part.prompts) * part.sampling.samples
        done = sum(map(len, rows.values()))
        with shown(self.console, part.of.name, total, done) as tell:
            for i in missing:
                asked = [part.of.problems[j] for j in plan[i]]
                prompts = [part.prompts[j] for j in plan[i]]
                rows[i] = respond(backend, asked, prompts, judge, part.sampling, self.batch_size, self.seed)
                if journal is not None:
                    journal.append(part.of.name, i, rows[i])
                done += len(rows[i])
                tell(done, total, sum(row.tokens for row in rows[i]))

    def _settings(self, model: str | Path, tokenizer: str, parts: Sequence[Prompted]) -> dict[str, Any]:
        import torch

        return {
            "model": {"name": str(model), "weights": fingerprint.of_model(model), "tokenizer": tokenizer},
            "backend": str(self.backend),
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            "sampling": as_dict(self.sampling),
            "batch_size": self.batch_size,
            "seed": self.seed,
            "sets": {part.of.name: part.settings() for part in parts},
            "versions": fingerprint.versions(),
        }

    def _tell(self, part: Prompted, model: str | Path, context: int | None) -> None:
        name, dropped = part.of.name, part.of.dropped
        if dropped and name not in self.told:
            self.told.add(name)
            self._say(f"{name}: left out {', '.join(f'{count} {reason}' for reason, count in dropped.items())}")
        limit = part.sampling.max_new_tokens
        if limit < self.sampling.max_new_tokens:
            longest = max(map(len, part.prompts))
            self._say(
                f"{part.of.name}: responses end at {limit} tokens; {model} has positions for {context}, the longest "
                f"prompt takes {longest}"
            )

    def _say(self, text: str) -> None:
        _say(self.console, text)


def _tokenizer(model: str | Path) -> Reader:
    from transformers.utils import logging

    from upside.models.loading import load_reader

    logging.disable_progress_bar()  # of loading weights: lines of their own where there is no terminal
    return load_reader(model)


def _check(sampling: Sampling, pass_at: Sequence[int], on_failure: str, batch_size: int | None) -> None:
    for k in pass_at:
        if not 1 <= k <= sampling.samples:
            raise ValueError(
                f"pass@{k} needs at least {k} responses a problem, got samples={sampling.samples}; draw more (-k) or "
                "ask for a smaller k of at least 1"
            )
    if on_failure not in get_args(OnFailure):
        raise ValueError(f"on_failure must be one of {', '.join(get_args(OnFailure))}, got {on_failure!r}")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")


def _report(
    console: Console, suite: Suite, model: str | Path, baseline: str | Path | None, output: str | Path | None
) -> None:
    console.print(describe_suite(suite, str(model)))
    if suite.baseline is not None:
        paired = suite.against()
        console.print(describe_paired(paired, f"{model} against {baseline}"))
        for name, each in paired.items():
            _say(console, f"{name}: {verdict(each.accuracy)}")
    _say(console, "intervals: 95%, clustered by problem; how they are made: docs/evaluation.md")
    if output is not None:
        suite.save(output)  # once more, now that the baseline is there
        _say(console, f"written: {Path(output) / FIGURES}, {Path(output) / RESPONSES}")


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
