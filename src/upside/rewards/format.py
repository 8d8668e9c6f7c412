"""`format`: whether a response keeps to think tags and one answer."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

from upside.rewards.base import Completions, RewardError, Scores
from upside.verifiers.answers import boxed_answer

Answer = Literal["any", "boxed", "tag", "hash"]
Think = Literal["required", "optional", "none", "opened"]

_MARKS = {
    "boxed": re.compile(r"\\(?:boxed|fbox)\s*\{"),
    "tag": re.compile(r"<answer>"),
    "hash": re.compile(r"#+"),
}
_LOOKALIKES = {name: re.compile(rf"<\s{{0,9}}/?\s{{0,9}}{name}\b[^<>]{{0,99}}>", re.I) for name in ("think", "answer")}
_FILLERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # letters and symbols by category that show nothing
_AAPO_CLOSING = "\n</think>\n"


class FormatReward:
    """`format`: 1.0 for a well-formed response, else 0.0. Well-formed means

    - think tags (`think`): "required" (default): exactly one `<think>`, text with a letter or digit, `</think>`, in
      this order at the start, and no answer in the thought; "optional": the same, or no tags at all; "none": no tags;
      "opened" is for prompts that end with `<think>` themselves: the response only closes it;
    - after them exactly one final answer (`answer`) that shows something: a `\\boxed{}` ("boxed"), an
      `<answer></answer>` ("tag"), text after a run of `#` ("hash"), or any of the three ("any", default; a box
      inside the tag is one answer with it).

    Look-alikes of the tags (`<THINK>`, `< think >`, `<think/>`, full-width or with invisible characters) are not
    well-formed. Blank text, whatever invisible characters it is made of, is no thought and no answer.

    compat="aapo": instead of all this the rule of AAPO's released 1.5B code: "\\n</think>\\n" stands in the response
    exactly once, whatever else there is.
    """

    name = "format"

    def __init__(
        self, answer: Answer = "any", think: Think = "required", compat: Literal["aapo"] | None = None
    ) -> None:
        if answer not in ("any", *_MARKS):
            raise RewardError(f"reward 'format': answer must be any, boxed, tag or hash, got {answer!r}")
        if think not in ("required", "optional", "none", "opened"):
            raise RewardError(f"reward 'format': think must be required, optional, none or opened, got {think!r}")
        if compat not in (None, "aapo"):
            raise RewardError(f"reward 'format': compat must be aapo or left out, got {compat!r}")
        if compat is not None and (answer, think) != ("any", "required"):
            raise RewardError("reward 'format': compat=aapo has a rule of its own; leave out answer and think")
        self.answer, self.think, self.compat = answer, think, compat

    def __call__(self, completions: Completions) -> Scores:
        return Scores([float(self.well_formed(response)) for response in completions.responses])

    def well_formed(self, response: str) -> bool:
        """Whether one response keeps the rules."""
        if self.compat == "aapo":
            return response.count(_AAPO_CLOSING) == 1
        text = "<think>" + response if self.think == "opened" else response
        tags = _tags(text, "think")
        if tags or self.think in ("required", "opened"):
            if self.think == "none" or tags != ["<think>", "</think>"]:
                return False
            before, _, rest = text.partition("<think>")
            thought, _, text = rest.partition("</think>")
            if _shows(before) or not any(c.isalnum() and c not in _FILLERS for c in thought):
                return False
            if self._marks(thought) or ("tag" in self._kinds() and _tags(thought, "answer")):
                return False
        return self._one_answer(text)

    def _kinds(self) -> list[str]:
        return list(_MARKS) if self.answer == "any" else [self.answer]

    def _marks(self, text: str) -> list[tuple[str, int]]:
        return [(kind, match.end()) for kind in self._kinds() for match in _MARKS[kind].finditer(text)]

    def _one_answer(self, text: str) -> bool:
        marks = self._marks(text)
        if [kind for kind, _ in marks] == ["boxed", "tag"] and _inside(text, marks[1][1], marks[0][1]):
            marks = marks[1:]  # an answer in a tag with its result in a box
        if len(marks) != 1:
            return False
        if "tag" in self._kinds() and _tags(text, "answer") not in ([], ["<answer>", "</answer>"]):
            return False
        kind, start = marks[0]
        if kind == "tag":
            content, closing, _ = text[start:].partition("</answer>")
            return bool(closing) and _shows(content)
        return _shows((boxed_answer(text) or "") if kind == "boxed" else text[start:])


def _inside(text: str, tag: int, box: int) -> bool:
    """Whether the box whose content starts at `box` closes within the answer tag whose content starts at `tag`, and
    shows something."""
    content, closing, _ = text[tag:].partition("</answer>")
    return bool(closing) and tag < box <= tag + len(content) and _shows(boxed_answer(content) or "")


def _tags(text: str, name: str) -> list[str]:
    """The tags of that name and what looks like one, in order, as they are read."""
    found = _LOOKALIKES[name].findall(text if text.isascii() else _plain(text))
    exact = re.findall(f"</?{name}>", text)
    return exact if exact == found else [*found, ""]  # never a proper pair


def _plain(text: str) -> str:
    """Compatibility forms resolved, without invisible characters. Character by character: to normalise the whole text
    takes time quadratic in a run of combining marks."""
    forms = {ord(c): unicodedata.normalize("NFKC", c) for c in set(text) if not c.isascii()}
    return text.translate({c: "" if unicodedata.category(chr(c)) == "Cf" else form for c, form in forms.items()})


def _shows(text: str) -> bool:
    """Whether the text holds a letter, digit, sign or punctuation mark that can be seen."""
    return any(unicodedata.category(c)[0] in "LNPS" and c not in _FILLERS for c in text)
