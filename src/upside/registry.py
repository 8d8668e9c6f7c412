"""Names for stages and presets: registration, look-up and options.

A *stage* is one link of the chain: a function `(rollouts, advantages, *, option=...) -> advantages`, or a frozen
dataclass whose fields are its options and whose `__call__(rollouts, advantages)` does the work.
A *preset* is a named chain: a function of options that returns its stages in order.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import math
import re
import threading
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from numbers import Integral, Real
from typing import Any, Literal, TypeVar

Kind = Literal["baseline", "scale", "augment", "weight"]
KINDS: tuple[Kind, ...] = ("baseline", "scale", "augment", "weight")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class StageInfo:
    """What the registry knows about a stage.

    needs: optional Rollouts fields it cannot work without (a stage whose options decide has its own `needs`).
    group_relative: its values only compare responses within a group, so a batch of singletons is a mistake.
    zero_on_constant: it gives exactly 0 to a group of equal rewards (and keeps a 0 that it is handed).
    group_local: a response's value hangs on its own group alone, neither on the rest of the batch nor on the step, so
        that many steps may go through it at once (a stage whose options decide has its own `group_local`).
    why: what it says about its work, see upside.sentences (a stage that is a dataclass has a method of that name).
    """

    name: str
    build: Callable[..., Any]
    kind: Kind
    formula: str = ""
    source: str = ""
    needs: frozenset[str] = frozenset()
    group_relative: bool = False
    zero_on_constant: bool = True
    why: Callable[..., Any] | None = None
    group_local: bool = False

    @property
    def options_of(self) -> Callable[..., Any]:
        return self.build


@dataclass(frozen=True)
class Preset:
    """A named chain with the formula and the source it comes from. options_of: whose signature its options have."""

    name: str
    build: Callable[..., tuple[Any, ...]]
    formula: str
    source: str
    options_of: Callable[..., Any]


STAGES: dict[str, StageInfo] = {}
PRESETS: dict[str, Preset] = {}


def register_stage(
    name: str,
    *,
    kind: Kind = "augment",
    formula: str = "",
    source: str = "",
    needs: Iterable[str] = (),
    group_relative: bool | None = None,
    zero_on_constant: bool | None = None,
    why: Callable[..., Any] | None = None,
    group_local: bool = False,
) -> Callable[[F], F]:
    """Decorator that names a stage. Options are its keyword-only parameters, or the fields of a dataclass.

    kind: "baseline" (rewards -> advantages, stands first and once), "scale", "augment" (adds) or "weight".
    needs: optional Rollouts fields it reads, by name. zero_on_constant (default: all but "augment"), group_local: see
    StageInfo.
    why: a function (seen) -> one clause per response that says what the stage did to it, see upside.sentences.
    Raises ValueError when another stage or preset has the name.
    """
    if not isinstance(name, str):
        raise ValueError('register_stage needs a name: write @upside.register_stage("name")')
    if isinstance(needs, str):
        raise ValueError(f"stage {name!r}: needs is a set of field names: write needs={{{needs!r}}}")
    if kind not in KINDS:
        raise ValueError(f"stage {name!r}: kind must be one of {', '.join(KINDS)}, got {kind!r}")

    def decorate(build: F) -> F:
        _claim(name, build)
        _check_signature(name, build)
        relative = kind == "baseline" if group_relative is None else group_relative
        zero = kind != "augment" if zero_on_constant is None else zero_on_constant
        STAGES[name] = StageInfo(name, build, kind, formula, source, frozenset(needs), relative, zero, why, group_local)
        return build

    return decorate


def register_preset(name: str, *, formula: str, source: str) -> Callable[[F], F]:
    """Decorator that names a chain: a function of keyword options returning its stages in order."""

    def decorate(build: F) -> F:
        _claim(name, build)
        PRESETS[name] = Preset(name, build, formula, source, build)
        return build

    return decorate


def _claim(name: str, build: Callable[..., Any]) -> None:
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ValueError(f"{name!r} is no name for a stage or preset; use letters, digits and underscores")
    if not build.__module__.startswith("upside.estimators."):
        load_builtins()  # so that no newcomer takes a built-in name
    other = STAGES.get(name) or PRESETS.get(name)
    if other is not None and (other.build.__module__, other.build.__qualname__) != (
        build.__module__,
        build.__qualname__,
    ):
        raise ValueError(f"{name!r} is already registered by {other.build.__module__}; choose another name")


def _check_signature(name: str, build: Callable[..., Any]) -> None:
    """A stage that is a function takes the batch and the advantages; an option without `*` before it is unreachable."""
    if isinstance(build, type):
        return
    parameters = inspect.signature(build).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) != 2:
        raise ValueError(
            f"stage {name!r}: expected (rollouts, advantages, *, option=default, …), "
            f"got positional parameters ({', '.join(positional)})"
        )


def options(build: Callable[..., Any]) -> dict[str, Any]:
    """The options of a stage or preset: name -> default."""
    if dataclasses.is_dataclass(build):
        return {f.name: f.default for f in dataclasses.fields(build) if f.init}
    parameters = inspect.signature(build).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def load_builtins() -> None:
    """Import the stages and presets that come with the package (importing them registers them)."""
    import_module("upside.estimators")


_loading = threading.RLock()
_loaded = False


def load_plugins() -> None:
    """Import the built-in stages, then every module named in the entry-point group `upside.stages`; once.

    Raises ImportError naming a plug-in that cannot be loaded.
    """
    global _loaded
    with _loading:  # other threads wait; a plug-in that builds an estimator while it is imported comes in again
        if _loaded:
            return
        _loaded = True
        try:
            load_builtins()
            for plugin in entry_points(group="upside.stages"):
                _load(plugin)
        except BaseException:
            _loaded = False
            raise


def _load(plugin: EntryPoint) -> None:
    try:
        plugin.load()
    except Exception as error:
        owner = f", of {plugin.dist.name} {plugin.dist.version}" if plugin.dist else ""
        raise ImportError(
            f"plug-in {plugin.name!r} ({plugin.value}{owner}) cannot be loaded: {error}; repair or uninstall it"
        ) from error


def presets() -> list[str]:
    """Names of all registered estimators, sorted."""
    load_plugins()
    return sorted(PRESETS)


def look_up(name: str) -> StageInfo | Preset:
    """The preset or stage of that name; ValueError with the nearest names otherwise."""
    load_plugins()
    found = PRESETS.get(name) or STAGES.get(name)
    if found is None:
        raise ValueError(f"unknown estimator or stage {name!r}.{nearest(name, [*PRESETS, *STAGES])}")
    return found


def check_values(owner: str, build: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """ValueError for an option that `build` does not have, or a value that its annotation does not admit."""
    check_options(owner, given, options(build))
    hints = _hints(build)
    for name, value in given.items():
        if name in hints and not _admits(hints[name], value):
            raise ValueError(f"{owner}: option {name}={value!r} must be {_describe(hints[name])}")


def _hints(build: Callable[..., Any]) -> dict[str, Any]:
    """Annotations of the options; none where they name what is imported for type checkers alone."""
    try:
        return typing.get_type_hints(build)
    except NameError:
        return {}


def _admits(hint: Any, value: Any) -> bool:
    """Whether a value fits an annotation made of numbers, strings, literals and unions (others: the stage decides)."""
    origin, choices = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_admits(choice, value) for choice in choices)
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in choices)
    if hint is float:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if hint is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    return isinstance(value, hint) if isinstance(hint, type) else True


def _describe(hint: Any) -> str:
    choices = typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(_describe(choice) for choice in choices)
    if choices:
        return "one of " + ", ".join(map(repr, choices))
    names = {float: "a finite number", int: "a whole number", bool: "true or false", str: "a name", type(None): "none"}
    return names.get(hint, getattr(hint, "__name__", str(hint)))


def check_options(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    known = list(known)
    for option in given:
        if option not in known:
            listed = f" It takes: {', '.join(known)}." if known else " It takes no options."
            raise ValueError(f"{owner} has no option {option!r}.{nearest(option, known, otherwise='')}{listed}")


def nearest(name: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """' Did you mean …?' for the closest known names, else a list of all."""
    known = list(dict.fromkeys(known))
    lower = {k.lower(): k for k in known}
    close = difflib.get_close_matches(name.lower(), lower, n=3, cutoff=0.5)
    if close:
        return f" Did you mean {' or '.join(repr(lower[c]) for c in close)}?"
    return f" Known: {', '.join(sorted(known))}." if otherwise is None else otherwise
