"""Problems from a JSONL or Parquet file: one row, one problem."""

from __future__ import annotations

import difflib
import hashlib
import json
import random
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from upside.tasks.base import Problem, Split, Verdict, check_request, in_test_split
from upside.verifiers.answers import final_answer, is_right, marked_answer

Row = tuple[int, Mapping[str, Any]]  # line (JSONL) or row (Parquet) number from 1, fields


class FileTask:
    """A JSONL or Parquet file as a task; a response is right when its final answer is the gold one as text or
    as an exact number (rules in `upside.verifiers.answers`).

    path: the file. With `test_path` it is the train split and the other file the test split; without, a hash
        of the prompt puts `test_share` (default 0.2; 0 = all train, 1 = all test) of the rows into test.
    prompt, answer: names of the fields; a dot descends (`reward_model.ground_truth`). The prompt is text or a
        list with exactly one user message. From a gold answer with a mark (`####`, `\\boxed{}`) only the
        marked part is kept.
    id, level, family: names of optional fields. Without `id` the id is a hash of the prompt.
    template: text around the prompt, e.g. "{prompt}\\nPut the answer in \\\\boxed{}.".

    A row whose prompt occurred before with the same answer, or occurs in the test file too, is left out and
    counted in `dropped`. Everything else that is wrong with a row is a ValueError with file, line and field.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        test_path: str | Path | None = None,
        test_share: float = 0.2,
        prompt: str = "prompt",
        answer: str = "answer",
        id: str | None = None,
        level: str | None = None,
        family: str | None = None,
        template: str = "{prompt}",
    ) -> None:
        if "{prompt}" not in template:
            raise ValueError(f"template must contain {{prompt}}, got {template!r}")
        if not 0 <= test_share <= 1:
            raise ValueError(f"test_share must be between 0 and 1, got {test_share}")
        self.name = Path(path).stem
        self.path = str(path)
        self._fields = {"prompt": prompt, "answer": answer, "id": id, "level": level, "family": family}
        self._template = template
        self.dropped = {"repeated": 0, "in_test_file": 0}
        rows = self._load(Path(path), "train:" if test_path else "")
        if test_path is None:
            self._splits: dict[str, list[Problem]] = {"train": [], "test": []}
            for row in rows:
                split = "test" if in_test_split(_digest(row.prompt), test_share) else "train"
                self._splits[split].append(row)
        else:
            held_out = self._load(Path(test_path), "test:")
            prompts = {p.prompt for p in held_out}
            train = [p for p in rows if p.prompt not in prompts]
            self.dropped["in_test_file"] = len(rows) - len(train)
            self._splits = {"train": train, "test": held_out}

    def problems(self, split: Split, count: int | None = None, seed: int = 0) -> list[Problem]:
        """`count` problems of the split, shuffled by `seed`; more than there are is an error."""
        check_request(self.path, split, count)
        rows = list(self._splits[split])
        if not rows or (count is not None and count > len(rows)):
            sizes = ", ".join(f"{name} {len(part)}" for name, part in self._splits.items())
            raise ValueError(
                f"{self.path}: {count or 'some'} {split} problems asked for, but it has {len(rows)} "
                f"({sizes}); ask for fewer, add rows, or set test_path or test_share"
            )
        random.Random(seed).shuffle(rows)
        return rows[:count]

    def verify(self, problem: Problem, response: str) -> Verdict:
        """1 for the right final answer, else 0. Text comparison and exact rationals only."""
        right = is_right(response, problem.answer)
        return Verdict(float(right), right)

    def answer_of(self, response: str) -> str | None:
        """The final answer a response gives, for majority votes."""
        return final_answer(response)

    def _load(self, path: Path, id_prefix: str) -> list[Problem]:
        by_id: dict[str, tuple[int, Problem]] = {}
        for number, fields in read_rows(path):
            try:
                problem = self._problem(fields, number, path.name, id_prefix)
            except ValueError as error:
                raise ValueError(f"{path}, {_unit(path)} {number}: {error}") from None
            first, other = by_id.setdefault(problem.id, (number, problem))
            if first == number:
                continue
            if other.prompt != problem.prompt or other.answer != problem.answer:
                what = "id" if self._fields["id"] else "prompt"
                raise ValueError(
                    f"{path}, {_unit(path)} {number}: the same {what} as {_unit(path)} {first} "
                    f"with another {'prompt or answer' if what == 'id' else 'answer'}; remove one of the two"
                )
            self.dropped["repeated"] += 1
        if not by_id:
            raise ValueError(f"{path}: empty data set, no rows; each row is one problem")
        return [problem for _, problem in by_id.values()]

    def _problem(self, fields: Mapping[str, Any], number: int, file: str, id_prefix: str) -> Problem:
        prompt = _prompt_text(self._get(fields, "prompt"), str(self._fields["prompt"]))
        gold = _text(self._get(fields, "answer"), str(self._fields["answer"]))
        marked = marked_answer(gold)
        gold = (gold if marked is None else marked).strip()
        if not gold:
            raise ValueError(f"field {self._fields['answer']!r} holds no answer; give one or remove the row")
        own_id = _text(self._get(fields, "id"), str(self._fields["id"])) if self._fields["id"] else None
        level = self._get(fields, "level") if self._fields["level"] else 0
        if isinstance(level, bool) or not isinstance(level, int):
            raise ValueError(f"field {self._fields['level']!r} must be a whole number, got {level!r:.80}")
        metadata: dict[str, Any] = {"file": file, "row": number}
        if self._fields["family"]:
            metadata["family"] = _text(self._get(fields, "family"), str(self._fields["family"]))
        text = self._template.replace("{prompt}", prompt)
        return Problem(id_prefix + (own_id or _digest(text)), text, gold, level, metadata)

    def _get(self, fields: Mapping[str, Any], role: str) -> Any:
        name = str(self._fields[role])
        if name in fields:
            return fields[name]
        value: Any = fields
        for part in name.split("."):
            if not isinstance(value, Mapping) or part not in value:
                near = difflib.get_close_matches(name, list(fields), n=1)
                hint = f"; did you mean {near[0]!r}? " if near else "; "
                raise ValueError(
                    f"no field {name!r}{hint}fields present: {', '.join(map(repr, fields)) or 'none'}. "
                    f"Name yours with the option {role}=FIELD"
                )
            value = value[part]
        return value


def read_rows(path: Path) -> Iterator[Row]:
    """Rows of a JSONL or Parquet file. A ValueError names the file and the line or row."""
    if not path.is_file():
        raise FileNotFoundError(f"no data file {path}{_nearest_file(path)}")
    ending = path.suffix.lower()
    if ending == ".jsonl":
        return _read_jsonl(path)
    if ending == ".parquet":
        return _read_parquet(path)
    raise ValueError(f"{path}: cannot read {ending or 'a file without ending'}; use .jsonl or .parquet")


def _read_jsonl(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                text = line.decode("utf-8-sig")
                row = json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant)
            except (ValueError, RecursionError) as error:
                reason = "nested too deeply" if isinstance(error, RecursionError) else error
                raise ValueError(f"{path}, line {number}: not valid JSON ({reason}): {line[:60]!r}") from None
            if not isinstance(row, dict):
                kind = type(row).__name__
                raise ValueError(f"{path}, line {number}: expected one JSON object a line, got {kind}")
            yield number, row


def _read_parquet(path: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path}: not a readable Parquet file ({error})") from None
    yield from enumerate((row for batch in table.to_batches() for row in batch.to_pylist()), start=1)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


def _nearest_file(path: Path) -> str:
    if not path.parent.is_dir():
        return f"; there is no folder {path.parent}"
    siblings = [p.name for p in path.parent.iterdir() if p.suffix.lower() in (".jsonl", ".parquet")]
    near = difflib.get_close_matches(path.name, siblings, n=1, cutoff=0.3)
    if near:
        return f"; the nearest there is {near[0]!r}"
    return f"; {path.parent} holds {len(siblings) or 'no'} other .jsonl or .parquet files"


def _unit(path: Path) -> str:
    return "row" if path.suffix.lower() == ".parquet" else "line"


def _digest(text: str) -> str:
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:16]


def _text(value: Any, name: str) -> str:
    """The field as text: strings and numbers only, and only text that can be encoded."""
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        kind = "is empty (null)" if value is None else f"must be text or a number, got {type(value).__name__}"
        raise ValueError(f"field {name!r} {kind}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"field {name!r} holds a lone surrogate, which is not valid Unicode") from None
    return value


def _prompt_text(value: Any, name: str) -> str:
    if isinstance(value, list):
        users = [m for m in value if isinstance(m, Mapping) and m.get("role") == "user"]
        if len(value) != 1 or len(users) != 1:
            raise ValueError(
                f"field {name!r} is a list that is not exactly one user message; put other text (a system "
                f"prompt) into the option template"
            )
        value = users[0].get("content")
    if not isinstance(value, str):
        kind = "null" if value is None else type(value).__name__
        raise ValueError(f"field {name!r} must be text, got {kind}")
    if not value.strip():
        raise ValueError(f"field {name!r} is empty")
    return _text(value, name)
