"""How the text of a response is held against a gold answer: `load_verifier` by name.

| name | what |
|---|---|
| `exact` | the same text, or the same plain number |
| `math` | mathematically equal: math-verify and exact rules, in worker processes that can be killed |
| `kk` | knights and knaves: who is what |
| `geometry` | the boxed answer by `math`, with ADORA's scores |
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from typing import Any

from upside.verifiers.base import Outcome, Verdict, Verifier

__all__ = ["VERIFIERS", "Outcome", "Verdict", "Verifier", "load_verifier"]

VERIFIERS = {
    "exact": "upside.verifiers.exact:ExactVerifier",
    "math": "upside.verifiers.math:MathVerifier",
    "kk": "upside.verifiers.kk:KkVerifier",
    "geometry": "upside.verifiers.geometry:GeometryVerifier",
}
"""name -> where its class is; imported when asked for."""


def load_verifier(name: str, **options: Any) -> Verifier:
    """The verifier of that name (see the module's table). ValueError for an unknown name or option."""
    if name not in VERIFIERS:
        near = difflib.get_close_matches(str(name), VERIFIERS, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"unknown verifier {name!r}: {hint}known are {', '.join(VERIFIERS)}")
    module, _, attribute = VERIFIERS[name].partition(":")
    make = getattr(importlib.import_module(module), attribute)
    parameters = inspect.signature(make).parameters
    known = list(parameters)
    passes_on = any(p.kind is p.VAR_KEYWORD for p in parameters.values())  # to another verifier, which checks them
    for option in options:
        if option not in known and not passes_on:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"its options: {', '.join(known) or 'none'}"
            raise ValueError(f"verifier {name!r} has no option {option!r}; {hint}")
    verifier: Verifier = make(**options)
    return verifier
