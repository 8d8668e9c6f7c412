"""The recipe's rewards as one reward function of TRL, with correctness from the same judgement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import torch

from upside.engines.calls import together
from upside.rewards import Completions, Judgement, RewardError, Rewards
from upside.tasks.base import Problem
from upside.training.outcomes import shares


class TaskReward:
    """Judges each batch once: called by TRL for the score, asked by the trainer for `correct`.

    problems: what the data set's column `problem` points into. ends: token ids that end a response. group_size:
    responses per prompt occurrence; TRL keeps them together in gathered order (rank 0's rows, rank 1's rows, …), so row
    i of all belongs to group i // group_size.

    A process holds a part of the batch, which may begin and end within a group. Where a reward compares responses
    within groups, the rows of all processes are gathered for it (problem, text, lengths, correctness; each process has
    judged its own); without such a reward nothing is sent.
    """

    __name__ = "reward"

    def __init__(self, rewards: Rewards, problems: Sequence[Problem], ends: Collection[int], group_size: int) -> None:
        self.rewards, self.problems, self.ends, self.group_size = rewards, problems, frozenset(ends), group_size
        self._judged: tuple[Any, Judgement] | None = None

    def __call__(
        self,
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        problem: Sequence[int],
        log_metric: Callable[[str, float], None] | None = None,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        judgement = self._judge(completions, completion_ids, problem)
        judged = any(outcome is not None for outcome in judgement.outcomes)
        if log_metric is not None:
            if len(judgement.parts) > 1:
                for name, values in judgement.parts.items():
                    known = [value for value in values if value is not None]
                    if known:
                        log_metric(f"reward_part/{name}", sum(known) / len(known))
            for name, share in shares(judgement.outcomes).items() if judged else ():
                log_metric(name, share)
        if log_extra is not None:
            log_extra("outcome", list(judgement.outcomes))
        return judgement.score

    def correct(
        self,
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        problem: Sequence[int],
        **columns: Any,
    ) -> list[bool | None]:
        """Whether each response is right, None where unknown."""
        if self._judged is None or self._judged[0] is not completions:
            self._judge(completions, completion_ids, problem)
        assert self._judged is not None
        return self._judged[1].correct

    def _judge(
        self, completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], problem: Sequence[int]
    ) -> Judgement:
        batch = Completions(
            problems=[self.problems[index] for index in problem],
            responses=[c if isinstance(c, str) else c[-1]["content"] for c in completions],
            lengths=[len(ids) for ids in completion_ids],
            truncated=[bool(ids) and ids[-1] not in self.ends for ids in completion_ids],
        )

        def whole(part: Completions) -> tuple[Completions, slice]:
            return self._whole(part, problem)

        judgement = self.rewards(batch, whole if self.rewards.needs_groups else None)
        self._judged = (completions, judgement)
        return judgement

    def _whole(self, part: Completions, problem: Sequence[int]) -> tuple[Completions, slice]:
        """The rows of all processes with their groups, and which of them are this process's."""
        correct = [None] * len(part) if part.correct is None else part.correct
        rows, here = _gathered(list(zip(problem, part.responses, part.lengths, part.truncated, correct, strict=True)))
        columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(5)]
        groups = [row // self.group_size for row in range(len(rows))]
        for start in range(0, len(rows), self.group_size):
            group = columns[0][start : start + self.group_size]
            if len(set(group)) != 1 or len(group) != self.group_size:
                raise RewardError(
                    f"rows {start} to {start + len(group) - 1} of the gathered batch are no whole group of "
                    f"{self.group_size} responses to one prompt, so rewards within groups would compare strangers: "
                    f"keep TRL's own sampler and data order"
                )
        everything = replace(
            part,
            problems=[self.problems[index] for index in columns[0]],
            responses=columns[1],
            lengths=columns[2],
            truncated=columns[3],
            correct=None if part.correct is None else columns[4],
            groups=groups,
        )
        return everything, here


def _gathered(rows: list[Any]) -> tuple[list[Any], slice]:
    """The rows of all processes in rank order, and where this process's are."""
    parts = together(rows)
    if len(parts) == 1:
        return rows, slice(0, len(rows))
    start = sum(len(part) for part in parts[: torch.distributed.get_rank()])
    return [row for part in parts for row in part], slice(start, start + len(rows))
