"""ADORA: Advantage Dynamics via Online Rollout Adaptation (Ren et al. 2026, arXiv 2602.10019).

A prompt s is a Temporarily Advantageous Sample (TAS) or a Temporarily Disadvantageous one (TDS) by what its own
fresh rollouts show; nothing is remembered from step to step. S are its successes, F its failures, L lengths:

    (5)  Length Advantage      LA(s):  max_{i in S} L_i > L_fail = mean_{i in F} L_i        strict
    (6)  Difficulty Advantage  DA(s):  |S| / G <= tau                                       inclusive
    (7)  attenuate (weak base, vision-language):  TAS iff LA;         w_s = 1 if TAS else 0.1
    (8)  amplify (strong base, text):             TAS iff LA and DA;  w_s = 2 if TAS else 1
    (4)  A_i <- w_s A_i                           after every normalisation: before it, w_s would cancel

Equations 5 and 6 and the constants are known from public reviews of the paper, the numbers 7 and 8 are ours, and
that (8) joins its criteria by "and" is the more likely reading, not a confirmed one: hence `criteria`.
L_fail as a mean is what the released code and the authors' blog say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from upside.chains import StageOutput
from upside.registry import register_stage
from upside.rollouts import Rollouts
from upside.sentences import Seen, Why, compared, num

Side = Literal["tas", "tds"]
RELEASED = {
    "released_llm": {"success_above": 1.01, "truncation_length": 4054, "no_success": "tds", "no_failure": "tas"},
    "released_vl": {"success_above": 0.5, "truncation_length": 4094, "no_success": "tas", "no_failure": "tds"},
}


@register_stage(
    "adora_weight",
    kind="weight",
    formula="w_s A_i;  w_s = weight_tas for an advantageous prompt (longest success > mean failure) else weight_tds",
    source="ADORA equations 4-6 (arXiv 2602.10019)",
)
@dataclass(frozen=True)
class AdoraWeight:
    """One weight per prompt, for positive and negative advantages alike; a group's sum stays 0.

    mode: "attenuate" disadvantageous prompts (weights 1 and 0.1, criteria "length") or "amplify" advantageous ones
        (weights 2 and 1, criteria "and").
    criteria: what makes a prompt advantageous: "length", "difficulty", "and", "or". None: the mode's.
    tau: success rate up to which a prompt counts as difficult, in [0, 1].
    weight_tas, weight_tds: the two weights. None: the mode's.
    success_above: a response succeeds if its reward is strictly above this. None: Rollouts.correct where the batch
        has it, else reward > 0.5.
    truncation_length: failures of at least this many tokens stay out of L_fail. None: all count (the paper says
        nothing of a cut).
    no_success, no_failure: how LA turns out ("tas" or "tds") when no response succeeded, or none (that counts)
        failed. None: "tds", except no_success under attenuate, which is "tas": an all-wrong group is not
        attenuated by a length rule that cannot be evaluated.
    normalize_mean_weight: divide the weights by their mean over the batch's rows, so that the mean step stays as
        it was.
    compat: "released_llm" (success > 1.01, failures under 4054 tokens, no success attenuates, no failure does not)
        or "released_vl" (0.5; 4094; the other way round). Differs from the paper in exactly these options; both
        attenuate by 0.1, and neither released code has the difficulty criterion or the amplification.
    """

    mode: Literal["attenuate", "amplify"] = "attenuate"
    criteria: Literal["length", "difficulty", "and", "or"] | None = None
    tau: float = 0.5
    weight_tas: float | None = None
    weight_tds: float | None = None
    success_above: float | None = None
    truncation_length: int | None = None
    no_success: Side | None = None
    no_failure: Side | None = None
    normalize_mean_weight: bool = False
    compat: Literal["released_llm", "released_vl"] | None = None

    def __post_init__(self) -> None:
        attenuate = self.mode == "attenuate"
        defaults = {
            "criteria": "length" if attenuate else "and",
            "weight_tas": 1.0 if attenuate else 2.0,
            "weight_tds": 0.1 if attenuate else 1.0,
            "no_success": "tas" if attenuate else "tds",
            "no_failure": "tds",
        } | (RELEASED[self.compat] if self.compat else {})
        for name, value in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        if not 0 <= self.tau <= 1:
            raise ValueError(f"adora_weight: tau={self.tau} must lie in [0, 1]: it is a success rate")
        if self.truncation_length is not None and self.truncation_length < 1:
            raise ValueError(f"adora_weight: truncation_length={self.truncation_length} must be at least 1 token")
        for name in ("weight_tas", "weight_tds"):
            if getattr(self, name) < 0:
                raise ValueError(f"adora_weight: {name}={getattr(self, name)} must not be negative")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset(() if self.criteria == "difficulty" else {"lengths"})

    @property
    def group_local(self) -> bool:
        return not self.normalize_mean_weight

    def __call__(self, rollouts: Rollouts, advantages: Tensor) -> StageOutput:
        groups = rollouts.grouping
        success = rollouts.success(self.success_above)  # (N,)
        tas = self._advantageous(rollouts, success)  # (K,)
        high, low = (
            torch.tensor(w, dtype=torch.float64, device=tas.device) for w in (self.weight_tas, self.weight_tds)
        )
        weight = groups.spread(torch.where(tas, high, low))  # (N,) w_s
        mean = weight[rollouts.valid].mean() if bool(rollouts.valid.any()) else weight.new_ones(())
        if self.normalize_mean_weight and bool(mean > 0):
            weight = weight / mean
        live = groups.size > 0
        share = float((tas & live).sum()) / max(float(live.sum()), 1.0)
        metrics = {"adora_tas_share": share, "adora_mean_weight": float(mean)}
        return StageOutput(
            weight * advantages, metrics, {"weight": weight, "tas": groups.spread(tas), "success": success}
        )

    def _advantageous(self, rollouts: Rollouts, success: Tensor) -> Tensor:
        """(K,) bool: the prompt is a TAS."""
        if self.criteria == "difficulty":
            return self._difficulty_advantage(rollouts, success)
        if self.criteria == "length":
            return self._length_advantage(rollouts, success)
        both = self._length_advantage(rollouts, success), self._difficulty_advantage(rollouts, success)
        return both[0] & both[1] if self.criteria == "and" else both[0] | both[1]

    def _length_advantage(self, rollouts: Rollouts, success: Tensor) -> Tensor:
        """Equation 5. (K,) bool"""
        longest, failed = self._lengths(rollouts, success)
        longer = torch.where(failed.isnan(), self.no_failure == "tas", longest > failed)
        return torch.where(longest.isnan(), self.no_success == "tas", longer)

    def _lengths(self, rollouts: Rollouts, success: Tensor) -> tuple[Tensor, Tensor]:
        """Longest success and L_fail, NaN where there is none. (K,), (K,)"""
        groups, lengths = rollouts.grouping, rollouts.lengths
        counted = ~success if self.truncation_length is None else ~success & (lengths < self.truncation_length)
        successes, failures = groups.where(success), groups.where(counted)
        longest = torch.where(successes.size == 0, torch.nan, successes.max(lengths))
        return longest, torch.where(failures.size == 0, torch.nan, failures.mean(lengths))

    def _difficulty_advantage(self, rollouts: Rollouts, success: Tensor) -> Tensor:
        """Equation 6. (K,) bool"""
        groups = rollouts.grouping
        return groups.mean(success) <= self.tau  # a quotient: 29 of 100 is 0.29, where 0.29 * 100 is below 29

    def why(self, seen: Seen) -> Why:
        rollouts, success = seen.rollouts, seen.rollouts.success(self.success_above)
        tas = self._advantageous(rollouts, success).tolist()
        said = [f"ADORA: {', '.join(parts)}" for parts in zip(*self._criteria(rollouts, success), strict=True)]
        mean = f" / mean weight {num(seen.metrics['adora_mean_weight'])}" if self.normalize_mean_weight else ""
        weights = [num((self.weight_tas if yes else self.weight_tds) or 0.0) for yes in tas]
        clauses = [f"{text}, weight {weight}{mean}" for text, weight in zip(said, weights, strict=True)]
        return Why(seen.by_row(clauses), clauses)

    def _criteria(self, rollouts: Rollouts, success: Tensor) -> list[list[str]]:
        """How each criterion turned out, and what they make together. Each (K,)"""
        parts = []
        if self.criteria != "difficulty":
            longest, failed = self._lengths(rollouts, success)
            parts.append([self._length_clause(*pair) for pair in zip(longest.tolist(), failed.tolist(), strict=True)])
        if self.criteria != "length":
            rates = rollouts.grouping.mean(success).tolist()
            parts.append([f"success rate {compared(rate, self.tau, '<=', '>')}" for rate in rates])
        if len(parts) == 2:
            words = ("both", "not both") if self.criteria == "and" else ("one is enough", "neither")
            parts.append([words[not tas] for tas in self._advantageous(rollouts, success).tolist()])
        return parts

    def _length_clause(self, longest: float, failed: float) -> str:
        under = f" in under {self.truncation_length} tokens" if self.truncation_length else ""
        sides = (longest, "succeeded", self.no_success), (failed, f"failed{under}", self.no_failure)
        for length, what, side in sides:
            if length != length:
                return f"no response {what} (taken as {'' if side == 'tas' else 'dis'}advantageous)"
        return f"longest success {compared(longest, failed, '>', '<=', 'mean failed length ')}"
