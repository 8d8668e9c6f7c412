"""Rewards that say which answers are right: `verdict` (the task's own) and one for each verifier by name."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

from upside.rewards.base import Completions, RewardError, Scores
from upside.tasks.base import Problem, Task, judge
from upside.verifiers import load_verifier
from upside.verifiers.base import Verdict


class VerdictReward:
    """`verdict`: the task's own score of each response, with its correctness."""

    name = "verdict"
    judges = True

    def __init__(self, task: Task) -> None:
        self.task = task

    def __call__(self, completions: Completions) -> Scores:
        """Raises RewardError naming task, row and problem when the task's verifier raises."""
        return _scores(self, f"task {self.task.name!r}", completions)

    def verdicts(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
        return judge(self.task, problems, responses)


class VerifierReward:
    """`math`, `kk`, `geometry`, `exact`: a verifier's score of each response against `problem.answer`, whatever the
    task's own verdict is. options: the verifier's (see `upside.verifiers.load_verifier`).

    A response that the verifier could not judge has no score; what else happens is the verifier's own option.
    """

    judges = True

    def __init__(self, name: str, **options: Any) -> None:
        self.name = name
        try:
            self.verifier = load_verifier(name, **options)
        except (ImportError, TypeError, ValueError) as error:
            raise RewardError(f"reward {name!r}: {error}") from error

    def __call__(self, completions: Completions) -> Scores:
        """Raises RewardError naming row and problem when the verifier raises."""
        return _scores(self, f"verifier {self.name!r}", completions)

    def verdicts(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
        return self.verifier([problem.answer for problem in problems], responses)


def _scores(reward: VerdictReward | VerifierReward, who: str, completions: Completions) -> Scores:
    try:
        found = reward.verdicts(completions.problems, completions.responses)
    except Exception as error:
        raise _failure(reward, who, completions, error) from error
    if len(found) != len(completions):
        raise RewardError(
            f"reward {reward.name!r}: {who} returned {len(found)} verdicts for {len(completions)} responses; return "
            f"one a response"
        )
    for problem, verdict in zip(completions.problems, found, strict=True):
        if not isinstance(verdict, Verdict) or not isinstance(verdict.score, Real | None):
            raise RewardError(
                f"reward {reward.name!r}: {who} returned {verdict!r:.80} for problem {problem.id!r}; return "
                f"Verdict(score, correct), both None where it cannot be judged"
            )
    return Scores([v.score for v in found], [v.correct for v in found], [v.outcome for v in found])


def _failure(
    reward: VerdictReward | VerifierReward, who: str, completions: Completions, error: Exception
) -> RewardError:
    where = f"a batch of {len(completions)}, though on no single row of it"
    for row, (problem, response) in enumerate(zip(completions.problems, completions.responses, strict=True)):
        try:
            reward.verdicts([problem], [response])
        except Exception as alone:
            error = alone
            where = f"row {row} (problem {problem.id!r})"
            break
    return RewardError(
        f"reward {reward.name!r}: {who} failed on {where}: {type(error).__name__}: {error}. A verifier returns "
        f"Verdict(None, None) for a response it cannot judge; it does not raise"
    )
