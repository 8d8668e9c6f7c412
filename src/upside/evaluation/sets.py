"""The sets of problems of an evaluation: from `NAME=SPEC` strings to problems with their prompts as tokens."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from upside.evaluation.fingerprint import digest, of_problems
from upside.evaluation.run import check_problems, within_context
from upside.evaluation.sampling import BUNDLED_TASKS, SHORT_TASKS, Sampling
from upside.tasks import Split, load_task
from upside.tasks.base import Problem, Task
from upside.tasks.prompts import Reader, prompt_ids

GENERATED = 512
"""How many problems of a task that makes them up, where the caller does not say."""

_NAMED = re.compile(r"(\w[\w-]*)=(.+)")


@dataclass(frozen=True)
class ProblemSet:
    """Problems of one task, chosen. dropped: reason -> how many were left out, by the task at load and here."""

    name: str
    spec: str
    options: dict[str, Any]
    split: Split
    task: Task
    problems: list[Problem]
    dropped: dict[str, int]

    @property
    def style(self) -> Any:
        return style_of(self.spec)


@dataclass(frozen=True)
class Prompted:
    """A set with its prompts as token ids of one tokenizer, and the sampling with the limit that its model allows."""

    of: ProblemSet
    prompts: list[list[int]]
    sampling: Sampling

    def settings(self) -> dict[str, Any]:
        """What the set adds to the settings tree of a suite."""
        return {
            "task": self.of.spec,
            "options": self.of.options,
            "split": self.of.split,
            "problems": len(self.of.problems),
            "dropped": self.of.dropped,
            "problems_digest": of_problems(self.of.problems),
            "prompts_digest": digest(self.prompts),
            "token_limit": self.sampling.max_new_tokens,
        }


def named(data: str | Path | Sequence[str | Path]) -> dict[str, str]:
    """{name: spec} of `SPEC` or `NAME=SPEC` strings. The name defaults to the spec, of a file to its stem. Raises
    ValueError for no set and for names that repeat."""
    found: dict[str, str] = {}
    for each in [data] if isinstance(data, str | Path) else data:
        text = str(each)
        match = None if Path(text).exists() else _NAMED.fullmatch(text)
        spec = match[2] if match else text
        name = match[1] if match else Path(spec).stem if Path(spec).is_file() else spec
        if name in found:
            raise ValueError(f"two sets are called {name!r}; tell them apart as {name}_2={spec}")
        found[name] = spec
    if not found:
        raise ValueError("no data to evaluate on; name a task or a file")
    return found


def options_of(names: Sequence[str], options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """{name: options}: `NAME.option` goes to that set, `option` to all. Raises ValueError for a name that is none."""
    found: dict[str, dict[str, Any]] = {name: {} for name in names}
    for key in sorted(options, key=lambda key: "." in key):  # those for one set replace those for all
        name, dot, option = key.rpartition(".")
        if dot and name not in found:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"option {key!r}: there is no set {name!r}; {hint}the sets are {', '.join(names)}")
        for each in [name] if dot else names:
            found[each][option] = options[key]
    return found


def load_sets(
    data: str | Path | Sequence[str | Path],
    options: Mapping[str, Any],
    split: Split,
    count: int | None,
    seed: int,
) -> list[ProblemSet]:
    """The problems of each set in an order fixed by the seed. count: None for all of a data set and GENERATED of a
    task that makes its problems up; 0 for all that a task gives. Raises what `load_task` and the tasks raise."""
    specs = named(data)
    by_name = options_of(list(specs), options)
    sets = []
    for name, spec in specs.items():
        task = load_task(spec, **by_name[name])
        problems = task.problems(split, _count(spec, count), seed)
        elsewhere = "in_test_split" if split == "test" else ""  # rows that the other split lost to this one
        dropped = {reason: n for reason, n in getattr(task, "dropped", {}).items() if n and reason != elsewhere}
        check_problems(problems)
        sets.append(ProblemSet(name, spec, by_name[name], split, task, problems, dropped))
    return sets


def prompted(
    chosen: ProblemSet,
    tokenizer: Reader,
    sampling: Sampling,
    context: int | None,
    max_prompt_tokens: int | None = None,
) -> Prompted:
    """The set as a model reads it, without prompts of more than `max_prompt_tokens` tokens (None: no limit). Raises
    ValueError where none is left, and where a prompt leaves no room for a response."""
    prompts = [prompt_ids(tokenizer, problem) for problem in chosen.problems]
    kept = [i for i, ids in enumerate(prompts) if max_prompt_tokens is None or len(ids) <= max_prompt_tokens]
    if not kept:
        shortest = min(map(len, prompts))
        raise ValueError(
            f"{chosen.name}: every prompt is over max_prompt_tokens={max_prompt_tokens}; the shortest has {shortest}"
        )
    if len(kept) < len(prompts):
        dropped = {**chosen.dropped, "too_long": len(prompts) - len(kept)}
        chosen = replace(chosen, problems=[chosen.problems[i] for i in kept], dropped=dropped)
    prompts = [prompts[i] for i in kept]
    try:
        return Prompted(chosen, prompts, within_context(sampling, max(map(len, prompts)), context))
    except ValueError as error:
        raise ValueError(f"{chosen.name}: {error}") from None


def style_of(spec: str) -> Any:
    """How responses to the bundled tasks are sorted by strategy; None for other tasks."""
    if spec not in BUNDLED_TASKS:
        return None
    from upside.models.tutors import style

    return style


def _count(spec: str, count: int | None) -> int | None:
    if count is None:
        return GENERATED if spec in SHORT_TASKS or spec.startswith("reasoning_gym:") else None
    return count or None
