"""Why each response of a log got its advantage: groups with their numbers after every stage, in sentences."""

from __future__ import annotations

from upside.analysis.blocks import Groups
from upside.analysis.logs import Log
from upside.chains import Estimator


def explain_groups(
    log: Log,
    estimator: str | Estimator | None = None,
    *,
    step: int | None = None,
    group: int | None = None,
    prompt: str | None = None,
    kind: str | None = None,
    limit: int | None = 240,
    characters: int = 2_000_000,
) -> Groups:
    """Groups of a log, explained: `values` of a response is {column name: number, text or None}.

    estimator: what explains; None is the run's own (grpo where the log names none, with a note).
    step, group (its number within the step, from 0; without step: of the last), prompt (a part of its text), kind (a
    tag): which groups. limit: at most so many, an instructive choice spread over steps and kinds; None: all.
    characters: budget for all texts together; the longest are cut in the middle and say how much is missing.
    Raises ValueError when nothing fits, or the estimator needs what the log does not have.
    """
    raise NotImplementedError
