"""Equality of everything that has parts: equations, lists, tuples, sets, intervals, relations, matrices. Runs in the
pool's worker processes only."""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Expr, FiniteSet, Interval, MatrixBase, Set, Symbol, Tuple, Union
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational
from sympy.logic.boolalg import And, Or

from upside.verifiers.scalars import coordinate, exact, library, scalars
from upside.verifiers.spelling import Reading

NOTHING = Reading("")  # of the parts of an answer: braces and connectives were the whole's


def same(g: Any, a: Any, gold: Reading, answer: Reading) -> bool:
    """Whether two symbolic values of any kind are equal."""
    g, a = _last_of_chain(g), _last_of_chain(a)
    if not _is_equation(g) and _is_assignment(a):
        a = _right(a)
    elif _is_assignment(g) and not _is_equation(a):
        g = _right(g)
    if _is_relation(g) or _is_relation(a) or _relations(g) or _relations(a):
        return _same_relations(g, a, gold, answer)
    if isinstance(g, MatrixBase) or isinstance(a, MatrixBase):
        return _same_matrices(g, a)
    if _listed(g) is not None or _listed(a) is not None:
        return _same_lists(g, a, gold, answer)
    if isinstance(g, Set) or isinstance(a, Set):
        return isinstance(g, Set) and isinstance(a, Set) and _same_sets(g, a)
    if isinstance(g, Expr) and isinstance(a, Expr):
        return scalars(g, a)
    return library(g, a)


# equations


def _is_equation(value: Any) -> bool:
    return isinstance(value, sympy.Eq)


def _is_assignment(value: Any) -> bool:
    """`x = ...`, `f(x) = ...`, `3 + 2 = 5`: what counts is on the right. `6 = 5` is none."""
    if not _is_equation(value):
        return False
    left, right = value.lhs, value.rhs
    if isinstance(left, Expr) and left.is_number:
        return isinstance(right, Expr) and bool(right.is_number) and scalars(left, right)
    function = left.base if left.is_Pow else left  # f^{-1}(x)
    return bool(left.is_Symbol) or isinstance(function, AppliedUndef)


def _right(value: Any) -> Any:
    return value.rhs


def _last_of_chain(value: Any) -> Any:
    """`x = 2/4 = 1/2` -> `x = 1/2`, `5 = x` -> `x = 5`."""
    parts = _parts(value) if isinstance(value, And) else ()
    if parts and all(_is_equation(part) for part in parts):
        value = sympy.Eq(parts[0].lhs, parts[-1].rhs, evaluate=False)
    if _is_equation(value) and value.rhs.is_Symbol and not value.lhs.is_Symbol:
        return sympy.Eq(value.rhs, value.lhs, evaluate=False)
    return value


def _parts(value: Any) -> tuple[Any, ...]:
    return tuple(getattr(value, "_unsorted_args", value.args))


# lists and sets


def _listed(value: Any) -> list[Any] | None:
    """The elements of a list, a tuple or a finite set in the order written; None for all else."""
    if isinstance(value, Tuple):
        return list(value.args)
    if isinstance(value, FiniteSet):
        items: list[Any] = []
        for part in _parts(value):
            inner = _listed(_right(part) if _is_equation(part) and isinstance(part.rhs, FiniteSet) else part)
            items += [part] if inner is None or isinstance(part, Tuple) else inner
        return items
    return None


def _pair(value: Any) -> list[Any] | None:
    """`(1, 2)` reads as an open interval and as a pair."""
    if isinstance(value, Interval) and value.left_open and value.right_open:
        return [value.start, value.end]
    return None


def _same_lists(g: Any, a: Any, gold: Reading, answer: Reading) -> bool:
    """Tuples in order, sets and loose lists in any order. A loose list in the right order is a tuple."""
    x, y = _listed(g) or _pair(g), _listed(a) or _pair(a)
    if x is None and y is not None and not isinstance(g, Set):
        x = [g]
    if y is None and x is not None and not isinstance(a, Set):
        y = [a]
    if x is None or y is None:
        return isinstance(g, Set) and isinstance(a, Set) and _same_sets(g, a)
    ordered = [not isinstance(value, FiniteSet) and len(items) > 1 for value, items in ((g, x), (a, y))]
    braces = [reading.latex.startswith(r"\{") for reading in (gold, answer)]
    if any(ordered) and any(braces):
        return False
    if len(x) == len(y) and all(same(p, q, NOTHING, NOTHING) for p, q in zip(x, y, strict=True)):
        return True
    if any(ordered):
        return False
    x, y = (
        _distinct(items) if any(braces) or reading.connective == "or" else items
        for items, reading in ((x, gold), (y, answer))
    )
    return _same_collections(x, y)


def _distinct(items: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for item in items:
        if not any(same(item, other, NOTHING, NOTHING) for other in kept):
            kept.append(item)
    return kept


def _same_collections(x: list[Any], y: list[Any]) -> bool:
    left = list(y)
    for item in x:
        match = next((k for k, other in enumerate(left) if same(item, other, NOTHING, NOTHING)), None)
        if match is None:
            return False
        del left[match]
    return not left


def _same_sets(g: Set, a: Set) -> bool:
    if g == a:
        return True
    if isinstance(g, Interval) and isinstance(a, Interval):
        ends = g.left_open == a.left_open and g.right_open == a.right_open
        return ends and scalars(g.start, a.start) and scalars(g.end, a.end)
    if isinstance(g, Union) and isinstance(a, Union) and len(g.args) == len(a.args):
        left = list(a.args)
        for part in g.args:
            match = next((k for k, other in enumerate(left) if _same_parts(part, other)), None)
            if match is None:
                return False
            del left[match]
        return True
    try:
        return bool(g.symmetric_difference(a).is_empty)
    except (TypeError, ValueError, NotImplementedError):
        return False


def _same_parts(g: Set, a: Set) -> bool:
    if isinstance(g, FiniteSet) and isinstance(a, FiniteSet):
        return _same_collections(list(g.args), list(a.args))
    return type(g) is type(a) and _same_sets(g, a)


# relations


def _is_relation(value: Any) -> bool:
    return isinstance(value, (Relational, And, Or))


def _relations(value: Any) -> bool:
    """A list in which an inequality stands."""
    items = _listed(value) if isinstance(value, FiniteSet) else None
    return bool(items) and all(_is_relation(item) and not _is_equation(item) for item in items or [])


def _same_relations(g: Any, a: Any, gold: Reading, answer: Reading) -> bool:
    if _is_equation(g) and _is_equation(a):
        return _same_equations(g, a, gold, answer)
    if _is_equation(g) or _is_equation(a):
        return False
    try:
        x, y = _solution_set(g, gold), _solution_set(a, answer)
    except (TypeError, ValueError, NotImplementedError, AttributeError):
        x = y = None
    if x is not None and y is not None:
        named = [v.free_symbols for v in (g, a) if not isinstance(v, Set) or _relations(v)]
        return (len(named) < 2 or named[0] == named[1]) and _same_sets(x, y)
    return _same_collections(_conditions(g), _conditions(a)) if _several(g, a) else _same_condition(g, a)


def _several(g: Any, a: Any) -> bool:
    return len(_conditions(g)) > 1 or len(_conditions(a)) > 1


def _conditions(value: Any) -> list[Any]:
    if isinstance(value, And):
        return list(_parts(value))
    return (_listed(value) or []) if isinstance(value, FiniteSet) else [value]


def _solution_set(value: Any, reading: Reading) -> Set | None:
    """The set of numbers that satisfy relations in one variable; a set is its own; None for all else."""
    if isinstance(value, Set) and not _relations(value):
        return value
    free = value.free_symbols
    if len(free) != 1:
        return None
    real = Symbol("x", real=True)
    parts = [exact(part).xreplace({next(iter(free)): real}) for part in _conditions(value)]
    sets = [part.as_set() for part in parts]
    both = sympy.Intersection(*sets)
    if isinstance(value, FiniteSet) and (reading.connective == "or" or (not reading.connective and both.is_empty)):
        return Union(*sets)
    return both


def _same_condition(g: Any, a: Any) -> bool:
    """Inequalities in several variables: the same up to a positive factor and the side things stand on."""
    if not isinstance(g, Relational) or not isinstance(a, Relational):
        return False
    if isinstance(g, sympy.Ne) or isinstance(a, sympy.Ne):
        return type(g) is type(a) and _constant_ratio(g.lhs - g.rhs, a.lhs - a.rhs) is not None
    strict = [isinstance(r, (sympy.StrictLessThan, sympy.StrictGreaterThan)) for r in (g, a)]
    ratio = _constant_ratio(g.gts - g.lts, a.gts - a.lts)
    return strict[0] == strict[1] and ratio is not None and bool(ratio > 0)


def _same_equations(g: Any, a: Any, gold: Reading, answer: Reading) -> bool:
    if _is_assignment(g) and _is_assignment(a) and g.lhs == a.lhs:
        return same(g.rhs, a.rhs, gold, answer)
    sides = (g.lhs, g.rhs, a.lhs, a.rhs)
    if not all(isinstance(side, Expr) for side in sides):
        return same(g.lhs, a.lhs, gold, answer) and same(g.rhs, a.rhs, gold, answer)
    return _constant_ratio(g.lhs - g.rhs, a.lhs - a.rhs) is not None


def _constant_ratio(g: Expr, a: Expr) -> Expr | None:
    """The constant c with g = c a, or None."""
    free = sorted(g.free_symbols | a.free_symbols, key=str)
    point = {symbol: coordinate(0, k) for k, symbol in enumerate(free)}
    top, bottom = exact(g).xreplace(point).doit(), exact(a).xreplace(point).doit()
    if sympy.N(bottom) == 0 or sympy.N(top) == 0:
        return None
    ratio = top / bottom
    return sympy.N(ratio) if ratio.is_number and scalars(g, ratio * a) else None


# matrices


def _same_matrices(g: Any, a: Any) -> bool:
    if not isinstance(g, MatrixBase) or not isinstance(a, MatrixBase):
        g, a = (value.doit() if isinstance(value, sympy.MatrixExpr) else value for value in (g, a))
    if not isinstance(g, MatrixBase) or not isinstance(a, MatrixBase) or g.shape != a.shape:
        return False
    return all(same(p, q, NOTHING, NOTHING) for p, q in zip(g.flat(), a.flat(), strict=True))
