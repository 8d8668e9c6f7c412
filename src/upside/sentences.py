"""What a stage says about its work, beside its formula: `why(seen) -> Why`.

    def why(seen):  # of a stage that adds 0.1 to short responses
        return ["short: 0.1 more" if n < 10 else "" for n in seen.rollouts.lengths.tolist()]

    @upside.register_stage("short_first", why=why)  # a stage that is a dataclass has a method `why` instead

`upside.explanation` joins what the stages of a chain say and adds the value after each. Every number in a sentence
comes from the tensors that the formula used, with four digits (`num`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import Tensor

from upside.groups import Groups
from upside.metrics import ZERO
from upside.rollouts import Rollouts


@dataclass(frozen=True)
class Why:
    """responses: (N,) clauses, one per response, without the value that comes out. groups: (K,) clauses on the group
    as a whole, or nothing. An empty clause: nothing to say."""

    responses: Sequence[str]
    groups: Sequence[str] = ()


@dataclass(frozen=True)
class Seen:
    """One batch as a stage saw it.

    before: (N,) float64 values that it was handed, for a baseline the rewards; 0 on invalid rows. after: (N,) what it
    made of them. columns, metrics: what it noted. options: all options by name.
    """

    rollouts: Rollouts
    before: Tensor
    after: Tensor
    columns: Mapping[str, Tensor] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def groups(self) -> Groups:
        return self.rollouts.grouping

    @cached_property
    def index(self) -> list[int]:
        """Group of each row. (N,)"""
        return self.rollouts.group_index.tolist()

    def by_row(self, per_group: Sequence[str]) -> list[str]:
        """(K,) -> (N,), silent where the stage was handed a 0, which nothing but an addition can change."""
        return [
            per_group[k] if abs(value) > ZERO else "" for k, value in zip(self.index, self.before.tolist(), strict=True)
        ]


def nothing_to_compare(seen: Seen) -> list[str]:
    """For a baseline: why a group gets 0, or "" where its rewards differ. (K,)"""
    groups = seen.groups
    rewards = groups.max(seen.before).nan_to_num(neginf=0.0)  # a group without a reward: the chain says so
    facts = groups.constant(seen.before), groups.size, groups.full_size, rewards
    return [
        _alike(size, full, reward) if same else ""
        for same, size, full, reward in zip(*(fact.tolist() for fact in facts), strict=True)
    ]


def _alike(size: float, full: int, reward: float) -> str:
    if size == 1:
        return f"the only response of its group{' with a reward' if full > 1 else ''}, nothing to compare"
    return f"{'both' if size == 2 else f'all {size:.0f}'} responses earned {num(reward)}, nothing to compare"


def against(seen: Seen, name: str, baseline: Tensor, alike: Sequence[str]) -> list[str]:
    """'reward 1 against {name} 0.25', or the group's entry of `alike` where that says something. baseline: (N,)"""
    return [
        alike[k] or f"reward {num(r)} against {name} {apart(b, r)[0]}"
        for k, r, b in zip(seen.index, seen.before.tolist(), baseline.tolist(), strict=True)
    ]


def num(value: float, digits: int = 4) -> str:
    """A number with four digits, whole ones in full, at most 1e-8 as 0."""
    if abs(value) <= ZERO:
        return "0"
    if value == round(value) or abs(value) >= 10**digits:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def signed(value: float) -> str:
    """As `num`, with a plus."""
    return f"+{num(value)}" if value > ZERO else num(value)


def apart(a: float, b: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to tell them apart."""
    digits = next((d for d in range(4, 18) if num(a, d) != num(b, d)), 4) if a != b else 4
    return num(a, digits), num(b, digits)


def compared(a: float, b: float, holds: str, fails: str, name: str = "") -> str:
    """'300 > {name}225': `holds` is ">" or "<=", `fails` its opposite."""
    left, right = apart(a, b)
    return f"{left} {holds if (a > b) == (holds == '>') else fails} {name}{right}"


def count(n: float, thing: str) -> str:
    """'1 response', '3 responses'."""
    return f"{n:.0f} {thing}{'' if n == 1 else 's'}"
