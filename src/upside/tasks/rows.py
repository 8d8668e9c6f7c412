"""Problems from rows of any source: one row, one problem.

A row becomes a problem at load, once: the prompt's text, the gold answer in the form the verifier compares with, a
stable id. Rows that can teach nothing are left out and counted by reason:

| reason | what |
|---|---|
| `no_answer` | the answer is null, blank, or nothing follows its mark |
| `unusable_answer` | the verifier says that no response could ever match it |
| `repeated` | the same problem with the same answer occurred before |
| `conflicting_answers` | the same problem with two answers, where `conflicts` is drop; all of them are left out |
| `in_test_split` | a training problem that the test split holds too |
| `other_level` | outside `levels` |

Everything else that is wrong with a row is a ValueError with source, line and field.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from upside.tasks.base import Problem, Split, Verdict, check_request, in_test_split
from upside.tasks.fields import answer_text, level_number, look_up, prompt_parts, text_of
from upside.tasks.pictures import MARK, Picture, PictureError, pictures_of
from upside.tasks.readers import Source
from upside.tasks.row_options import RowOptions
from upside.verifiers import Verifier, load_verifier
from upside.verifiers.answers import canonical, marked_answer

_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?", re.ASCII)


class RowTask:
    """Rows of one or more sources as a task, judged by a verifier.

    sources: gives the training and the test sources when they are needed first (`load`, or the first `problems`).
        Without test sources a hash of the prompt (of the pictures, where there are any) puts `options.test_share` of
        the rows into test.
    remote: where the rows come from when that is another machine ("openai/gsm8k on the hub"), else None.
    dropped: reason -> how many rows were left out at load; examples: reason -> the first such row.
    """

    def __init__(
        self,
        name: str,
        sources: Callable[[], tuple[Sequence[Source], Sequence[Source]]],
        options: RowOptions | None = None,
        remote: str | None = None,
    ) -> None:
        self.name = name
        self.options = options or RowOptions()
        self.remote = remote
        self.dropped: dict[str, int] = {}
        self.examples: dict[str, str] = {}
        self._sources = sources
        self._splits: dict[str, list[Problem]] | None = None
        self._verifier: Verifier | None = None

    # ---- the task ---------------------------------------------------------------------------------------------------

    def problems(self, split: Split, count: int | None = None, seed: int = 0) -> list[Problem]:
        """`count` problems of the split, shuffled by `seed`; more than there are is an error."""
        check_request(self.name, split, count)
        splits = self.load()
        rows = list(splits[split])
        if not rows or (count is not None and count > len(rows)):
            sizes = ", ".join(f"{name} {len(part)}" for name, part in splits.items())
            raise ValueError(
                f"{self.name}: {count or 'some'} {split} problems asked for, but it has {len(rows)} "
                f"({sizes}); ask for fewer, add rows, or set test_path or test_share"
            )
        random.Random(seed).shuffle(rows)
        return rows[:count]

    def verify(self, problem: Problem, response: str) -> Verdict:
        """The verifier's verdict on one response."""
        return self.verify_batch([problem], [response])[0]

    def verify_batch(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
        """The verifier's verdicts, row i on response i."""
        return self.verifier([problem.answer for problem in problems], responses)

    def answer_of(self, response: str) -> str | None:
        """The final answer a response gives, for majority votes."""
        return self.verifier.answer_of(response)

    @property
    def verifier(self) -> Verifier:
        """Made when first needed. ValueError for an unknown name or option."""
        if self._verifier is None:
            given = self.options.verifier
            options = {"name": given} if isinstance(given, str) else dict(given)
            name = options.pop("name", None)
            if name is None:
                raise ValueError("verifier has no name; write a name, or name and options")
            self._verifier = load_verifier(name, **options)
        return self._verifier

    # ---- loading ----------------------------------------------------------------------------------------------------

    def load(self) -> dict[str, list[Problem]]:
        """Read the sources, if that was not done before: split -> problems in the order of their rows."""
        if self._splits is not None:
            return self._splits
        train_sources, test_sources = self._sources()
        _ = self.verifier  # an unknown one is no fault of a row
        self.dropped, self.examples = {}, {}
        both = bool(train_sources and test_sources)
        test = self._read(test_sources, "test:" if both else "")
        train = self._read(train_sources, "train:" if both else "")
        if test_sources:
            for key in train.problems:
                if key in test.problems:
                    self._drop("in_test_split", train.places[key])
            held_out = list(test.problems.values())
            kept = [problem for key, problem in train.problems.items() if key not in test.problems]
        else:
            share = self.options.test_share
            sides = {key: in_test_split(side, share) for key, side in _sides(train.problems).items()}
            held_out = [problem for key, problem in train.problems.items() if sides[key]]
            kept = [problem for key, problem in train.problems.items() if not sides[key]]
        self._splits = {"train": kept, "test": held_out}
        return self._splits

    def _read(self, sources: Sequence[Source], id_prefix: str) -> _Kept:
        made: list[tuple[str, Problem, str]] = []
        seen = 0
        for source in sources:
            for number, fields in source.read():
                seen += 1
                here = source.at(number)
                if isinstance(fields, str):
                    self._drop(fields, here)
                    continue
                try:
                    found = self._problem(fields, number, source, id_prefix)
                except PictureError as error:
                    raise PictureError(str(error) if str(error).startswith(here) else f"{here}: {error}") from None
                except ValueError as error:
                    raise ValueError(f"{here}: {error}") from None
                if isinstance(found, str):
                    self._drop(found, here)
                else:
                    made.append((*found, here))
        kept = self._distinct(made)
        if sources and not kept.problems:
            names = ", ".join(source.name for source in sources)
            if not seen:
                raise ValueError(f"{names}: empty data set, no rows; each row is one problem")
            raise ValueError(f"{names}: none of its {seen} rows can be used: {'; '.join(self.drop_lines())}")
        return kept

    def _distinct(self, made: Sequence[tuple[str, Problem, str]]) -> _Kept:
        """Those of (hash of the prompt, problem, where it is) that the verifier can judge, each prompt once."""
        golds = list(dict.fromkeys(problem.answer for _, problem, _ in made))
        in_one_go = getattr(self.verifier, "usable_batch", None)
        answers = in_one_go(golds) if in_one_go else map(self.verifier.usable, golds)
        usable = dict(zip(golds, answers, strict=True))
        kept = _Kept(self.options, self._drop)
        for key, problem, here in made:
            if usable[problem.answer]:
                try:
                    kept.add(key, problem, here)
                except ValueError as error:
                    raise ValueError(f"{here}: {error}") from None
            else:
                self._drop("unusable_answer", here)
        return kept

    def _problem(
        self, fields: Mapping[str, Any], number: int, source: Source, id_prefix: str
    ) -> tuple[str, Problem] | str:
        """(hash of the prompt, problem), or the reason why the row is left out."""
        options = self.options
        own_system, asked = prompt_parts(*look_up(fields, options.prompt, "prompt"))
        answer = answer_text(*look_up(fields, options.answer, "answer"))
        level = 0
        if options.level is not None:
            level = level_number(*look_up(fields, options.level, "level"))
        metadata: dict[str, Any] = {"file": source.short, "row": number}
        if options.family is not None:
            metadata["family"] = text_of(*look_up(fields, options.family, "family"))
        images: tuple[Picture, ...] = ()
        if options.image is not None:
            column, value = look_up(fields, options.image, "image")
            images = pictures_of(column, value, source.at(number), source.folder)
            if MARK in asked and not images:
                raise PictureError(f"field {column!r}: no pictures; give one for each mark {MARK} of the prompt")
        key = _digest(asked, *(picture.digest() for picture in images))
        own_id = None
        if options.id is not None:
            own_id = id_prefix + text_of(*look_up(fields, options.id, "id"))
        if options.level_range is not None and not options.level_range[0] <= level <= options.level_range[1]:
            return "other_level"
        gold = gold_answer(answer)
        if not gold:
            return "no_answer"
        around = options.around
        system = own_system if around.system is None else around.system or None
        if system is not None and not around.chat:
            raise ValueError('the row has a system prompt, but chat is false; set system: ""')
        text = around.text.replace("{prompt}", asked)
        return key, Problem(own_id or key, text, gold, level, metadata, system, around.chat, images)

    def _drop(self, reason: str, example: str) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
        self.examples.setdefault(reason, example)

    def drop_lines(self) -> list[str]:
        """One line a reason: how many rows were left out and where the first of them stands."""
        return [f"{count} {reason} (first: {self.examples[reason]})" for reason, count in self.dropped.items()]


class _Kept:
    """Problems of one split by the hash of their prompt, in the order of the rows; places: hash -> where it stands."""

    def __init__(self, options: RowOptions, drop: Callable[[str, str], None]) -> None:
        self.problems: dict[str, Problem] = {}
        self.places: dict[str, str] = {}
        self._by_id: dict[str, str] = {}
        self._conflicting: set[str] = set()
        self._options, self._drop = options, drop

    def add(self, key: str, problem: Problem, here: str) -> None:
        """Keep the problem, or count why not. ValueError for an id given twice and for two answers (as `conflicts`
        says)."""
        if key in self._conflicting:
            self._drop("conflicting_answers", here)
            return
        other = self.problems.get(key)
        if other is None:
            first = self._by_id.setdefault(problem.id, here)
            if first != here:
                raise ValueError(f"the same id as {_near(first, here)} with another prompt; give each its own")
            self.problems[key], self.places[key] = problem, here
        elif canonical(other.answer) == canonical(problem.answer):
            self._drop("repeated", here)
        elif self._options.conflicts == "error":
            raise ValueError(
                f"the same prompt as {_near(self.places[key], here)} with another answer; remove one of them, or set "
                f"conflicts=drop to leave out both"
            )
        else:
            del self.problems[key]
            self._conflicting.add(key)
            self._drop("conflicting_answers", self.places[key])
            self._drop("conflicting_answers", here)


def _near(place: str, here: str) -> str:
    """A place as seen from another: "line 3" within the same source, else the whole of it."""
    source, _, row = place.rpartition(", ")
    return row if here.rpartition(", ")[0] == source else place


def gold_answer(text: str) -> str:
    """The gold answer of an answer field: what is marked in a worked solution, else the whole text; "" for none.

    `#### 1,234` is 1234: GSM8K writes thousands with commas.
    """
    marked = marked_answer(text)
    gold = (text if marked is None else marked).strip()
    return gold.replace(",", "") if marked is not None and "####" in text and _THOUSANDS.fullmatch(gold) else gold


def _sides(problems: Mapping[str, Problem]) -> dict[str, str]:
    """What decides each problem's split: its pictures, which train and test never share (so one of all that rows join
    with each other, directly or through others), else the hash of its text."""
    joined: dict[str, str] = {}

    def first(picture: str) -> str:
        while joined.setdefault(picture, picture) != picture:
            picture = joined[picture]
        return picture

    shown = {key: [picture.digest() for picture in problem.images] for key, problem in problems.items()}
    for pictures in shown.values():
        for picture in pictures[1:]:
            one, other = sorted((first(pictures[0]), first(picture)))
            joined[other] = one
    return {key: first(pictures[0]) if pictures else key for key, pictures in shown.items()}


def _digest(text: str, *pictures: str) -> str:
    """Hash of a problem's text and of the digests of its pictures."""
    return hashlib.sha256(" ".join([*text.split(), *pictures]).encode()).hexdigest()[:16]
