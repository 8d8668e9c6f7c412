"""Finding and comparing final answers as text: bounded string code, nothing is ever evaluated.

Where the final answer of a response is, first rule that applies:
  1. the content of the last closed `\\boxed{...}` (balanced braces, nested boxes unwrapped), or of the last
     `<answer>...</answer>`: whichever stands later;
  2. the rest of the line after the last `####` (GSM8K's mark);
  3. the last line that is not empty, from its last `#` on if it has one; against a number as gold, also the
     last number of the text.
If the response holds `</think>`, only what follows the last one counts.

`math_answer` is more forgiving, for a checker that understands mathematics: boxes that follow one another as a list
(`\\boxed{1} and \\boxed{2}`) are one answer. Between rules 2 and 3 come what follows the last "answer is" or "answer:"
on its line, and the last formula (`$...$`, `\\(...\\)`, `\\[...\\]`) of the last line. Of a last line of prose counts
what follows its last "is" or "=", if that is no prose itself, else the last number of the text. The text is never cut
to a slice before it is searched (verl#7440).

Two answers are the same when their normal forms are equal text, or when both read as a plain number
(integer, decimal, fraction, scientific notation of modest size) of exactly equal value. Anything else
(surds, intervals, units) needs a mathematical checker.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from fractions import Fraction
from itertools import pairwise

MAX_ANSWER = 2_000  # characters; a longer "answer" is compared as plain text only
MAX_DIGITS = 400  # digits of a number that is compared by value
MAX_EXPONENT = 400  # of scientific notation; 1e999999999 stays text

_BRACES = re.compile(r"\\(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)
_NUMBER_IN_TEXT = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:/\d+)?|[-+]?\.\d+", re.ASCII)
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?", re.ASCII)
_DECIMAL = re.compile(r"([-+]?)(\d*)(?:\.(\d*))?(?:[eE]([-+]?\d{1,4}))?", re.ASCII)
_FRAC = re.compile(r"([-+]?)\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}")
_BETWEEN_BOXES = re.compile(r"(?:[\s$,;]|\\[,;:!() ]|\\q?quad|\\text\s*\{\s*(?:and|or)\s*\}|\b(?:and|or)\b|[a-z]\s*=)*")
_ANSWER_IS = re.compile(  # the counts are bounded, or a run of spaces would be searched in quadratic time
    r"\banswer(?:\s{1,4}is\b\s{0,4}:?|\s{0,4}(?:\*\*)?\s{0,4}[:=])\s{0,4}(?:\*\*)?\s{0,4}(?=\S)", re.IGNORECASE
)
_VALUE_IS = re.compile(r"(?:\b(?:is|are|equals)\b|=)\s*")
_FORMULA = re.compile(  # none runs over the start of another: linear in the text
    r"\$\$([^$]+)\$\$|(?<!\\)\$((?:[^$\n\\]|\\.)+)\$|(?<!\\)\\\(((?:[^\\]|\\[^()])+)\\\)|(?<!\\)\\\[((?:[^\\]|\\[^\[\]])+)\\\]"
)
_SENTENCE_END = re.compile(r"(?<=[^\d\s])\.(?:\s|$)|(?<=\d)\.(?=\s+[A-Z]|\s*$)")
_PROSE_WORD = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{2,}")
_WHOLE_PHRASE = re.compile(
    r"(?:there (?:is|are) )?(?:no|all)(?: the)?(?: real)?(?: numbers?| solutions?)\.?", re.IGNORECASE
)
PROSE = 3  # words from which a line is a sentence rather than an answer
_WRAPPERS = (("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("**", "**"), ("`", "`"))
_SPELLINGS = re.compile(r"\\(?:[!,;$%]|left(?![a-z])|right(?![a-z]))")
_FRAC_NAMES = re.compile(r"\\[dt]frac")
_COMMANDS = re.compile(r"\\(?:text|mathrm|mathbf|textbf|boxed|fbox)\s*\{(.*)\}", re.DOTALL)


def final_answer(response: str) -> str | None:
    """The final answer of a response by rules 1 to 3 (last line), or None when there is no text at all."""
    region = answer_region(response)
    marked = marked_answer(region)
    if marked is not None:
        return marked
    lines = region.strip().splitlines()
    return lines[-1].rpartition("#")[2].strip() if lines else None


def answer_region(response: str) -> str:
    """The part in which an answer counts: what follows the last `</think>`, else everything."""
    return response.rpartition("</think>")[2]


def marked_answer(text: str) -> str | None:
    """The explicitly marked answer (rules 1 and 2), or None."""
    spans = [span for span in (_last_box(text), _last_tag(text)) if span]
    if spans:
        start, end = max(spans)
        return text[start:end].strip()
    mark = text.rfind("####")
    if mark < 0:
        return None
    rest = text[mark + 4 :].strip().splitlines()
    return rest[0].strip() if rest else ""


def boxed_answer(text: str) -> str | None:
    """The content of the box that closes last, None without one."""
    span = _last_box(text)
    return text[span[0] : span[1]].strip() if span else None


def math_answer(response: str) -> str | None:
    """The final answer for a checker that understands mathematics (see the module's text), or None without text."""
    region = answer_region(response)
    boxes, tag = _boxes(region), _last_tag(region)
    if boxes and (tag is None or boxes[-1] > tag):
        return _joined(region, _last_run(region, boxes))
    marked = marked_answer(region)
    if marked is not None:
        return marked
    said = deque(_ANSWER_IS.finditer(region), maxlen=1)
    if said:
        rest = region[said[0].end() :].split("\n", 1)[0]
        return _formulas(rest) or _first_sentence(rest)
    lines = region.strip().splitlines()
    if not lines:
        return None
    display = region.rstrip().endswith(("\\]", "$$", "\\].", "$$."))
    formula = _formulas(region if display else lines[-1], last=True)
    if formula or len(_PROSE_WORD.findall(lines[-1])) < PROSE or _WHOLE_PHRASE.fullmatch(lines[-1].strip()):
        return formula or lines[-1].strip()
    said_last = deque(_VALUE_IS.finditer(lines[-1]), maxlen=1)
    if said_last:
        rest = _first_sentence(lines[-1][said_last[0].end() :])
        if re.search(r"\d|\\[a-z]", rest) and len(_PROSE_WORD.findall(rest)) < PROSE:
            return rest
    return _last_number(region) or lines[-1].strip()


def _formulas(text: str, last: bool = False) -> str | None:
    """The first (or last) formula of the text, with those that follow it as a list; None where there is none."""
    spans = [match.span(match.lastindex or 0) for match in _FORMULA.finditer(text)]
    if not spans:
        return None
    if last:
        return text[spans[-1][0] : spans[-1][1]].strip() if len(spans) == 1 else _joined(text, _last_run(text, spans))
    run = [spans[0]]
    for span in spans[1:]:
        if not _BETWEEN_BOXES.fullmatch(text, run[-1][1], span[0]):
            break
        run.append(span)
    return _joined(text, run)


def _joined(text: str, spans: list[tuple[int, int]]) -> str:
    """The spans as one list; "or" between them is kept, for then they may be one value in several forms."""
    either = any(re.search(r"\bor\b", text[end:start]) for (_, end), (start, _) in pairwise(spans))
    return (" or " if either else ", ").join(text[start:end].strip() for start, end in spans)


def _first_sentence(text: str) -> str:
    end = _SENTENCE_END.search(text)
    return (text[: end.start()] if end else text).strip()


def _boxes(text: str) -> list[tuple[int, int]]:
    """Spans of the contents of all closed outermost boxes, in order."""
    stack: list[int | None] = []
    spans: list[tuple[int, int]] = []
    for match in _BRACES.finditer(text):
        token = match.group()
        if token == "}":
            opened = stack.pop() if stack else None
            if opened is not None:
                while spans and spans[-1][0] > opened:
                    spans.pop()
                spans.append((opened, match.start()))
        elif token == "{":
            stack.append(None)
        elif token[-1] == "{" and len(token) > 2:
            stack.append(match.end())
    return spans


def _last_run(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The last span with those before it that stand in one list with it."""
    run = [spans[-1]]  # from the last to the first
    for start, end in reversed(spans[:-1]):
        between = text[end : run[-1][0]]
        opening = re.sub(r"^\}|\\(?:boxed|fbox)\s*\{$", "", between)
        if not re.search(r"[,;]|and|or", opening) or len(opening) > 60 or not _BETWEEN_BOXES.fullmatch(opening):
            break
        run.append((start, end))
    return run[::-1]


def _last_box(text: str) -> tuple[int, int] | None:
    """Span of the content of the box that closes last. One pass, linear in the text."""
    stack: list[int | None] = []
    last = None
    for match in _BRACES.finditer(text):
        token = match.group()
        if token == "}":
            opened = stack.pop() if stack else None
            if opened is not None:
                last = (opened, match.start())
        elif token == "{":
            stack.append(None)
        elif token[-1] == "{" and len(token) > 2:
            stack.append(match.end())
    return last


def _last_tag(text: str) -> tuple[int, int] | None:
    end = text.rfind("</answer>")
    start = text.rfind("<answer>", 0, end) if end >= 0 else -1
    return (start + len("<answer>"), end) if start >= 0 else None


def same_answer(answer: str, gold: str) -> bool:
    """Whether two final answers are equal in normal form or as exact numbers. An empty answer equals none."""
    key = canonical(answer)
    return bool(key) and key == canonical(gold)


def canonical(answer: str) -> str:
    """One text for all spellings of the same answer: the exact value of a number, else the normal form. An
    answer longer than MAX_ANSWER characters is only stripped."""
    if len(answer) > MAX_ANSWER:
        return answer.strip()
    text = normalise(answer)
    number = to_number(text)
    return text if number is None else str(number)


def is_right(response: str, gold: str) -> bool:
    """Whether the response's final answer (rules 1 to 3) is the same as `gold`."""
    region = answer_region(response)
    marked = marked_answer(region)
    if marked is not None:
        return same_answer(marked, gold)
    lines = region.strip().splitlines()
    if not lines:
        return False
    if same_answer(lines[-1], gold) or same_answer(lines[-1].rpartition("#")[2], gold):
        return True
    if to_number(normalise(gold)) is None:
        return False
    number = _last_number(region)
    return number is not None and same_answer(number, gold)


def _last_number(text: str) -> str | None:
    last = deque(_NUMBER_IN_TEXT.finditer(text), maxlen=1)
    return last[0].group().rstrip(",") if last else None


def normalise(answer: str) -> str:
    """Normal form of a short answer: NFKC, no outer math or text markup, spaces, outer `$` and `%`, final
    dot; case folded."""
    text = unicodedata.normalize("NFKC", answer[:MAX_ANSWER]).replace("−", "-").strip()
    for _ in range(8):  # nested wrappers; each round strips one layer
        text = text.removesuffix(".").strip()
        unwrapped = _unwrap(text)
        if unwrapped == text:
            break
        text = unwrapped
    text = _SPELLINGS.sub("", text.replace("{,}", ",")).strip("$%")
    return _FRAC_NAMES.sub(r"\\frac", re.sub(r"\s+", "", text)).casefold()


def _unwrap(text: str) -> str:
    for opening, closing in _WRAPPERS:
        if len(text) > len(opening) + len(closing) and text.startswith(opening) and text.endswith(closing):
            return text[len(opening) : -len(closing)].strip()
    match = _COMMANDS.fullmatch(text)
    return match.group(1).strip() if match and _balanced(match.group(1)) else text


def _balanced(text: str) -> bool:
    depth = 0
    for char in text:
        depth += (char == "{") - (char == "}")
        if depth < 0:
            return False
    return depth == 0


def to_number(text: str) -> Fraction | None:
    """Exact value of a plain number (`-1,234.50`, `3/4`, `\\frac{3}{4}`, `2e-3`), or None for all else."""
    text = text.strip()
    match = _FRAC.fullmatch(text)
    if match:
        top, bottom = _decimal(match.group(2)), _decimal(match.group(3))
        value = _divide(top, bottom)
        return -value if value is not None and match.group(1) == "-" else value
    top_text, slash, bottom_text = text.partition("/")
    if slash:
        return _divide(_decimal(top_text), _decimal(bottom_text))
    return _decimal(text)


def _divide(top: Fraction | None, bottom: Fraction | None) -> Fraction | None:
    return top / bottom if top is not None and bottom else None


def _decimal(text: str) -> Fraction | None:
    text = text.strip()
    if _THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    match = _DECIMAL.fullmatch(text)
    if match is None or len(text) > MAX_DIGITS:
        return None
    sign, whole, part, exponent = match.groups()
    digits = (whole or "") + (part or "")
    power = int(exponent or 0)
    if not digits or abs(power) > MAX_EXPONENT:
        return None
    value = Fraction(int(digits)) * Fraction(10) ** (power - len(part or ""))
    return -value if sign == "-" else value
