"""Where prompts and answers come from: `load_task` turns one string into a Task.

| spec | what |
|---|---|
| `reasoner` | the bundled mixture: arithmetic and knights-and-knaves, half and half |
| `arithmetic`, `knights` | one family of it |
| `fewshot_arithmetic` | one-step sums and differences as few-shot plain text, for a base model |
| `reasoning_gym:NAME` | a data set of the reasoning-gym package; options go to its configuration |
| `FILE.jsonl`, `FILE.parquet` | your own problems; options as in `upside.tasks.files.FileTask` |
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from upside.tasks.base import Problem, Split, Task, Verdict, in_test_split

__all__ = ["SPECS", "Problem", "Split", "Task", "Verdict", "in_test_split", "load_task"]

SPECS = ("reasoner", "arithmetic", "knights", "fewshot_arithmetic", "reasoning_gym:NAME", "FILE.jsonl", "FILE.parquet")
_FILE_ENDINGS = (".jsonl", ".parquet")


def load_task(spec: str | Path, **options: Any) -> Task:
    """Return the task that `spec` names (see the module's table), built with `options`.

    Raises ValueError for an unknown spec or option (with the nearest names) and FileNotFoundError for a
    missing file. Packages a source needs are imported only when that source is asked for.
    """
    if not isinstance(spec, str | Path):
        raise ValueError(f"task: expected a name or a file, got {spec!r}; known are {', '.join(SPECS)}")
    spec = str(spec).strip()
    if spec.lower().endswith(_FILE_ENDINGS):
        from upside.tasks.files import FileTask

        return _build(spec, FileTask, spec, **options)
    prefix, colon, name = spec.partition(":")
    if colon and prefix == "reasoning_gym":
        from upside.tasks.gym import GymTask

        return GymTask(name, **options)
    if spec == "arithmetic":
        from upside.tasks.arithmetic import Arithmetic

        return _build(spec, Arithmetic, **options)
    if spec == "fewshot_arithmetic":
        from upside.tasks.fewshot import FewshotArithmetic

        return _build(spec, FewshotArithmetic, **options)
    if spec == "knights":
        from upside.tasks.knights import Knights

        return _build(spec, Knights, **options)
    if spec == "reasoner":
        from upside.tasks.arithmetic import Arithmetic
        from upside.tasks.knights import Knights
        from upside.tasks.mixture import Mixture

        if options:
            raise ValueError(
                f"task 'reasoner' takes no options, got {sorted(options)}; "
                "give them to 'arithmetic' or 'knights' instead"
            )
        return Mixture("reasoner", [Arithmetic(), Knights()])
    near = difflib.get_close_matches(spec, [*SPECS[:4], "reasoning_gym:"], n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    raise ValueError(f"unknown task {spec!r}: {hint}known are {', '.join(SPECS)}")


def _build(spec: str, make: Callable[..., Task], *args: Any, **options: Any) -> Task:
    """Call `make`, turning an option it does not have into a ValueError with the nearest names."""
    known = [p for p in inspect.signature(make).parameters if p not in ("self", "path")]
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=2, cutoff=0.5)
            hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
            options_text = ", ".join(known) or "none"
            raise ValueError(f"task {spec!r} has no option {option!r}: {hint}its options: {options_text}")
    return make(*args, **options)
