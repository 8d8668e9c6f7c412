"""`python:module:function`: a task, or rows, of the user's own function."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from upside.tasks.base import Task
from upside.tasks.readers import Row, Source
from upside.tasks.row_options import RowOptions
from upside.tasks.rows import RowTask
from upside.usercode import import_function


def function_task(path: str, options: dict[str, Any]) -> Task:
    """The Task that `module:function` returns, or a task of the rows (mappings) that it returns or yields.

    Options that are parameters of the function go to it; the others say how its rows become problems
    (`upside.tasks.row_options.RowOptions`). Raises ValueError for an unknown option, a missing argument, what the
    function raises, and anything else that it returns.
    """
    spec = f"python:{path}"
    function = import_function(path, f"task {spec!r}", "my_tasks:puzzles")
    own, row_options = _share_out(function, options, spec)
    try:
        made = function(**own)
    except Exception as error:
        raise ValueError(f"task {spec!r} raised {type(error).__name__}: {error}") from error
    if isinstance(made, Task):
        if row_options:
            raise ValueError(f"task {spec!r} returned a Task, which takes no row option; got {sorted(row_options)}")
        return made
    if isinstance(made, str | bytes | Mapping) or not isinstance(made, Iterable):
        raise ValueError(
            f"task {spec!r} returned {type(made).__name__}; return an upside.tasks.Task, or rows: a list or generator "
            f"of mappings"
        )
    source = Source(spec, spec, "row", lambda: _numbered(made, spec))
    task = RowTask(spec, lambda: ([source], []), RowOptions(**row_options))
    task.load()
    return task


def _share_out(
    function: Callable[..., Any], options: dict[str, Any], spec: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(arguments of the function, options of its rows)."""
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    of_rows = [f.name for f in fields(RowOptions)]
    own = {name: value for name, value in options.items() if name in names}
    rest = {name: value for name, value in options.items() if name not in names}
    if any(p.kind == p.VAR_KEYWORD for p in parameters):
        own |= {name: value for name, value in rest.items() if name not in of_rows}
        rest = {name: value for name, value in rest.items() if name in of_rows}
    for name in rest:
        if name not in of_rows:
            near = difflib.get_close_matches(name, [*names, *of_rows], n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join([*names, *of_rows])}"
            raise ValueError(f"task {spec!r} has no option {name!r}; {hint}")
    missing = [p.name for p in parameters if p.name in names and p.default is p.empty and p.name not in own]
    if missing:
        raise ValueError(f"task {spec!r} needs the option{'s'[: len(missing) > 1]} {', '.join(missing)}")
    return own, rest


def _numbered(rows: Iterable[Any], spec: str) -> Iterator[Row]:
    try:
        for number, row in enumerate(rows, start=1):
            if not isinstance(row, Mapping):
                raise ValueError(f"row {number} is {type(row).__name__}, not a mapping of column to value")
            yield number, row
    except Exception as error:
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(f"task {spec!r}: {kind}{error}") from error
