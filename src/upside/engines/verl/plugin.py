"""Loaded by `import verl` in the driver and in every Ray worker, through the entry point group `verl.plugins`.

verl swallows what a plug-in raises, so what could not be registered is kept in `FAILED`; `upside check verl` shows it.
"""

from __future__ import annotations

import importlib
import os
import traceback
from collections.abc import Callable
from typing import Any

REGISTERED: list[str] = []
"""Names under which verl knows the estimators."""

FAILED: dict[str, str] = {}
"""What could not be registered -> why, with the traceback's last line first."""


def _attempt(what: str, do: Callable[[], Any]) -> Any:
    try:
        return do()
    except Exception as error:
        FAILED[what] = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
        return None


def _estimators() -> list[str]:
    from upside.engines.verl.estimators import register

    return register()


def _cpu() -> None:
    from upside.engines.verl_cpu import install

    install()


if os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu":
    _attempt("CPU platform", _cpu)
REGISTERED += _attempt("estimators", _estimators) or []
_attempt("trainer", lambda: importlib.import_module("upside.engines.verl.trainer"))
