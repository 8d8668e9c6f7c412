"""`kk`: knights and knaves. Who is what, read from the answer and compared name by name.

A statement is `NAME is a knight` or `NAME is a knave`; also read: several names (`Zoey and Bob are knaves`), a
negation (`Zoey is not a knight` makes her a knave), `:`, `=`, `-`, `->` or `|` for `is`, numbering, markdown, any
order, any case, a statement given twice, people who are not in the puzzle. The answer cannot be read (unparsed) when
a person of the puzzle is missing, when two statements contradict each other, or when a knight or knave is mentioned
that belongs to nobody (`Zoey is a knight or a knave`). Tokens are read once from left to right: nothing backtracks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Literal

from upside.verifiers.base import Verdict

Scale = Literal["adora", "binary"]

MAX_ANSWER = 4_000  # characters of an answer that is read; a longer one is unparsed
SCORES = {  # right, wrong, unparsed, bad format
    "adora": (3.0, -0.5, -1.0, -3.0),
    "binary": (1.0, 0.0, 0.0, 0.0),
}

_TOKEN = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*|->|=>|[^\w\s]|\n|\d+")
_MARKUP = re.compile(r"[*_`\"$\\{}\[\]]|\\text")
_ROLES = {"knight": True, "knights": True, "knave": False, "knaves": False}
_VERBS = frozenset(["is", "are", "was", "were", "be", "must", "has", "have", "to"])
_LINKS = frozenset([":", "=", "->", "=>", "→", "⇒", "-", "–", "—", "|", "("])
_NEGATIONS = frozenset(["not", "isn't", "aren't", "wasn't", "never", "no"])
_HEDGES = frozenset(["or", "either", "if", "unless", "neither", "nor", "maybe", "perhaps", "possibly", "false"])
_NO_NAMES = frozenset(
    ["therefore", "so", "thus", "hence", "then", "finally", "the", "a", "an", "both", "all", "that", "answer", "final"]
)
_TAGS = ("<think>", "</think>", "<answer>", "</answer>")


class KkVerifier:
    """Judges the people named in an answer against the gold.

    Golds are solution texts, `(1) Zoey is a knave\\n(2) Oliver is a knight` or `Zoey is a knave, and Oliver …`.

    scale: "binary" (default): 1 right, 0 else. The answer is the last `<answer>…</answer>` after the last `</think>`;
        without such tags, everything after it.
        "adora": 3 right, -0.5 wrong, -1 unparsed, -3 bad format (ADORA's kk.py, commit c518485, which is Logic-RL's).
        Good format is each of `<think>`, `</think>`, `<answer>`, `</answer>` exactly once, in this order. In bad
        format nothing is read, as released: not correct, outcome unparsed.
    opened: the prompt already ends with `<think>`, so that the response only closes it.

    The released code also calls unparsed, but here is read: a statement given twice, strangers, several names in one
    statement, other links than "is a". Against a gold that cannot be read, every row has neither score nor
    correctness (outcome "error").
    """

    name = "kk"

    def __init__(self, scale: Scale = "binary", opened: bool = False) -> None:
        if not isinstance(scale, str) or scale not in SCORES:
            raise ValueError(f"verifier 'kk': scale must be {' or '.join(SCORES)}, got {scale!r}")
        if not isinstance(opened, bool):
            raise ValueError(f"verifier 'kk': opened must be true or false, got {opened!r}")
        self.scale, self.opened = scale, opened

    def __call__(self, golds: Sequence[str], responses: Sequence[str]) -> list[Verdict]:
        return [self._judge(gold, response) for gold, response in zip(golds, responses, strict=True)]

    def _judge(self, gold: str, response: str) -> Verdict:
        people = statements(gold)
        if not people:
            return Verdict(None, None, "error")
        right, wrong, unparsed, bad_format = SCORES[self.scale]
        if self.scale == "adora" and not self._in_format(response):
            return Verdict(bad_format, False, "unparsed")
        said = statements(answer_text(response), people)
        if said is None or not people.keys() <= said.keys():
            return Verdict(unparsed, False, "unparsed")
        same = all(said[name] == role for name, role in people.items())
        return Verdict(right if same else wrong, same)

    def _in_format(self, response: str) -> bool:
        text = "<think>" + response if self.opened else response
        places = [text.find(tag) for tag in _TAGS]
        return all(text.count(tag) == 1 for tag in _TAGS) and places == sorted(places)

    def usable(self, gold: str) -> bool:
        return bool(statements(gold))

    def answer_of(self, response: str) -> str | None:
        """Who is what in alphabetical order, e.g. `bob=knight zoey=knave`."""
        said = statements(answer_text(response))
        if not said:
            return None
        return " ".join(f"{name}={'knight' if said[name] else 'knave'}" for name in sorted(said))


def answer_text(response: str) -> str:
    """The part of a response in which the people count: inside the last `<answer>` after the thought, else all."""
    rest = response.rpartition("</think>")[2]
    before, closing, _ = rest.rpartition("</answer>")
    if closing:
        return before.rpartition("<answer>")[2]
    return rest


def statements(text: str, people: dict[str, bool] | None = None) -> dict[str, bool] | None:
    """Name in lower case -> whether a knight; None where the text contradicts itself or cannot be read.

    people: who is in the puzzle; a contradiction about anybody else does not matter.
    """
    if len(text) > MAX_ANSWER:
        return None
    found: dict[str, bool] = {}
    for names, knight in _read(text, frozenset(people or ())):
        if knight is None:
            return None
        for name in names:
            if found.setdefault(name, knight) != knight and (people is None or name in people):
                return None
    return found


def _read(text: str, people: frozenset[str]) -> Iterator[tuple[list[str], bool | None]]:
    """(names, whether knights) of each statement in order; None for the second where it is unclear whose it is."""
    names: list[str] = []
    linked = negated = joined = False
    for match in _TOKEN.finditer(_plain(text)):
        token = match.group()
        if token in _ROLES:
            yield (names, _ROLES[token] != negated) if names else ([], None)
            names, linked, negated, joined = [], False, False, False
        elif token in _HEDGES:
            yield [], None
        elif token in _VERBS or token in _LINKS:
            linked = bool(names)
        elif token in _NEGATIONS:
            linked, negated = bool(names), not negated
        elif token in "\n.;!?" or (linked and token in (",", "and", "&")):
            names, linked, negated, joined = [], False, False, False
        elif token in (",", "and", "&"):
            joined = True
        elif token[0].isalpha() and token not in _NO_NAMES and (not linked or token in people):
            names = [*names, token] if joined and not linked else [token]
            linked = joined = False


def _plain(text: str) -> str:
    """Case folded, compatibility forms resolved, without markup and invisible characters."""
    text = "".join(c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) != "Cf")
    return _MARKUP.sub(" ", text.replace("\\text", " ")).replace("\u2019", "'").casefold()
