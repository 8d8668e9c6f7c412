"""`python:module:function`: a reward function of the user's own."""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

from upside.rewards.base import Completions, RewardError, Scores
from upside.rewards.lengths import by_group
from upside.usercode import import_function

ARGUMENTS = ("problems", "responses", "lengths", "truncated", "groups", "correct")


class UserReward:
    """Calls the user's function with those of `problems, responses, lengths, truncated, groups, correct` that its
    signature names (each a list of N; `problems` holds upside.tasks.Problem), and with `options` as further keywords.

    A function that names `groups` (one id a response) is given whole groups in training, whichever process holds their
    rows; one that names `correct` (True, False, None) runs after the reward that judges. RewardError where a batch has
    none of what it names. A function with `**keywords` is given of these two what the batch has.

    The function returns N scores: numbers, bools, or None where no score can be computed. A NaN or infinite
    score counts as None. What it raises becomes a RewardError that names the function and the first row that
    alone raises too.
    """

    def __init__(self, path: str, **options: Any) -> None:
        self.name = f"python:{path}"
        self.function = import_function(path, f"reward {self.name!r}", "my_rewards:short", RewardError)
        self.options = options
        self._arguments, named = self._check_signature()
        self.needs_groups, self.needs_correct = "groups" in named, "correct" in named

    def __call__(self, completions: Completions) -> Scores:
        if self.needs_groups:
            by_group(completions, self.name)
        if self.needs_correct:
            completions.judged(self.name)
        try:
            returned = self._call(completions)
        except Exception as error:
            raise self._failure(completions, error) from error
        return self._scores(returned, len(completions))

    def _call(self, completions: Completions) -> Any:
        columns = {name: getattr(completions, name) for name in self._arguments}
        given = {name: list(column) for name, column in columns.items() if column is not None}
        return self.function(**given, **self.options)

    def _check_signature(self) -> tuple[list[str], set[str]]:
        """What the function can be given, and what of it the signature names."""
        parameters = inspect.signature(self.function).parameters.values()
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        anything = any(p.kind == p.VAR_KEYWORD for p in parameters)
        unknown = [option for option in self.options if option not in names and not anything]
        if unknown:
            near = difflib.get_close_matches(unknown[0], names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it takes {', '.join(names)}"
            raise RewardError(f"reward {self.name!r} has no option {unknown[0]!r}{hint}")
        needed = [p.name for p in parameters if p.default is p.empty and p.name in names]
        missing = [name for name in needed if name not in ARGUMENTS and name not in self.options]
        if missing or ("responses" not in names and not anything):
            raise RewardError(
                f"reward {self.name!r}: its parameters must include 'responses' and may be "
                f"{', '.join(ARGUMENTS)} or options of the recipe"
                + (f"; nothing gives {', '.join(map(repr, missing))}" if missing else "")
            )
        given = [name for name in ARGUMENTS if (name in names or anything) and name not in self.options]
        return given, set(given) & set(names)

    def _failure(self, completions: Completions, error: Exception) -> RewardError:
        where = f"the batch of {len(completions)}, though on no single row of it"
        for row in range(len(completions)):
            try:
                self._call(completions.row(row))
            except Exception as alone:
                error = alone
                where = f"row {row} (problem {completions.problems[row].id!r})"
                where += f", response {completions.responses[row]!r:.120}"
                break
        return RewardError(
            f"reward {self.name!r} raised {type(error).__name__}: {error} on {where}. Catch it in the "
            f"function and return None for a response that cannot be scored"
        )

    def _scores(self, returned: Any, count: int) -> Scores:
        if hasattr(returned, "tolist"):  # a tensor or an array
            returned = returned.tolist()
        if isinstance(returned, (str, bytes)) or not isinstance(returned, Sequence):
            raise RewardError(
                f"reward {self.name!r} returned {type(returned).__name__}; return a list of {count} scores, "
                f"one a response (a float, or None where none can be computed)"
            )
        if len(returned) != count:
            raise RewardError(
                f"reward {self.name!r} returned {len(returned)} scores for {count} responses; return one a "
                f"response, None where none can be computed"
            )
        values = [self._number(value, row) for row, value in enumerate(returned)]
        finite = [value if value is not None and math.isfinite(value) else None for value in values]
        return Scores(finite, not_finite=sum(v is not None and not math.isfinite(v) for v in values))

    def _number(self, value: Any, row: int) -> float | None:
        if hasattr(value, "item") and not isinstance(value, Real):
            value = value.item()
        if value is None:
            return None
        if not isinstance(value, Real):
            raise RewardError(
                f"reward {self.name!r} returned {value!r:.80} ({type(value).__name__}) for row {row}; "
                f"a score is a number, or None where none can be computed"
            )
        try:
            return float(value)
        except OverflowError:  # a whole number beyond what a float holds
            return math.inf
