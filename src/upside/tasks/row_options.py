"""What a user may say of how rows become problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from upside.tasks.fields import Column, whole_numbers
from upside.tasks.templates import PromptTemplate, template


@dataclass(frozen=True)
class RowOptions:
    """How rows become problems.

    prompt, answer, id, level, family, image: names of columns; a dot descends (`reward_model.ground_truth`); a list
        means the first of them that a row has. prompt: text, or a list of messages: one of the user, before it at most
        a system message. answer: text, a number or a list of texts; of a worked solution only what is marked (`####`,
        `\\boxed{}`) is kept. id: without it the id is a hash of the prompt, the same on every machine. level: a whole
        number, or text such as "Level 3". image: one picture or a list of them (`upside.tasks.pictures.pictures_of`).
    template: text around the prompt with `{prompt}` in it, or a name of `upside.tasks.templates`.
    system: the system prompt; None takes the template's, else the row's; "" is none at all.
    chat: False for a base model: plain text, no chat template. None: as the template says.
    verifier: name of the verifier, or {name: …, option: value, …}.
    levels: keep the rows of these levels only: [lowest, highest], or text "3-5".
    test_share: share of the problems that the hash of the prompt puts into test, where there is no test set of its
        own (0: all train, 1: all test).
    conflicts: what the same problem with two answers is: "error", or "drop" to leave all of them out.
    """

    prompt: Column = "prompt"
    answer: Column = "answer"
    id: Column | None = None
    level: Column | None = None
    family: Column | None = None
    image: Column | None = None
    template: str = "{prompt}"
    system: str | None = None
    chat: bool | None = None
    verifier: str | Mapping[str, Any] = "exact"
    levels: Sequence[int] | str | None = None
    test_share: float = 0.2
    conflicts: str = "error"

    def __post_init__(self) -> None:
        for role in ("prompt", "answer", "id", "level", "family", "image"):
            self._check_column(role, getattr(self, role))
        if not isinstance(self.test_share, int | float) or not 0 <= self.test_share <= 1:
            raise ValueError(f"test_share must be between 0 and 1, got {self.test_share!r}")
        if self.conflicts not in ("error", "drop"):
            raise ValueError(f"conflicts must be error or drop, got {self.conflicts!r}")
        if not isinstance(self.verifier, str | Mapping):
            raise ValueError(f"verifier must be a name, or name and options, got {self.verifier!r}")
        if self.chat is not None and not isinstance(self.chat, bool):
            raise ValueError(f"chat must be true or false, got {self.chat!r}")
        if self.system is not None and not isinstance(self.system, str):
            raise ValueError(f"system must be text, got {self.system!r}")
        if self.around.system and not self.around.chat:
            raise ValueError(
                "system: a plain-text prompt (chat: false) has no system prompt; write it into template, or set "
                'system: ""'
            )
        if self.level_range is not None and self.level is None:
            raise ValueError("levels: which column holds the level? Name it with the option level=COLUMN")

    def _check_column(self, role: str, column: Any) -> None:
        names = [column] if isinstance(column, str) else column
        if column is None and role in ("id", "level", "family", "image"):
            return
        if not isinstance(names, list | tuple) or not names or not all(isinstance(n, str) and n for n in names):
            raise ValueError(f"{role} must be the name of a column, got {column!r}")

    @cached_property
    def around(self) -> PromptTemplate:
        """The template with the options `system` and `chat` applied."""
        named = template(self.template)
        system = named.system if self.system is None else self.system
        chat = named.chat if self.chat is None else self.chat
        return PromptTemplate(named.text, system, chat, named.source)

    @property
    def pictures(self) -> Sequence[str]:
        """The columns that `image` names."""
        return [self.image] if isinstance(self.image, str) else self.image or []

    @cached_property
    def level_range(self) -> tuple[int, int] | None:
        """(lowest, highest), both kept; None keeps all."""
        if self.levels is None:
            return None
        numbers = whole_numbers(self.levels, "levels")
        if (len(numbers) != 2 and not isinstance(self.levels, str)) or not numbers or numbers[0] > numbers[-1]:
            raise ValueError(f"levels must be [lowest, highest], got {self.levels!r}")
        return numbers[0], numbers[-1]
