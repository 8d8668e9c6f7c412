"""Whether two answers are mathematically the same. Runs in the pool's worker processes only: parsing and algebra of
untrusted text have no bound of their own. The parser is math-verify's (latex2sympy2-extended), so is the last word on
kinds not treated here; numbers, functions, lists, intervals, relations and matrices are compared here, exactly:
math-verify takes two constants closer than 1e-15 for equal (1/2^99 and 1/2^98) and pairs sets after sorting.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import sympy
from latex2sympy2_extended import latex2sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, NormalizationConfig, normalize_latex
from sympy import Expr, I, MatrixBase, Rational, S, Symbol
from sympy.logic.boolalg import BooleanAtom

from upside.verifiers.numerals import GOLD_DIGITS, SURE_DIGITS, stands_for
from upside.verifiers.scalars import DIGITS, evaluated, exact, scalars
from upside.verifiers.spelling import Reading, decide, read
from upside.verifiers.structures import same

_NORMAL = NormalizationConfig(units=False, malformed_operators=True, nits=False, boxed="none")
_CASE = ConversionConfig(lowercase_symbols=False)  # R^2 - r^2 is not 0
_WARM = (r"\frac{\sqrt{3}}{2}+\pi", "x^2-2x+1", r"(1,2]", r"(3,\frac{\pi}{2})", "1,2", "x=5", r"\sin(2x)", "x<2")


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
        value = latex2sympy(
            normalize_latex(reading.latex, _NORMAL), is_real=True, normalization_config=None, conversion_config=_CASE
        )
        return Parsed(reading, _plain_symbols(value)) if _is_value(value) else None
    except MemoryError:
        raise
    except Exception:  # whatever the grammar and its actions raise, the text is none of the language
        return None


def _is_value(value: Any) -> bool:
    """Neither NaN nor a bare truth value: what the parser makes one of (`x=1,2` was) would equal all else that is."""
    if isinstance(value, BooleanAtom) or (isinstance(value, Expr) and value.has(S.NaN)):
        return False
    return isinstance(value, (sympy.Basic, MatrixBase))


def _plain_symbols(value: Any) -> Any:
    """Symbols without assumptions (the parser's depend on the text around them); `i` is the imaginary unit,
    but where a sum runs over it."""
    free = value.free_symbols
    new = {s: I if s.name == "i" and s in free else Symbol(s.name) for s in value.atoms(Symbol)}
    return value.xreplace(new)


def _marked(gold: Parsed, answer: Parsed) -> bool:
    """Equality with a percent or degree sign on one side read or ignored."""
    g, a = gold.value, answer.value
    if same(g, a, gold.reading, answer.reading):
        return True
    if _written(answer.reading, g, SURE_DIGITS) or _written(gold.reading, a, GOLD_DIGITS):
        return True
    marks = (gold.reading.mark, answer.reading.mark)
    if marks[0] == marks[1] or not isinstance(g, Expr) or not isinstance(a, Expr):
        return False
    for mark, factor in (("%", Rational(1, 100)), ("°", sympy.pi / 180)):
        if mark in marks:
            g, a = (g * factor, a) if marks[0] == mark else (g, a * factor)
    return scalars(g, a)


def _written(reading: Reading, value: Any, digits: int) -> bool:
    """Whether a decimal was written for the constant `value`, see `numerals.stands_for`."""
    number = reading.number
    if number is None or number.places is None or not isinstance(value, Expr) or value.free_symbols:
        return False
    value = sympy.N(evaluated(exact(value)), DIGITS)
    return bool(value.is_Float) and stands_for(number.value, number.places, Fraction(str(value)), digits)
