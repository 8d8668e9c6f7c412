"""`upside replay`: what other estimators would have given on rollouts that somebody logged. No training, no GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from upside.analysis.logs.log import Log, LogError

if TYPE_CHECKING:
    from upside.analysis.replays.result import Replay

DEFAULT = ("grpo", "canon_inter", "canon_dynamic", "adora", "aapo")

__all__ = ["DEFAULT", "replay"]


def replay(log: Log, estimators: Iterable[str] | Mapping[str, str] = DEFAULT, baseline: str | None = None) -> Replay:
    """The advantages that each estimator gives to a log's responses, and how they differ.

    log: see `read_log`. estimators: specs, or {name: spec}. baseline: the name the others are compared with (default:
    the first that can be replayed). An estimator that needs what the log lacks stands in `Replay.left_out` with what
    is missing; ValueError where that leaves none, or for a name or spec that is none.

    Estimators whose values hang on a group alone are computed over the whole log at once, the others step by step:
    the result is the same (`Estimator.group_local`).
    """
    from upside.analysis.comparison.names import read_estimators
    from upside.analysis.replays.measures import measure
    from upside.analysis.replays.result import Replay
    from upside.analysis.replays.values import engines_own, replayed

    if not len(log):
        raise LogError(f"{log.source} holds no responses, only numbers of each step; a replay needs the responses")
    if not log.has("reward"):
        raise LogError(f"{log.source}: no response has a reward; is another column meant? (map reward=COLUMN)")
    specs = read_estimators(estimators)
    if baseline is not None and baseline not in specs:
        raise ValueError(f"baseline: {baseline!r} is none of the estimators {', '.join(map(repr, specs))}")
    found, left_out = replayed(log, specs)
    if not found:
        raise ValueError("no estimator can be replayed: " + "; ".join(f"{k}: {v}" for k, v in left_out.items()))
    if baseline in left_out:
        raise ValueError(f"baseline: {baseline} cannot be replayed: {left_out[baseline]}")
    own = engines_own(log, specs) if log.has("advantage") else {}
    figures = measure(log, found, baseline or next(iter(found)), own)
    return Replay(log, specs, {name: each.values for name, each in found.items()}, left_out, figures)
