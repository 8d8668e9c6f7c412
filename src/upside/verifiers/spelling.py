"""One reading for the spellings of a final answer: a thin normal form before any algebra.

`read` turns the text of an answer into a `Reading`: LaTeX without wrappers, layout commands and units, and what can
be said without algebra: the exact value of a plain number, prose, a percent or degree mark, a unit. `decide` compares
two readings as far as that goes. Bounded string code; nothing is evaluated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from upside.verifiers.answers import MAX_ANSWER
from upside.verifiers.latex import bare_names, depth, layout, translated, unwrapped
from upside.verifiers.numerals import GOLD_DIGITS, SCALES, SURE_DIGITS, Numeral, numeral, stands_for, terminates
from upside.verifiers.units import canonical_unit

MAX_DEPTH = 25  # of braces and brackets; a deeper answer is not read

_NAMES = r"\\(?:text(?:bf|it|rm|sc|sf|normal)?|math(?:rm|bf|it|sf)|[mh]box)\s*\{"
_TEXT = _NAMES + r"([^{}]*)\}"
_TEXTS = re.compile(_TEXT)
_BETWEEN_UNITS = re.compile(r"[\s/]|\^\s*\{?\s*-?\d\s*\}?|\\cdot")
_BARE_UNIT = re.compile(r"(.*[\d})!\]])(\s*)([A-Za-z][A-Za-z./\s]*(?:\^\s*\{?[23]\}?)?)", re.DOTALL)
_ORDINAL = re.compile(r"(\d)\s*(?:\^\s*\{?\s*)?(?:st|nd|rd|th)\s*\}?")
_PERCENT = re.compile(r"\s*(?:\\%|\b(?:percent|pct|percentage)(?:\s+points?)?)\s*$")
_DEGREES = re.compile(r"\s*(?:\^\\circ\s*([CF]?)|\bdegrees?(?:\s+([CF]|Celsius|Fahrenheit))?)\s*$")
_TRIG = re.compile(r"\\?(?:sin|cos|tan|cot|sec|csc)(?![a-z])")
_ANGLE = re.compile(r"(?<!\d)(\d+(?:\.\d+)?)\s*\^\\circ")
_NO_UNIT = re.compile(
    r"(?:and|or|mod|if|for|when|where|choose|to|times|plus|minus|over|squared|cubed|factorial|divided|half|halves|"
    r"thirds?|quarters?|[a-z]+ths?)\b"
)
_POWER = re.compile(r"\^\s*\{?\s*-?\d\s*\}?|(?<=[a-z])[23]\b|\(?\bmod\b.*")
_SECOND_ANSWER = re.compile(r"\bor\b|\d")
_LABEL = re.compile(r"(?:[A-Za-z][A-Za-z'\s]*?)(?:\s*[=:]|\s+(?:is|are|equals)\b)\s*(?=\S)")
_LEAD = re.compile(r"(?:\\approx|\\sim|approximately|about|exactly|only|=|:)\s*", re.IGNORECASE)
_AND = re.compile(r"\s*,?\s*(?<![a-zA-Z\\])(?:and|or)(?![a-zA-Z])\s*")
_CHOICE = re.compile(r"\(\s*([A-Z])\s*\)(?:\s+.*)?|([A-Z])(?:[.):](?:\s.*)?)?", re.DOTALL)
_OTHER_CHOICE = re.compile(r"\(\s*[A-Z]\s*\)|(?<![A-Za-z])[A-Z][.):]|\b(?:or|and)\s+[A-Z]\b|^\s*[A-Z]\b\s*$")
_TIME = re.compile(r"(\d{1,2}):([0-5]\d)(?:\s*([ap])\.?\s*m\.?)?|(\d{1,2})\s*([ap])\.?m\.?", re.IGNORECASE)
_WORD = re.compile(r"(?<![A-Za-z\\])(?:[A-Za-z]{4,}|[A-Z][a-z]{1,2})(?![A-Za-z])")
_COMMAND = re.compile(r"\\(?:begin|operatorname)")
_PLAIN = re.compile(rf"{_TEXT}|(?<!\d)\s|\s(?!\d)|\\[,;! ]|(?<!\d)\.(?!\d)|(?<=\d)\.(?!\d)|['\"]")
_IDLE_SPACE = re.compile(r"(?<![\w])\s+|\s+(?![\w])")
_PHRASES = {
    **dict.fromkeys(("no solution", "no solutions", "no real solution", "no real solutions"), r"\emptyset"),
    **dict.fromkeys(("empty set", "the empty set"), r"\emptyset"),
    **dict.fromkeys(("all real numbers", "all reals", "the real numbers", "real numbers"), r"\mathbb{R}"),
    **dict.fromkeys(("infinity", "positive infinity"), r"\infty"),
    **dict.fromkeys(("negative infinity", "minus infinity"), r"-\infty"),
}


@dataclass(frozen=True)
class Reading:
    """An answer as it was read.

    latex: for the symbolic parser; "" when there is nothing to read.
    plain: prose as bare text, which is compared in any case.
    number: its exact value if it is a plain number (mark not applied).
    prose: it is a name, a choice, a time: compared as text and never as symbols.
    mark: "%" or "°" that stood behind it. unit: the unit that did, canonical; "" for none or an unknown one.
    connective: "or", "and" or "" between the parts of a list.
    """

    latex: str
    plain: str = ""
    number: Numeral | None = None
    prose: bool = False
    mark: str = ""
    unit: str = ""
    connective: str = ""


@lru_cache(maxsize=16384)
def read(answer: str) -> Reading:
    """The reading of an answer. Text longer than MAX_ANSWER or nested deeper than MAX_DEPTH reads as nothing."""
    if len(answer) > MAX_ANSWER or depth(answer) > MAX_DEPTH:
        return Reading("")
    text = layout(unwrapped(translated(answer)))
    whole = _TEXTS.fullmatch(text)
    if whole:
        text = whole.group(1).strip()
    quick = numeral(text)
    if quick is not None:
        return Reading(text, plain(text), quick)
    text = _LEAD.sub("", text, count=1) if _LEAD.match(text) else text
    special = _special(text)
    if special is not None:
        return special
    if _TRIG.search(text):
        text = _ANGLE.sub(r"(\\frac{\1\\pi}{180})", text)
    text, mark, unit = _without_tail(text)
    text = _without_label(_inlined(text))
    number = numeral(text)
    if number is not None:
        return Reading(text, plain(text), number, mark=mark, unit=unit)
    special = _special(text)
    if special is not None:
        return special
    connective = "or" if re.search(r"\bor\b|\\lor|\\vee", text) else "and" if re.search(r"\band\b|\\land", text) else ""
    text = re.sub(r"\\lor(?![a-z])|\\vee(?![a-z])|\\land(?![a-z])|\\wedge(?![a-z])", ", ", _AND.sub(", ", text))
    if (whole and re.search("[A-Za-z]", text)) or (_WORD.search(bare_names(text)) and not _COMMAND.search(text)):
        return Reading(text, plain(text), prose=True, unit=unit)
    return Reading(_for_parser(text), plain(text), mark=mark, unit=unit, connective=connective)


def plain(text: str) -> str:
    """Bare text: no spaces, quotes, text commands. Braces stay: `\\frac{11}{2}` is not `\\frac{1}{12}`."""
    return _PLAIN.sub(lambda m: plain(m.group(1)) if m.group(1) else "", text)


def _special(text: str) -> Reading | None:
    """Phrases with a mathematical meaning, choices and times of day."""
    bare = " ".join(_inlined(text).split())
    phrase = _PHRASES.get(bare.lower())
    if phrase:
        return Reading(phrase, plain(phrase))
    choice = _CHOICE.fullmatch(bare)
    if choice and not _OTHER_CHOICE.search(bare, max(choice.end(1) + 1, choice.end(2) + 1)):
        letter = choice.group(1) or choice.group(2)
        return Reading(letter, letter, prose=True)
    time = _TIME.fullmatch(bare)
    if time:
        hour, minute = time.group(1) or time.group(4), time.group(2) or "00"
        half = (time.group(3) or time.group(5) or "").lower()
        return Reading(bare, f"{int(hour)}:{minute}", prose=True, unit=f"{half}m" if half else "")
    return None


def _inlined(text: str) -> str:
    """With the content of `\\text{...}` and its kin in their place."""
    for _ in range(3):
        text = _TEXTS.sub(lambda m: f" {m.group(1)} " if len(m.group(1).strip()) > 1 else m.group(1), text)
    return text.strip()


def _without_label(text: str) -> str:
    """`Area = 5`, `The answer is 5` -> `5`; a mathematical left side (`x =`, `f(x) =`) stays."""
    match = _LABEL.match(text)
    if match and (_WORD.search(match.group()) or " " in match.group().strip(" =:")) and match.end() < len(text):
        rest = text[match.end() :].strip()
        return _LEAD.sub("", rest, count=1) if _LEAD.match(rest) else rest
    return text


def _without_tail(text: str) -> tuple[str, str, str]:
    """What stands before the percent sign, degree sign or unit, the mark, and the canonical unit."""
    mark = unit = ""
    for _ in range(3):
        before = text
        text = _ORDINAL.sub(r"\1", text) if _ORDINAL.fullmatch(text[-6:].lstrip("-,0123456789 ") or " ") else text
        text, found = _text_unit(text)
        unit = unit or found
        if _PERCENT.search(text) and len(text) > 2:
            text, mark = _PERCENT.sub("", text), "%"
        degrees = _DEGREES.search(text)
        if degrees and degrees.start() > 0:
            text, mark = text[: degrees.start()], "°"
            scale = degrees.group(1) or degrees.group(2)
            unit = unit or (f"°{scale[0].lower()}" if scale else "")
        text, found = _bare_unit(text)
        unit = unit or found
        if text == before:
            break
    return text.strip(), mark, unit


def _text_unit(text: str) -> tuple[str, str]:
    """`5 \\text{ cm}^2` -> `5`, `cm^2`. Only behind something with a digit or a command in it."""
    start = len(text)
    for match in reversed(list(_TEXTS.finditer(text))):
        if _BETWEEN_UNITS.sub("", text[match.end() : start]):
            break
        start = match.start()
    head, tail = text[:start].rstrip(), _inlined(text[start:])
    connects = re.fullmatch(r"\s*(?:and|or)?\s*", tail) or _SECOND_ANSWER.search(_POWER.sub("", tail))
    if (
        start == len(text)
        or connects
        or not re.search(r"\d|\\[a-z]", _TEXTS.sub("", head))
        or head.endswith(("=", ",", "^", "_"))
    ):
        return text, ""
    words = tail.split()
    if words and words[0].lower() in SCALES:
        return f"{head} {words[0]}", canonical_unit(" ".join(words[1:]))
    return head, canonical_unit(tail)


def _bare_unit(text: str) -> tuple[str, str]:
    """`12 apples` -> `12`, `3 km/h` -> `3`, `km/h`; never `2x` or `2 ab`."""
    match = _BARE_UNIT.fullmatch(text)
    if match is None:
        return text, ""
    head, tail = match.group(1), match.group(3).strip()
    words = tail.split()
    if words[0].lower() in SCALES:
        return f"{head} {words[0]}", canonical_unit(" ".join(words[1:]))
    unit = canonical_unit(tail)
    if unit and re.match(r"[A-Za-z]{2,}|[A-Za-z]/", words[0]):
        return head, unit
    if re.match(r"[a-z]{3,}", tail) and not _NO_UNIT.match(tail) and bare_names(tail) == tail:
        return head, ""
    return text, ""


def _for_parser(text: str) -> str:
    """Last touches for the LaTeX grammar."""
    text = re.sub(r"(?<=[)\]])\s*U\s*(?=[(\[])", r"\\cup ", bare_names(text))
    text = re.sub(r"^[A-Za-z]\s*(?:\\in(?![a-z])|=(?=.*\\pm))\s*", "", text)
    if _listed(text):  # x = 1, 2
        text = re.sub(r"^[A-Za-z](?:_\{?\w\}?)?\s*=\s*(?=[^=<>]*$)", "", text)
    text = re.sub(r"_\s*\{?\s*\\(max|min)\s*\}?", r"_{\1}", text)
    text = re.sub(r"\\approx.*$", "", text) if "\\approx" in text[1:] else text
    if not re.search(r"(?:[(\[]|\\\{)\s*[-\d]", text):
        text = re.sub(r"(?<![\d.,])(\d{1,3}(?:,\d{3})+)(?![\d,])", lambda m: m.group().replace(",", ""), text)
    text = re.sub(r"(?<!\d)(\d{0,40})\.(\d{0,40})\\(?:overline|bar)\s*\{(\d{1,20})\}", _repeating_latex, text)
    return text.strip()


def _listed(text: str) -> bool:
    """Whether a comma stands outside all brackets."""
    level = 0
    for char in text:
        level += (char in "([{") - (char in ")]}")
        if char == "," and level <= 0:
            return True
    return False


def _repeating_latex(match: re.Match[str]) -> str:
    found = numeral(match.group())
    return match.group() if found is None else rf"\frac{{{found.value.numerator}}}{{{found.value.denominator}}}"


def decide(gold: Reading, answer: Reading) -> bool | None:
    """Whether the two are the same as far as text and plain numbers tell; None: algebra has to."""
    if gold.unit and answer.unit and gold.unit != answer.unit:
        return False
    if gold.prose or answer.prose:
        return bool(gold.plain) and gold.plain.casefold() == answer.plain.casefold()
    if gold.number is not None and answer.number is not None:
        return same_numbers(gold.number, answer.number, gold.mark, answer.mark)
    same_text = squeezed(gold.latex) == squeezed(answer.latex) and gold.mark == answer.mark
    return True if same_text and gold.latex else None


def squeezed(text: str) -> str:
    """Without the spaces that separate nothing: those in `1 2` and `\\pi x` stay."""
    return _IDLE_SPACE.sub("", text)


def same_numbers(gold: Numeral, answer: Numeral, gold_mark: str = "", answer_mark: str = "") -> bool:
    """Whether two plain numbers are equal. A percent sign on one side only may be read or ignored: `50%` is `1/2`
    and is `50`. Of a number in another base, the digits may stand alone."""
    if gold.base != answer.base and 10 in (gold.base, answer.base):
        other, based = (gold, answer) if gold.base == 10 else (answer, gold)
        return other.value == based.value or str(other.value) == based.digits
    if _close(gold, answer):
        return True
    if "%" in (gold_mark, answer_mark) and gold_mark != answer_mark:
        return _close(_percent(gold), answer) if gold_mark == "%" else _close(gold, _percent(answer))
    return False


def _percent(number: Numeral) -> Numeral:
    return Numeral(number.value / 100, None if number.places is None else number.places + 2)


def _close(gold: Numeral, answer: Numeral) -> bool:
    """Exact equality; a decimal also stands for a fraction that no decimal can write, see `numerals.stands_for`."""
    if gold.value == answer.value:
        return True
    if answer.places is not None and not terminates(gold.value):
        return stands_for(answer.value, answer.places, gold.value, SURE_DIGITS)
    if gold.places is not None and not terminates(answer.value):
        return stands_for(gold.value, gold.places, answer.value, GOLD_DIGITS)
    return False
