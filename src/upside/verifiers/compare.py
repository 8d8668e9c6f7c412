"""Whether two answers are mathematically the same. Runs in the pool's worker processes only: parsing and algebra of
untrusted text have no bound of their own. The parser is math-verify's (latex2sympy2-extended), so is the last word on
kinds not treated here; numbers, functions, lists, intervals, relations and matrices are compared here, exactly:
math-verify takes two constants closer than 1e-15 for equal (1/2^99 and 1/2^98) and pairs sets after sorting.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import sympy
from latex2sympy2_extended import latex2sympy
from latex2sympy2_extended.latex2sympy2 import NormalizationConfig, normalize_latex
from math_verify import verify
from sympy import Expr, FiniteSet, I, Interval, MatrixBase, Rational, S, Set, Symbol, Tuple, Union
from sympy.core.relational import Relational
from sympy.logic.boolalg import And, Or

from upside.verifiers.numerals import GOLD_DIGITS, SURE_DIGITS, stands_for, terminates
from upside.verifiers.spelling import Reading, decide, read

logging.disable(logging.CRITICAL)

DIGITS = 60  # of evaluation; constants that agree in DIGITS - 10 of them are equal
POINTS = 5  # at which functions are compared; in the first three all variables are positive
_NORMAL = NormalizationConfig(units=False, malformed_operators=True, nits=False, boxed="none")
_WARM = (
    r"\frac{\sqrt{3}}{2}+\pi", r"x^2-2x+1", r"(1,2]\cup[3,\infty)", r"\{1,2\}", "1,2", "x=5", "1<x<2", r"-3\sqrt[3]{2}",
    r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\sin(2x)", r"\log_2 8", "(3,\\frac{\\pi}{2})", "5!", r"2e^{-3t}", r"\binom{5}{2}", "|x|",
)  # fmt: skip


@dataclass(frozen=True)
class Parsed:
    """A reading with its symbolic value (None for prose)."""

    reading: Reading
    value: Any


def check(gold: str, answer: str) -> str:
    """ "correct", "wrong", "unparsed" (the answer cannot be read) or "gold" (the gold answer cannot)."""
    expected = parsed(gold)
    if expected is None:
        return "gold"
    reading = read(answer)
    decided = decide(expected.reading, reading)
    if decided is None:
        given = parsed(answer)
        if given is None:
            return "unparsed"
        decided = _marked(expected, given)
    return "correct" if decided else "wrong"


def warm_up() -> None:
    """Fill the parser's and the libraries' caches before the first fork: a child starts at full speed."""
    for text in _WARM:
        check(text, text + " ")
        check(text, "7+" + text)


@lru_cache(maxsize=2048)
def parsed(text: str) -> Parsed | None:
    """The answer with its symbolic value, or None when it cannot be read."""
    reading = read(text)
    if reading.prose:
        return Parsed(reading, None)
    if reading.number is not None:
        return Parsed(reading, Rational(reading.number.value.numerator, reading.number.value.denominator))
    if not reading.latex:
        return None
    try:
        value = latex2sympy(normalize_latex(reading.latex, _NORMAL), is_real=True, normalization_config=None)
    except MemoryError:
        raise
    except Exception:  # whatever the grammar and its actions raise, the text is none of the language
        return None
    return Parsed(reading, _plain_symbols(value)) if _is_value(value) else None


def _is_value(value: Any) -> bool:
    return isinstance(value, (sympy.Basic, MatrixBase)) and not (isinstance(value, Expr) and value.has(S.NaN))


def _plain_symbols(value: Any) -> Any:
    """Symbols without assumptions (the parser's depend on the text around them); `i` is the imaginary unit."""
    new = {s: I if s.name == "i" else Symbol(s.name) for s in value.atoms(Symbol)}
    return value.xreplace(new)


def _marked(gold: Parsed, answer: Parsed) -> bool:
    """Equality with a percent or degree sign on one side read or ignored."""
    g, a = gold.value, answer.value
    if same(g, a, gold.reading, answer.reading):
        return True
    marks = (gold.reading.mark, answer.reading.mark)
    if marks[0] == marks[1] or not isinstance(g, Expr) or not isinstance(a, Expr):
        return False
    for mark, factor in (("%", Rational(1, 100)), ("°", sympy.pi / 180)):
        if mark in marks:
            g, a = (g * factor, a) if marks[0] == mark else (g, a * factor)
    return scalars(g, a)


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
        return _same_matrices(g, a, gold, answer)
    if _listed(g) is not None or _listed(a) is not None:
        return _same_lists(g, a, gold, answer)
    if isinstance(g, Set) or isinstance(a, Set):
        return isinstance(g, Set) and isinstance(a, Set) and _same_sets(g, a)
    if isinstance(g, Expr) and isinstance(a, Expr):
        return scalars(g, a)
    return _library(g, a)


def _library(g: Any, a: Any) -> bool:
    return bool(verify(g, a, timeout_seconds=None))


# equations


def _is_equation(value: Any) -> bool:
    return isinstance(value, sympy.Eq)


def _is_assignment(value: Any) -> bool:
    """`x = ...`, `f(x) = ...`, `3 + 2 = ...`: what counts is on the right."""
    if not _is_equation(value):
        return False
    left = value.lhs
    return left.is_Symbol or isinstance(left, sympy.core.function.AppliedUndef) or (left.is_number and value.rhs.is_number)


def _right(value: Any) -> Any:
    return value.rhs


def _last_of_chain(value: Any) -> Any:
    """`x = 2/4 = 1/2` -> `x = 1/2`."""
    parts = _parts(value) if isinstance(value, And) else ()
    if parts and all(_is_equation(part) for part in parts):
        return sympy.Eq(parts[0].lhs, parts[-1].rhs, evaluate=False)
    return value


def _parts(value: Any) -> tuple[Any, ...]:
    return tuple(getattr(value, "_unsorted_args", value.args))


# numbers and functions


def scalars(g: Expr, a: Expr) -> bool:
    """Equality of two expressions: constants by 50 digits (rationals exactly), functions by their values."""
    if g == a:
        return True
    g, a = _evaluated(g), _evaluated(a)
    if g == a:
        return True
    free = sorted(g.free_symbols | a.free_symbols, key=str)
    if not free:
        return _same_constants(g, a)
    if (g.atoms(sympy.core.function.AppliedUndef) | a.atoms(sympy.core.function.AppliedUndef)):
        return _library(g, a)
    return _same_functions(g, a, free)


def _evaluated(value: Expr) -> Expr:
    return value.doit() if value.args else value


def _exact(value: Expr) -> Expr:
    """Decimals as the fractions they are written as."""
    return value.xreplace({f: Rational(str(f)) for f in value.atoms(sympy.Float)})


def _same_constants(g: Expr, a: Expr) -> bool:
    if g.is_infinite or a.is_infinite:
        return False  # equal ones were found
    exact_g, exact_a = _evaluated(_exact(g)), _evaluated(_exact(a))
    if exact_g.is_Rational and exact_a.is_Rational:
        return exact_g == exact_a or _approximates(g, a, exact_g, exact_a)
    return _near(exact_g, exact_a) or _approximates(g, a, exact_g, exact_a)


def _near(g: Expr, a: Expr) -> bool:
    """Agreement in DIGITS - 10 digits, measured by the larger side or, for a zero, by what cancels in the other."""
    x, y = sympy.N(g, DIGITS), sympy.N(a, DIGITS)
    if not (x.is_number and y.is_number) or x.has(S.NaN, S.ComplexInfinity) or y.has(S.NaN, S.ComplexInfinity):
        return False
    gap = abs(sympy.N(x - y, DIGITS))
    scale = max(_size(g, x), _size(a, y))
    return bool(gap <= scale * sympy.Float(10) ** (10 - DIGITS))


def _size(value: Expr, number: Expr) -> Expr:
    if value.is_Add:
        return max(abs(sympy.N(part, 15)) for part in value.args)
    return abs(number)


def _approximates(g: Expr, a: Expr, exact_g: Expr, exact_a: Expr) -> bool:
    """A decimal for a value no decimal can write, see `numerals.stands_for`."""
    for decimal, value, digits in ((a, exact_g, SURE_DIGITS), (g, exact_a, GOLD_DIGITS)):
        if decimal.is_Float and value.is_real:
            if value.is_Rational and terminates(Fraction(int(value.p), int(value.q))):
                continue
            written = Fraction(str(decimal))
            places = len(str(decimal).partition(".")[2].rstrip("0").partition("e")[0])
            if stands_for(written, places, Fraction(str(sympy.N(value, DIGITS))), digits):
                return True
    return False


def _same_functions(g: Expr, a: Expr, free: list[Symbol]) -> bool:
    """The same value at POINTS points where both are defined. Two formulas that differ anywhere else differ there,
    but for a set of points of measure zero."""
    g, a = _exact(g), _exact(a)
    compared = 0
    for point in range(POINTS):
        values = {symbol: _coordinate(point, k) for k, symbol in enumerate(free)}
        x, y = g.xreplace(values), a.xreplace(values)
        try:
            numbers = [sympy.N(x, DIGITS), sympy.N(y, DIGITS)]
        except (TypeError, ValueError, ArithmeticError):
            continue
        if all(n.is_number and not n.has(S.NaN, S.ComplexInfinity, S.Infinity, S.NegativeInfinity) for n in numbers):
            if not _near(x, y):
                return False
            compared += 1
    return compared >= 2 or (compared == 0 and _library(g, a))


def _coordinate(point: int, k: int) -> Rational:
    """Fixed rationals, no two related; positive for the first three points."""
    value = Rational(sympy.prime(12 + 5 * point + 3 * k), sympy.prime(7 + 2 * point + k))
    return -value if point >= 3 and (point + k) % 2 else value


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
    if len(x) == len(y) and all(same(p, q, gold, answer) for p, q in zip(x, y, strict=True)):
        return True
    if any(ordered):
        return False
    return _same_collections(_distinct(x, gold), _distinct(y, answer), gold, answer)


def _distinct(items: list[Any], reading: Reading) -> list[Any]:
    kept: list[Any] = []
    for item in items:
        if not any(same(item, other, reading, reading) for other in kept):
            kept.append(item)
    return kept


def _same_collections(x: list[Any], y: list[Any], gold: Reading, answer: Reading) -> bool:
    left = list(y)
    for item in x:
        match = next((k for k, other in enumerate(left) if same(item, other, gold, answer)), None)
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
        return _same_collections(list(g.args), list(a.args), Reading(""), Reading(""))
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
    return _same_collections(_conditions(g), _conditions(a), gold, answer) if _several(g, a) else _same_condition(g, a)


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
    parts = [_exact(part).xreplace({next(iter(free)): real}) for part in _conditions(value)]
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
    point = {symbol: _coordinate(0, k) for k, symbol in enumerate(free)}
    top, bottom = _exact(g).xreplace(point).doit(), _exact(a).xreplace(point).doit()
    if sympy.N(bottom) == 0 or sympy.N(top) == 0:
        return None
    ratio = top / bottom
    return sympy.N(ratio) if ratio.is_number and scalars(g, ratio * a) else None


# matrices


def _same_matrices(g: Any, a: Any, gold: Reading, answer: Reading) -> bool:
    if not isinstance(g, MatrixBase) or not isinstance(a, MatrixBase):
        g, a = (value.doit() if isinstance(value, sympy.MatrixExpr) else value for value in (g, a))
    if not isinstance(g, MatrixBase) or not isinstance(a, MatrixBase) or g.shape != a.shape:
        return False
    return all(same(p, q, gold, answer) for p, q in zip(g.flat(), a.flat(), strict=True))
