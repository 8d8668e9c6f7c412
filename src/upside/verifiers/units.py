"""Units behind a number: two answers in different units are not the same, one without a unit is taken as in the
other's. A short table; a word that is not in it says nothing."""

from __future__ import annotations

import re

_NAMES = {
    "mm": "mm millimeter millimetre", "cm": "cm centimeter centimetre", "m": "m meter metre",
    "km": "km kilometer kilometre", "in": "in inch inche", "ft": "ft foot feet", "yd": "yd yard", "mi": "mi mile",
    "mg": "mg milligram", "g": "g gram", "kg": "kg kilogram", "lb": "lb lbs pound", "oz": "oz ounce",
    "s": "s sec second", "min": "min minute", "h": "h hr hour", "day": "day", "week": "week", "month": "month",
    "year": "year yr", "ml": "ml milliliter millilitre", "l": "l liter litre", "gal": "gal gallon",
    "usd": "dollar usd", "cent": "cent", "eur": "euro eur", "mph": "mph", "kmh": "kmh kph", "j": "j joule",
    "n": "n newton", "w": "w watt", "v": "v volt", "a": "a amp ampere", "hz": "hz hertz", "k": "k kelvin",
    "rad": "rad radian",
}  # fmt: skip
_UNITS = {name: unit for unit, names in _NAMES.items() for name in names.split()}
_SHORT = {"mi/h": "mph", "km/h": "kmh"}
_POWERS = {"square": "^2", "sq": "^2", "squared": "^2", "cubic": "^3", "cu": "^3", "cubed": "^3"}
_TOKEN = re.compile(r"([a-z]+)\.?\s*(?:\^\s*\{?\s*([-+]?\d)\s*\}?)?|(/)|\s+|\\cdot|\*")


def canonical_unit(text: str) -> str:
    """`square centimeters`, `cm^2` -> `cm^2`; `miles per hour` -> `mph`; "" for words that are no units."""
    text = re.sub(r"\bper\b", "/", text.strip().lower())
    parts, power, end = [], "", 0
    while end < len(text):
        match = _TOKEN.match(text, end)
        if match is None or match.end() == end:
            return ""
        end = match.end()
        word, raised, slash = match.groups()
        if slash:
            parts.append("/")
        elif word in _POWERS:
            if parts and word.endswith("d"):
                parts[-1] += _POWERS[word]
            else:
                power = _POWERS[word]
        elif word:
            unit = _UNITS.get(word) or _UNITS.get(word.removesuffix("s"))
            if unit is None:
                return ""
            parts.append(unit + (f"^{raised}" if raised else power))
            power = ""
    unit = "".join(parts)
    return _SHORT.get(unit, unit)
