"""Plain numbers in all their spellings, by exact value: decimals, fractions, mixed and repeating ones, scientific
notation, other bases, words. `stands_for` says when a decimal is an approximation of a value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from upside.verifiers.answers import MAX_EXPONENT, to_number

SURE_DIGITS = 6  # significant digits from which a decimal answer may stand for a value it only approximates
GOLD_DIGITS = 3  # the same for a decimal gold answer

_DECIMAL = re.compile(r"[-+]?\d*(?:\.(\d*))?(?:[eE]([-+]?\d{1,4}))?", re.ASCII)
_GROUPED = re.compile(r"[-+]?\d{1,3}(?:[, ]\d{3})+(?:\.\d+)?", re.ASCII)
_MIXED = re.compile(
    r"([-+]?)\s*(\d{1,40})\s*(?:\+\s*)?(?:\\frac\{(\d{1,40})\}\{(\d{1,40})\}|(?<=\s)(\d{1,40})\s*/\s*(\d{1,40}))",
    re.ASCII,
)
_TEN = re.compile(
    r"([-+]?(?:\d{1,60}(?:\.\d{0,60})?|\.\d{1,60}))\s*(?:\\times|\\cdot|\*|x)\s*10\s*\^\s*(?:\{\s*([-+]?\d{1,4})\s*\}|([-+]?\d{1,4}))",
    re.ASCII,
)
_REPEATING = re.compile(
    r"([-+]?)(\d{0,40})\.(\d{0,40})(?:\\(?:overline|bar)\s*\{?(\d{1,40})\}?|\((\d{1,40})\))", re.ASCII
)
_BASE = re.compile(r"([0-9A-Za-z]{1,200})\s*_\s*(?:\{\s*(\d{1,2})\s*\}|(\d{1,2}))", re.ASCII)
_PRODUCT_OVER = re.compile(r"\(\s*([-+]?\d+)\s*\)\s*/\s*\(\s*([-+]?\d+)\s*\)", re.ASCII)

_SMALL = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16,
    "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50,
    "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
}  # fmt: skip
SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}


@dataclass(frozen=True)
class Numeral:
    """A plain number.

    value: exact.
    places: decimal places where it was written as a decimal (negative for 3e8); None for fractions and whole numbers.
    base: 10, or the base it was written in; digits: its digits then.
    """

    value: Fraction
    places: int | None = None
    base: int = 10
    digits: str = ""


def numeral(text: str) -> Numeral | None:
    """The number a text is, or None for everything else."""
    text = re.sub(r"^([-+])\s+", r"\1", text.strip())
    value = to_number(text)
    if value is not None:
        return Numeral(value, _places(text))
    if _GROUPED.fullmatch(text):
        return numeral(re.sub("[, ]", "", text))
    for reader in (_mixed, _scientific, _repeating, _in_base, _in_words, _bracketed):
        found = reader(text)
        if found is not None:
            return found
    return None


def _places(text: str) -> int | None:
    match = _DECIMAL.fullmatch(text.replace(",", ""))
    if match is None or (match.group(1) is None and match.group(2) is None):
        return None
    return len(match.group(1) or "") - int(match.group(2) or 0)


def _signed(sign: str, value: Fraction) -> Fraction:
    return -value if sign == "-" else value


def _mixed(text: str) -> Numeral | None:
    match = _MIXED.fullmatch(text)
    if match is None:
        return None
    sign, whole, top, bottom, plain_top, plain_bottom = match.groups()
    if not int(bottom or plain_bottom):
        return None
    return Numeral(_signed(sign, int(whole) + Fraction(int(top or plain_top), int(bottom or plain_bottom))))


def _scientific(text: str) -> Numeral | None:
    match = _TEN.fullmatch(text)
    if match is None:
        return None
    factor, exponent = to_number(match.group(1)), int(match.group(2) or match.group(3))
    if factor is None or abs(exponent) > MAX_EXPONENT:
        return None
    return Numeral(factor * Fraction(10) ** exponent, (_places(match.group(1)) or 0) - exponent)


def _repeating(text: str) -> Numeral | None:
    match = _REPEATING.fullmatch(text)
    if match is None:
        return None
    sign, whole, fixed, *either = match.groups()
    period = either[0] or either[1]
    head = Fraction(int((whole + fixed) or "0"), 10 ** len(fixed))
    return Numeral(_signed(sign, head + Fraction(int(period), (10 ** len(period) - 1) * 10 ** len(fixed))))


def _in_base(text: str) -> Numeral | None:
    match = _BASE.fullmatch(text)
    if match is None:
        return None
    digits, base = match.group(1).upper(), int(match.group(2) or match.group(3))
    if not 2 <= base <= 36 or not digits[0].isdigit():  # x_2 is a variable
        return None
    try:
        return Numeral(Fraction(int(digits, base)), base=base, digits=digits.lstrip("0") or "0")
    except ValueError:
        return None


def _in_words(text: str) -> Numeral | None:
    """`twenty-five`, `two hundred and six`, `negative three`, `3 million`."""
    words = re.sub(r"[-\s]+", " ", text.lower().replace(" and ", " ")).strip().split(" ")
    negative = len(words) > 1 and words[0] in ("minus", "negative")
    total, part, seen = Fraction(0), None, False
    for word in words[negative:]:
        if word in _SMALL:
            part = (part or Fraction(0)) + _SMALL[word]
            seen = True
        elif word in SCALES and part is not None:
            part *= SCALES[word]
            if word != "hundred":
                total, part = total + part, Fraction(0)
            seen = True
        elif part is None and (value := to_number(word)) is not None:
            part = value
        else:
            return None
    return Numeral((-1 if negative else 1) * (total + (part or 0))) if seen else None


def _bracketed(text: str) -> Numeral | None:
    match = _PRODUCT_OVER.fullmatch(text)
    value = to_number(f"{match.group(1)}/{match.group(2)}") if match else None
    return None if value is None else Numeral(value)


def terminates(value: Fraction) -> bool:
    """Whether the value has a finite decimal expansion: it could have been written down exactly."""
    bottom = value.denominator
    for prime in (2, 5):
        while bottom % prime == 0:
            bottom //= prime
    return bottom == 1


def stands_for(decimal: Fraction, places: int, value: Fraction, digits: int) -> bool:
    """Whether a decimal with `places` places approximates `value`: it has at least `digits` significant digits and
    is the value rounded or cut off there."""
    scale = Fraction(10) ** places
    written = abs(decimal) * scale
    if decimal * value <= 0 or written.denominator != 1 or len(str(written.numerator)) < digits:
        return False
    exact = abs(value) * scale
    return abs(exact - written) <= Fraction(1, 2) or exact.numerator // exact.denominator == written
