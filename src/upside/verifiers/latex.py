"""Typography of answers: unicode, wrappers, layout commands and plain-text names brought to one LaTeX spelling."""

from __future__ import annotations

import re
import unicodedata

_SYMBOLS = {
    "−": "-", "–": "-", "—": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "÷": "/", "∗": "*", "⁄": "/",
    "π": r"\pi ", "∞": r"\infty ", "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ",
    "λ": r"\lambda ", "φ": r"\phi ", "ω": r"\omega ", "°": r"^\circ ", "º": r"^\circ ", "≤": r"\le ", "≥": r"\ge ",
    "≠": r"\ne ", "≈": r"\approx ", "±": r"\pm ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "∅": r"\emptyset ",
    "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "∖": r"\setminus ", "⟨": "(", "⟩": ")", "“": "", "”": "", "’": "'",
    "½": r"\frac{1}{2}", "⅓": r"\frac{1}{3}", "⅔": r"\frac{2}{3}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}",
    "…": r"\ldots ", "√": r"\sqrt ", "∛": r"\sqrt[3] ", "∨": r"\text{ or }", "€": r"\$", "£": r"\$", "¥": r"\$",
}  # fmt: skip
_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n", strict=True))
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
_RAISED_RUN = re.compile(f"[{''.join(_RAISED)}]+")
_LOWERED_RUN = re.compile(f"[{''.join(_LOWERED)}]+")
_TABLE = str.maketrans(_SYMBOLS)

_WRAPPERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("**", "**"), ("`", "`"))
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{(.*)\}", re.DOTALL)

_LAYOUT = [
    (re.compile(pattern), new)
    for pattern, new in (
        (r"(?<=\d)(?:,\s*\\!|\\[,!;:]|\\ |~|\s*\{\s*,\s*\})\s*(?=\d{3}(?!\d))", ""),  # 10,\!000 10\,000 10{,}000
        (r"\\\\(?=[a-zA-Z])(?!.*matrix)(?!.*array)", r"\\"),  # a doubled backslash, as in JSON
        (r"\\(?:left|right)\s*\.", " "),
        (r"(?<!\\)\\[,;:! ]|\\q?quad(?![a-zA-Z])|\\(?:left|right|[bB]igg?[lrm]?)(?![a-zA-Z])|~", " "),
        (r"\\(?:displaystyle|textstyle|limits)(?![a-zA-Z])", " "),
        (r"\\(?:text)?color\s*\{\w+\}", " "),
        (r"\\(?:boldsymbol|bm|underline|mathbf|textbf|mathit)\s*\{([^{}a-zA-Z]*)\}", r"\1"),
        (r"\\[dtc]frac(?![a-zA-Z])", r"\\frac"),
        (r"\\(?:leqslant|leq)(?![a-zA-Z])|<=", r"\\le "),
        (r"\\(?:geqslant|geq)(?![a-zA-Z])|>=", r"\\ge "),
        (r"\\lt(?![a-zA-Z])|\\textless(?![a-zA-Z])", "<"),
        (r"\\gt(?![a-zA-Z])|\\textgreater(?![a-zA-Z])", ">"),
        (r"\\overline\s*\{\s*([A-Z]{1,3})\s*\}", r"\1"),  # the segment AB
        (r"\\lg(?![a-zA-Z])", r"\\log "),
        (r"\\log\s*_\s*(?:\{\s*e\s*\}|e(?![a-zA-Z]))", r"\\ln "),
        (r"\\neq(?![a-zA-Z])|!=", r"\\ne "),
        (r"\\l(?:angle|vec)(?![a-zA-Z])", "("),
        (r"\\rangle(?![a-zA-Z])", ")"),
        (r"\\lbrace(?![a-zA-Z])", r"\\{"),
        (r"\\rbrace(?![a-zA-Z])", r"\\}"),
        (r"\\\{\s*\\\}|\\varnothing(?![a-zA-Z])", r"\\emptyset "),
        (r"\^\s*\{\s*\\circ\s*\}|\^\s*\\circ(?![a-zA-Z])|\\degree(?![a-zA-Z])", r"^\\circ "),
        (r"\\(?:mathbb|Bbb)\s*(?:\{\s*([RZNQC])\s*\}|([RZNQC]))", r"\\mathbb{\1\2}"),
        (r"\s*\{\s*,\s*\}\s*", ","),
        (r"\*\*", "^"),
        (r"(?<!\\)%", r"\\%"),
        (r"\\(?:dots|cdots|ldots)[cbm]?(?![a-zA-Z])", r"\\ldots "),
        (r"\\frac\s*(\\pi|\d|(?<=\s)[a-zA-Z])\s*(\\pi|[a-zA-Z\d])(?![a-zA-Z])", r"\\frac{\1}{\2}"),
        (r"\\frac\s*(\\pi|\d)\s*\{", r"\\frac{\1}{"),
        (r"\\frac\s+\{", r"\\frac{"),
        (r"(\\frac\{[^{}]*\})\s*(\d)", r"\1{\2}"),
        (r"(\\frac\{[^{}]*\})\s+\{", r"\1{"),
        (r"\s+", " "),
    )
]
_NAMES = "pi|theta|alpha|beta|sin|cos|tan|cot|sec|csc|arcsin|arccos|arctan|sinh|cosh|tanh|ln|log|exp|max|min|gcd"
_BARE = re.compile(rf"(?<![a-zA-Z\\])(?:({_NAMES})|(infinity|infty|inf|oo)|(sqrt))(?![a-zA-Z])")
_ROOT = re.compile(r"\\sqrt\s*(\[[^\[\]]*\])?\s*(\(|\d+|[a-zA-Z](?![a-zA-Z])|\\pi(?![a-zA-Z]))")


def translated(text: str) -> str:
    """Unicode mathematics as LaTeX or ASCII, everything else in NFKC (full-width digits and the like)."""
    text = _RAISED_RUN.sub(lambda m: "^{" + "".join(_RAISED[c] for c in m.group()) + "}", text)
    text = _LOWERED_RUN.sub(lambda m: "_{" + "".join(_LOWERED[c] for c in m.group()) + "}", text)
    return unicodedata.normalize("NFKC", text.translate(_TABLE))


def unwrapped(text: str) -> str:
    """Without outer `$`, `\\(`, `**`, `\\boxed{}` and final full stop; inner dollar signs dropped as well."""
    for _ in range(8):  # each round strips one layer
        before = text
        text = text.strip()
        if text.endswith((".", ",", ";")) and not text.endswith(r"\,"):
            text = text[:-1].rstrip()
        for opening, closing in _WRAPPERS:
            inner = text[len(opening) : -len(closing)]
            if inner and text.startswith(opening) and text.endswith(closing) and opening not in inner:
                text = inner.strip()
        box = _BOX.fullmatch(text)
        if box and balanced(box.group(1)):
            text = box.group(1).strip()
        if text == before:
            break
    return re.sub(r"\\\$|\$|\\[()\[\]]", " ", text).strip() if "$" in text or r"\(" in text or r"\[" in text else text


def layout(text: str) -> str:
    """Without commands that only move ink; one name for commands that mean the same."""
    for pattern, new in _LAYOUT:
        text = pattern.sub(new, text)
    return text.strip()


def bare_names(text: str) -> str:
    """`sqrt(3)/2*pi` -> `\\sqrt{3}/2*\\pi`: functions and constants that were written without a backslash."""
    text = _BARE.sub(lambda m: "\\sqrt" if m.group(3) else r"\infty " if m.group(2) else f"\\{m.group(1)} ", text)
    done, rest = [], text
    while match := _ROOT.search(rest):
        index, start = match.group(1) or "", match.group(2)
        end = _closing(rest, match.end() - 1) if start == "(" else match.end()
        inner = rest[match.start(2) + 1 : end - 1] if start == "(" else start
        done.append(rest[: match.start()] + rf"\sqrt{index}{{")
        done.append(bare_names(inner) if start == "(" else inner)
        done.append("}")
        rest = rest[end:]
    return "".join(done) + rest


def _closing(text: str, start: int) -> int:
    """Position behind the parenthesis that closes the one at `start`; the end where there is none."""
    depth = 0
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position + 1
    return len(text)


def balanced(text: str) -> bool:
    """Whether the braces of the text close in order; escaped ones do not count."""
    depth = 0
    for token in re.findall(r"\\.|[{}]", text, re.DOTALL):
        depth += (token == "{") - (token == "}")
        if depth < 0:
            return False
    return depth == 0


def depth(text: str) -> int:
    """Deepest nesting of brackets of any kind."""
    level = deepest = 0
    for char in text:
        if char in "([{":
            level += 1
            deepest = max(deepest, level)
        elif char in ")]}" and level:
            level -= 1
    return deepest
