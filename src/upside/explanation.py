"""Why did this response get this advantage? What each stage saw and did, in numbers and in sentences."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from torch import Tensor

from upside.chains import Estimator, Stage
from upside.chains import estimator as build
from upside.metrics import ZERO
from upside.registry import options
from upside.rollouts import Rollouts
from upside.sentences import Seen, Why, count, num, signed

LEFT_OUT = "No reward could be computed: left out, advantage 0."


def explain(estimator: Estimator | str, rollouts: Rollouts, *, why: bool = True) -> list[dict[str, Any]]:
    """One dict per response, in row order, of plain Python values; None where something is missing.

    Keys: row, group, valid, reward; each optional field that the batch has (length, entropy, correct, truncated,
    reference_reward, named metrics); what stages noted (metric, half: 1 high, 0 low, between: shared; weight, tas,
    success, margin); `after_<stage>` for the value after each stage in order; advantage, the last of them;
    why, a sentence (why=False: without it). Names that occur twice are told apart by a number: after_whiten,
    after_whiten_2.
    """
    explained = Explanation(estimator, rollouts)
    columns = explained.columns()
    if why:
        columns["why"] = explained.responses
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def why(estimator: Estimator | str, rollouts: Rollouts) -> dict[Any, str]:
    """One sentence per group: group id -> what the estimator made of the prompt."""
    return dict(zip(_ids(rollouts), Explanation(estimator, rollouts).groups, strict=True))


class Explanation:
    """An estimator on one batch: `columns()` in numbers, `responses` (N,) and `groups` (K,) in sentences."""

    def __init__(self, estimator: Estimator | str, rollouts: Rollouts) -> None:
        self.estimator, self.rollouts = build(estimator), rollouts
        self.outputs = self.estimator.trace(rollouts)

    @property
    def advantages(self) -> Tensor:
        """(N,) float64"""
        return self.outputs[-1].values

    def columns(self) -> dict[str, list[Any]]:
        """name -> (N,) plain values, under the keys of `explain`."""
        rollouts = self.rollouts
        ids = _ids(rollouts)
        columns: dict[str, list[Any]] = {
            "row": list(range(len(rollouts))),
            "group": [ids[k] for k in rollouts.group_index.tolist()],
            "valid": rollouts.valid.tolist(),
            "reward": _plain(rollouts.rewards),
        }
        named = {
            "length": rollouts.lengths,
            "entropy": rollouts.entropy,
            "correct": rollouts.correct,
            "truncated": rollouts.truncated,
            "reference_reward": rollouts.reference_rewards,
            **rollouts.metrics,
        }
        columns |= {name: _plain(value) for name, value in named.items() if value is not None}
        for stage, output in zip(self.estimator.stages, self.outputs, strict=True):
            for name, value in output.columns.items():
                columns[_free(name, columns)] = _plain(value)
            columns[_free(f"after_{stage.info.name}", columns)] = _plain(output.values)
        return columns | {"advantage": _plain(self.advantages)}

    @cached_property
    def responses(self) -> list[str]:
        """Why each response has its advantage, the value after each stage in it. (N,)"""
        clauses = zip(*(self._clauses(i) for i in range(len(self.outputs))), strict=True)
        valid = self.rollouts.valid.tolist()
        return [_sentence(row) if known else LEFT_OUT for row, known in zip(clauses, valid, strict=True)]

    @cached_property
    def groups(self) -> list[str]:
        """What became of each group. (K,)"""
        groups, values = self.rollouts.grouping, self.advantages
        told = [why.groups for why in self._told if why.groups]
        ends = zip(groups.min(values).tolist(), groups.max(values).tolist(), strict=True)
        sizes = zip(groups.size.tolist(), groups.full_size.tolist(), strict=True)
        return [
            _group_sentence([clauses[k] for clauses in told], size, full, *end)
            for k, ((size, full), end) in enumerate(zip(sizes, ends, strict=True))
        ]

    @cached_property
    def _told(self) -> list[Why]:
        """What each stage says; a stage without a hook says nothing."""
        befores = [self.rollouts.scores, *(output.values for output in self.outputs)]
        return [
            _tell(stage, Seen(self.rollouts, before, output.values, output.columns, output.metrics, _options(stage)))
            for stage, before, output in zip(self.estimator.stages, befores, self.outputs, strict=False)
        ]

    def _clauses(self, i: int) -> list[str]:
        """Of stage i with the value after it; "" where it did nothing and says nothing. (N,)"""
        name = self.estimator.stages[i].info.name
        before = (self.outputs[i - 1].values if i else self.rollouts.scores).tolist()
        after = self.outputs[i].values.tolist()
        return [
            f"{text}: {signed(b)}" if text else f"{name}: {num(a)} -> {signed(b)}" if abs(a - b) > ZERO or not i else ""
            for text, a, b in zip(self._told[i].responses, before, after, strict=True)
        ]


def _tell(stage: Stage, seen: Seen) -> Why:
    n, k = len(seen.rollouts), seen.groups.count
    if stage.why is None:
        return Why([""] * n)
    told = stage.why(seen)
    told = told if isinstance(told, Why) else Why(told)
    if len(told.responses) != n or len(told.groups) not in (0, k):
        raise ValueError(
            f"stage {stage.info.name}: its `why` gave {len(told.responses)} clauses for {n} responses "
            f"and {len(told.groups)} for {k} groups; give one for each, or nothing on the groups"
        )
    return told


def _options(stage: Stage) -> dict[str, Any]:
    return {**options(stage.info.options_of), **stage.options}


def _sentence(clauses: tuple[str, ...] | list[str]) -> str:
    text = "; ".join(clause for clause in clauses if clause)
    return text[:1].upper() + text[1:] + "."


def _group_sentence(clauses: list[str], size: float, full: float, low: float, high: float) -> str:
    if not size:
        return f"None of its {full} responses has a reward: left out."
    if size < full:
        clauses = [*clauses, f"{count(full - size, 'response')} without a reward left out"]
    ends = signed(low), signed(high)
    span = f"advantage {ends[0]}" if ends[0] == ends[1] else "advantages {} to {}".format(*ends)
    return _sentence([*clauses, span])


def _plain(value: Tensor) -> list[Any]:
    return [None if x != x else x for x in value.tolist()]


def _ids(rollouts: Rollouts) -> list[Any]:
    ids = rollouts.group_ids
    return ids.tolist() if isinstance(ids, Tensor) else ids


def _free(name: str, taken: dict[str, list[Any]]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free
