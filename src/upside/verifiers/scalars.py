"""Equality of constants and of functions, exactly: constants by their digits, rationals as rationals, functions by
their values. Runs in the pool's worker processes only."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import sympy
from math_verify import verify
from sympy import Expr, Rational, S, Symbol
from sympy.core.function import AppliedUndef

from upside.verifiers.numerals import GOLD_DIGITS, SURE_DIGITS, stands_for, terminates

DIGITS = 60  # of evaluation; constants that agree in DIGITS - 10 of them are equal
POINTS = 5  # at which functions are compared; in the first three all variables are positive
STEPS = (*range(-12, 37), 97, 100, 997, 1000)  # where functions that jump are compared as well
_JUMPS = (sympy.floor, sympy.ceiling, sympy.frac, sympy.Mod)


def scalars(g: Expr, a: Expr) -> bool:
    """Equality of two expressions: constants by 50 digits (rationals exactly), functions by their values."""
    if g == a:
        return True
    g, a = evaluated(g), evaluated(a)
    if g == a:
        return True
    free = sorted(g.free_symbols | a.free_symbols, key=str)
    if not free:
        return _same_constants(g, a)
    if g.atoms(AppliedUndef) | a.atoms(AppliedUndef):
        return library(g, a)
    return _same_functions(g, a, free)


def evaluated(value: Expr) -> Expr:
    return value.doit() if value.args else value


def exact(value: Expr) -> Expr:
    """Decimals as the fractions they are written as."""
    return value.xreplace({f: Rational(str(f)) for f in value.atoms(sympy.Float)})


def _same_constants(g: Expr, a: Expr) -> bool:
    if g.is_infinite or a.is_infinite:
        return False  # equal ones were found
    exact_g, exact_a = evaluated(exact(g)), evaluated(exact(a))
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
    """The same value at fixed points where both are defined. Two formulas that differ anywhere else differ there,
    but for a set of points of measure zero."""
    g, a = exact(g), exact(a)
    compared = 0
    for values in _points(g, a, free):
        x, y = g.xreplace(values), a.xreplace(values)
        try:
            numbers = [sympy.N(x, DIGITS), sympy.N(y, DIGITS)]
        except (TypeError, ValueError, ArithmeticError):
            continue
        if all(n.is_number and not n.has(S.NaN, S.ComplexInfinity, S.Infinity, S.NegativeInfinity) for n in numbers):
            if not _near(x, y):
                return False
            compared += 1
    return compared >= 2 or (compared == 0 and library(g, a))


def _points(g: Expr, a: Expr, free: list[Symbol]) -> Iterator[dict[Symbol, Rational]]:
    """Where two functions are compared. Formulas with floors agree at most points though they differ: many more, at and
    between whole numbers."""
    for point in range(POINTS):
        yield {symbol: coordinate(point, k) for k, symbol in enumerate(free)}
    if g.has(*_JUMPS) or a.has(*_JUMPS):
        for step in STEPS:
            yield {symbol: Rational(step * (k + 1)) for k, symbol in enumerate(free)}
            yield {symbol: step + coordinate(1, k) for k, symbol in enumerate(free)}


def coordinate(point: int, k: int) -> Rational:
    """Fixed rationals, no two related; positive for the first three points."""
    value = Rational(sympy.prime(12 + 5 * point + 3 * k), sympy.prime(7 + 2 * point + k))
    return -value if point >= 3 and (point + k) % 2 else value


def library(g: Any, a: Any) -> bool:
    """math-verify's own verdict, for kinds not treated here."""
    return bool(verify(g, a, timeout_seconds=None))
