"""How good is each estimator's gradient at fixed weights? The call, its settings and its result."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import upside
from upside.analysis.blocks import Section
from upside.analysis.gradients.figures import LEAST_BLOCKS, Figures, figures
from upside.analysis.gradients.moments import Aggregate, moments
from upside.analysis.gradients.sample import Sample
from upside.analysis.gradients.spread import Spread, spread
from upside.analysis.names import read_estimators

if TYPE_CHECKING:
    from rich.console import Console

    from upside.tasks import Split

Estimators = Sequence[str] | Mapping[str, str]
ESTIMATORS = ("reinforce", "rloo", "grpo", "dr_grpo", "opo", "canon_inter", "canon_intra", "adora", "aapo")
SUPPLIED = frozenset({"lengths", "entropy", "correct", "truncated", "valid", "reference_rewards", "baseline"})
"""What a sample of a language model has for the estimators."""
RESULT, PICTURE = "microscope.json", "microscope.png"


@dataclass(frozen=True)
class Microscope:
    """figures: one an estimator and group size. spread: where the noise comes from. settings: what was asked, and what
    was found on the way (tokens, seconds)."""

    figures: list[Figures]
    spread: Spread
    settings: dict[str, Any]

    def __getitem__(self, key: tuple[str, int]) -> Figures:
        """The figures of (estimator, group size)."""
        return next(each for each in self.figures if (each.estimator, each.group_size) == key)

    def sections(self) -> list[Section]:
        """For the console and the page."""
        from upside.analysis.gradients.report import sections

        return sections(self)

    def save(self, folder: Path | str) -> None:
        """Write microscope.json, sections.json and microscope.png into a folder."""
        from upside.analysis.blocks import SECTIONS_FILE, save
        from upside.analysis.gradients.report import charts
        from upside.analysis.show import picture

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        found = {"figures": [dataclasses.asdict(each) for each in self.figures]}
        tree = {"settings": self.settings, "spread": dataclasses.asdict(self.spread), **found}
        (folder / RESULT).write_text(json.dumps(tree, indent=1) + "\n", encoding="utf-8")
        save(self.sections(), folder / SECTIONS_FILE)
        picture(charts(self), folder / PICTURE)


def measure(
    sample: Sample,
    estimators: Estimators = ESTIMATORS,
    group_sizes: Sequence[int] = (2, 4, 8, 16),
    *,
    prompts_per_batch: int = 16,
    aggregate: Aggregate = "sum",
    seed: int = 0,
    step: int = 1,
    total_steps: int | None = None,
) -> list[Figures]:
    """The figures of every estimator at every group size, on shared batches of a sample. estimators: specs, or
    {name: spec}. Raises ValueError for settings that do not fit the sample, and what the estimators raise."""
    named = read_estimators(estimators)
    check(group_sizes, sample.prompts, sample.samples, prompts_per_batch, aggregate)
    found = []
    for size in sorted(group_sizes):
        chains = [upside.estimator(spec) for spec in named.values()]
        parts = moments(
            sample, chains, size, prompts_per_batch, aggregate=aggregate, seed=seed, step=step, total_steps=total_steps
        )
        found += [figures(name, size, part, parts[0]) for name, part in zip(named, parts, strict=True)]
    return found


def divisor(prompts: int, most: int = 16) -> int:
    """The largest number up to `most` that divides the prompts."""
    return next(n for n in range(min(most, prompts), 0, -1) if prompts % n == 0)


def check(group_sizes: Sequence[int], prompts: int, samples: int, prompts_per_batch: int, aggregate: str) -> None:
    """ValueError, naming the setting and the remedy, for what cannot be measured."""
    if not group_sizes or len(set(group_sizes)) < len(group_sizes):
        listed = ", ".join(map(str, group_sizes)) or "none"
        raise ValueError(f"group_sizes: give at least one and none twice, got {listed}")
    if min(group_sizes) < 2:
        raise ValueError(f"group_sizes: a group has at least 2 responses, got {min(group_sizes)}")
    if samples // max(group_sizes) < LEAST_BLOCKS:
        raise ValueError(
            f"samples={samples} makes {samples // max(group_sizes)} blocks of {max(group_sizes)} responses; draw at "
            f"least {LEAST_BLOCKS * max(group_sizes)}, or leave out the largest group size"
        )
    if not 1 <= prompts_per_batch <= prompts or prompts % prompts_per_batch:
        raise ValueError(
            f"prompts_per_batch={prompts_per_batch} does not divide the {prompts} prompts; choose a divisor, such as "
            f"{divisor(prompts)}"
        )
    if aggregate not in get_args(Aggregate):
        raise ValueError(f"aggregate must be one of {', '.join(get_args(Aggregate))}, got {aggregate!r}")


def microscope(
    model: str | Path = "bundled",
    data: str | Path = "reasoner",
    estimators: Estimators = ESTIMATORS,
    group_sizes: Sequence[int] = (2, 4, 8, 16),
    *,
    options: Mapping[str, Any] | None = None,
    split: Split = "train",
    problems: int = 64,
    samples: int = 128,
    prompts_per_batch: int | None = None,
    aggregate: Aggregate = "sum",
    temperature: float = 1.0,
    max_new_tokens: int | None = None,
    max_prompt_tokens: int | None = None,
    projection: int = 8192,
    step: int = 1,
    total_steps: int | None = None,
    batch_size: int = 256,
    seed: int = 0,
    output: str | Path | None = None,
    console: Console | None = None,
) -> Microscope:
    """Compare the gradients of estimators with the policy gradient of the expected reward, at a model's weights.

    model: "bundled", a folder or a hub id. data, options, split, max_prompt_tokens: one set, as in `run_evaluation`.
    problems: prompts of it. samples: responses drawn to each; every block of them is compared with the oracle of all
    the others. prompts_per_batch: prompts of one batch, as in training (None: 16, or the next smaller number that
    divides them). aggregate: how the loss adds up tokens (`moments.Aggregate`). max_new_tokens: default 96 for the
    generated tasks, else 2048. projection: dimensions that a gradient is projected to; as many as the model has
    parameters or more: none. step, total_steps: where in a run it stands, for schedules. output: folder for
    microscope.json, sections.json and microscope.png.

    Raises ValueError for anything out of range before a model is loaded.
    """
    from rich.console import Console
    from transformers.utils import logging

    from upside.analysis.gradients import language
    from upside.evaluation import fingerprint
    from upside.evaluation.backends import load_model
    from upside.evaluation.progress import shown
    from upside.evaluation.sampling import SHORT_TASKS, resolve
    from upside.evaluation.sets import load_sets, prompted
    from upside.models.loading import load_tokenizer

    console = console or Console()
    logging.disable_progress_bar()  # of loading weights
    started, named = time.monotonic(), read_estimators(estimators)
    needs = _needs(named, total_steps)
    if problems < 1:
        raise ValueError(f"problems must be at least 1 prompt, got {problems}")
    if projection < 1:
        raise ValueError(f"projection must be at least 1 dimension, got {projection}")
    sampling = resolve(
        None, short=str(data) in SHORT_TASKS, samples=samples, temperature=temperature, max_new_tokens=max_new_tokens
    )
    chosen = load_sets(data, options or {}, split, problems, seed)[0]
    if any(problem.images for problem in chosen.problems):
        raise ValueError(f"data: {data} has pictures, which are not shown here; give a task of text")
    part = prompted(chosen, load_tokenizer(model), sampling, fingerprint.context_of(model), max_prompt_tokens)
    if prompts_per_batch is None:
        prompts_per_batch = divisor(len(part.prompts))
    check(group_sizes, len(part.prompts), samples, prompts_per_batch, aggregate)
    if output is not None:
        Path(output).mkdir(parents=True, exist_ok=True)  # what cannot be written is said before the work
    loaded, tokenizer = load_model(model)
    sample = language.sample(
        loaded, tokenizer, part, part.sampling,
        needs=needs, projection=projection, batch_size=batch_size, seed=seed, shown=partial(shown, console),
    )  # fmt: skip
    found = measure(
        sample, named, group_sizes,
        prompts_per_batch=prompts_per_batch, aggregate=aggregate, seed=seed, step=step, total_steps=total_steps,
    )  # fmt: skip
    settings = {
        "model": str(model), "data": str(data), "split": split, "problems": len(part.prompts), "samples": samples,
        "group_sizes": list(group_sizes), "estimators": named, "prompts_per_batch": prompts_per_batch,
        "aggregate": aggregate, "temperature": temperature, "max_new_tokens": part.sampling.max_new_tokens,
        "projection": sample.scores.shape[-1], "parameters": sum(p.numel() for p in language.trained(loaded)),
        "projection_error": _projection_error(sample), "seed": seed, "step": step, "total_steps": total_steps,
        "seconds": round(time.monotonic() - started, 1),
    }  # fmt: skip
    result = Microscope(found, spread(sample), settings)
    if output is not None:
        result.save(output)
    return result


def _needs(named: Mapping[str, str], total_steps: int | None) -> frozenset[str]:
    """What the estimators read beside rewards. Raises ValueError for what a fixed model cannot give."""
    given = SUPPLIED | ({"total_steps"} if total_steps else set())
    needs: set[str] = set()
    for name, spec in named.items():
        found = upside.estimator(spec).needs
        if missing := sorted(found - given):
            remedy = "give total_steps" if missing[0] == "total_steps" else "leave the estimator out"
            raise ValueError(f"estimators: {name} needs {missing[0]}, which the microscope does not have; {remedy}")
        needs |= found
    return frozenset(needs)


def _projection_error(sample: Sample) -> float:
    """Root mean square of |projected|^2 / |score|^2 - 1 over the responses."""
    ratio = sample.scores.norm(dim=-1).double().square() / sample.square_norms
    return float((ratio - 1).square().nanmean().sqrt())
