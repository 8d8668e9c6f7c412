"""The recipe's rewards as one reward function of TRL, with correctness from the same judgement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from upside.rewards import Completions, Judgement, Rewards
from upside.tasks.base import Problem


class TaskReward:
    """Judges each batch once: called by TRL for the score, asked by the trainer for `correct`.

    problems: what the data set's column `problem` points into. ends: token ids that end a response.
    """

    __name__ = "reward"

    def __init__(self, rewards: Rewards, problems: Sequence[Problem], ends: Collection[int]) -> None:
        self.rewards, self.problems, self.ends = rewards, problems, frozenset(ends)
        self._judged: tuple[Any, Judgement] | None = None

    def __call__(
        self,
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        problem: Sequence[int],
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        judgement = self._judge(completions, completion_ids, problem)
        if log_metric is not None and len(judgement.parts) > 1:
            for name, values in judgement.parts.items():
                known = [value for value in values if value is not None]
                if known:
                    log_metric(f"reward_part/{name}", sum(known) / len(known))
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
        judgement = self.rewards(batch)
        self._judged = (completions, judgement)
        return judgement
