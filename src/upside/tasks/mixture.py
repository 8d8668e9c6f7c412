"""Several tasks as one, interleaved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from upside.tasks.base import Problem, Split, Task, Verdict, check_request


class Mixture:
    """Equal parts of several tasks in turn: a, b, a, b, … Each problem carries its part's name in
    `metadata["task"]`, by which it is judged; ids, levels and splits are those of the parts."""

    def __init__(self, name: str, parts: Sequence[Task]) -> None:
        self.name = name
        self.parts = {part.name: part for part in parts}
        if not parts or len(self.parts) != len(parts):
            names = [part.name for part in parts]
            raise ValueError(f"mixture {name!r} needs parts with distinct names, got {names}")

    def problems(self, split: Split, count: int | None = None, seed: int = 0) -> list[Problem]:
        """`count` problems, the first part getting the odd one; None takes all of every (finite) part."""
        check_request(self.name, split, count)
        share, extra = divmod(count, len(self.parts)) if count is not None else (None, 0)
        columns = []
        for i, (name, part) in enumerate(self.parts.items()):
            wanted = None if share is None else share + (i < extra)
            rows = part.problems(split, wanted, seed) if wanted != 0 else []
            columns.append([replace(p, metadata={**p.metadata, "task": name}) for p in rows])
        depth = max(len(column) for column in columns)
        mixed = [column[row] for row in range(depth) for column in columns if row < len(column)]
        self._check_ids(mixed)
        return mixed

    def _check_ids(self, problems: Sequence[Problem]) -> None:
        seen: dict[str, Problem] = {}
        for problem in problems:
            other = seen.setdefault(problem.id, problem)
            if other is not problem:
                raise ValueError(
                    f"mixture {self.name!r}: id {problem.id!r} occurs in {other.metadata['task']!r} and "
                    f"{problem.metadata['task']!r}; ids of the parts must differ"
                )

    def part_of(self, problem: Problem) -> Task:
        """The task a problem of this mixture came from."""
        name = problem.metadata.get("task")
        if name not in self.parts:
            raise ValueError(f"problem {problem.id!r} is not of mixture {self.name!r} (its task is {name!r})")
        return self.parts[name]

    def verify(self, problem: Problem, response: str) -> Verdict:
        """Judged by the part the problem came from."""
        return self.part_of(problem).verify(problem, response)
