"""Where prompts and answers come from: `load_task` turns one string into a Task.

| spec | what |
|---|---|
| `reasoner` | the bundled mixture: arithmetic and knights-and-knaves, half and half |
| `arithmetic`, `knights` | one family of it |
| `shapes` | drawn geometry: a picture and a short question, see `upside.tasks.shapes` |
| `fewshot_arithmetic` | one-step sums and differences as few-shot plain text, for a base model |
| `reasoning_gym:NAME` | a data set of the reasoning-gym package; options go to its configuration |
| `gsm8k`, `math500`, `kk`, … | a public data set, see `upside.tasks.presets` |
| `FILE.jsonl`, `.parquet`, `.csv` | your own problems; options as in `upside.tasks.row_options.RowOptions` |
| `hf:OWNER/NAME[:CONFIG][:SPLIT]` | a data set on the hub; the same options and `revision` |
| `python:MODULE:FUNCTION` | your own function: a Task, or rows (the same options) |
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from upside.tasks.base import Problem, Split, Task, Verdict, in_test_split
from upside.tasks.readers import ENDINGS as _FILE_ENDINGS

__all__ = ["SPECS", "Problem", "Split", "Task", "Verdict", "in_test_split", "load_task"]

SPECS = {
    "reasoner": "the bundled mixture: arithmetic and knights, half and half",
    "arithmetic": "multi-step arithmetic, easy to hard",
    "knights": "knights-and-knaves puzzles, easy to hard",
    "fewshot_arithmetic": "one-step sums as few-shot plain text, for a base model",
    "shapes": "drawn geometry with pictures, easy to hard",
    "reasoning_gym:NAME": "a data set of the reasoning-gym package",
    "FILE.jsonl": "your own problems, a JSON object a line",
    "FILE.parquet": "your own problems",
    "FILE.csv": "your own problems, under a header line",
    "hf:OWNER/NAME[:CONFIG][:SPLIT]": "a data set on the hub",
    "python:MODULE:FUNCTION": "your own function: a Task, or rows",
}
"""What `load_task` takes, besides the data sets of `upside.tasks.presets` -> what that is."""
_GENERATED = tuple(SPECS)[:5]


def load_task(spec: str | Path, **options: Any) -> Task:
    """Return the task that `spec` names (see the module's table), built with `options`.

    A file is read at once, the hub when the task's problems are first asked for. Raises ValueError for an unknown
    spec or option (with the nearest names) and FileNotFoundError for a missing file. Packages a source needs are
    imported only when that source is asked for.
    """
    from upside.tasks.presets import find_preset, nearest_preset, preset_options, preset_task

    if not isinstance(spec, str | Path):
        raise ValueError(f"task: expected a name or a file, got {spec!r}; known are {', '.join(SPECS)}")
    spec = str(spec).strip()
    kind, colon, name = spec.partition(":")
    if colon and kind == "reasoning_gym":
        from upside.tasks.gym import GymTask

        return GymTask(name, **options)
    if colon and kind in ("hf", "python"):
        return _rows_or_function(spec, kind, name, options)
    if spec.lower().endswith(_FILE_ENDINGS):
        return _file(spec, options)
    if spec in _GENERATED:
        return _generated(spec, options)
    preset = find_preset(spec)
    if preset is not None:
        _check_options(spec, options, preset_options(preset))
        return preset_task(preset, **options)
    near = difflib.get_close_matches(spec, [*_GENERATED, "reasoning_gym:"], n=2, cutoff=0.5) + nearest_preset(spec)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    raise ValueError(
        f"unknown task {spec!r}: {hint}known are {', '.join(SPECS)} and the data sets that `upside tasks` lists"
    )


def _generated(spec: str, options: dict[str, Any]) -> Task:
    if spec == "arithmetic":
        from upside.tasks.arithmetic import Arithmetic

        return _build(spec, Arithmetic, **options)
    if spec == "fewshot_arithmetic":
        from upside.tasks.fewshot import FewshotArithmetic

        return _build(spec, FewshotArithmetic, **options)
    if spec == "knights":
        from upside.tasks.knights import Knights

        return _build(spec, Knights, **options)
    if spec == "shapes":
        from upside.tasks.shapes import Shapes

        return _build(spec, Shapes, **options)
    from upside.tasks.arithmetic import Arithmetic
    from upside.tasks.knights import Knights
    from upside.tasks.mixture import Mixture

    if options:
        raise ValueError(
            f"task 'reasoner' takes no options, got {sorted(options)}; give them to 'arithmetic' or 'knights' instead"
        )
    return Mixture("reasoner", [Arithmetic(), Knights()])


def _file(spec: str, options: dict[str, Any]) -> Task:
    from upside.tasks.readers import file_source
    from upside.tasks.row_options import RowOptions
    from upside.tasks.rows import RowTask

    _check_options(spec, options, [*_names(RowOptions), "test_path"])
    test_path = options.pop("test_path", None)
    if not isinstance(test_path, str | Path | None):
        raise ValueError(f"test_path must be a file, got {test_path!r}")
    train = [file_source(spec)]
    test = [] if test_path is None else [file_source(test_path)]
    task = RowTask(Path(spec).stem, lambda: (train, test), RowOptions(**options))
    task.load()
    return task


def _rows_or_function(spec: str, kind: str, name: str, options: dict[str, Any]) -> Task:
    from upside.tasks.row_options import RowOptions
    from upside.tasks.rows import RowTask

    if kind == "python":
        from upside.tasks.functions import function_task

        return function_task(name, options)
    from upside.tasks.hub import hub_sources, parse_hub

    _check_options(spec, options, [*_names(RowOptions), "revision"])
    revision = options.pop("revision", None)
    parse_hub(name)  # a spec of another form is an error before anything is fetched
    row_options = RowOptions(**options)
    return RowTask(spec, lambda: hub_sources(name, revision, row_options.pictures), row_options, f"{name} on the hub")


def _names(make: Callable[..., Any]) -> list[str]:
    return [p for p in inspect.signature(make).parameters if p != "self"]


def _check_options(spec: str, options: dict[str, Any], known: list[str]) -> None:
    """ValueError for an option that is not known, with the nearest names."""
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=2, cutoff=0.5)
            hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
            options_text = ", ".join(known) or "none"
            raise ValueError(f"task {spec!r} has no option {option!r}: {hint}its options: {options_text}")


def _build(spec: str, make: Callable[..., Task], **options: Any) -> Task:
    _check_options(spec, options, _names(make))
    return make(**options)
