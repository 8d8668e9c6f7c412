"""`python:module:function`: finding a function that the user wrote."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any


def import_function(
    path: str, what: str, example: str = "my_module:my_function", error: type[ValueError] = ValueError
) -> Callable[..., Any]:
    """The function `module:function`, imported as `python my_script.py` would find it: installed modules and the
    working folder.

    what: whose function it is, as an error names it ("reward 'python:m:f'"). Raises `error` for text of another form,
    a module that cannot be imported, or a name that is no function of it (with the nearest one).
    """
    module_name, colon, function_name = path.partition(":")
    if not colon or not module_name or not function_name:
        raise error(f"{what}: write python:module:function, e.g. python:{example}")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as failure:
        raise error(
            f"{what}: importing module {module_name!r} failed ({type(failure).__name__}: {failure}); it "
            f"must be installed or lie in the working folder"
        ) from failure
    function = getattr(module, function_name, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        near = difflib.get_close_matches(function_name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known) or 'none'}"
        raise error(f"{what}: module {module_name!r} has no function {function_name!r}; {hint}")
    found: Callable[..., Any] = function
    return found
