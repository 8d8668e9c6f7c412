"""A log as the checks read it: series over the steps, groups, and what counts as early, recent and learned."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from upside.analysis.doctor.checks import Missing
from upside.analysis.logs import Log
from upside.analysis.logs.metrics_only import canonical
from upside.metrics import ZERO

TREND = 20  # steps from which a trend is read: below it the two windows are a handful of noisy points each
MEANS = {  # series -> the column of which it is the mean over a step's responses
    "reward": "reward",
    "accuracy": "correct",
    "length": "length",
    "truncated_share": "truncated",
    "entropy": "entropy",
    "reference_reward": "reference_reward",
}
CORRECTNESS = ("verdict", "correct", "accuracy", "acc", "math", "answer")  # in the name of a term for the answer
SPREADS = {"reward_std": "reward", "advantage_std": "advantage"}


@dataclass(frozen=True)
class Series:
    """A number at each of T steps, without the steps that lack it. steps: (T,) ascending; values: (T,)."""

    name: str
    steps: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.values)

    @property
    def width(self) -> int:
        """Steps of a window: a tenth of the run, at least 5."""
        return max(5, len(self) // 10)

    @property
    def whole(self) -> float:
        return float(self.values.mean())

    @property
    def early(self) -> float:
        """Mean over the first window."""
        return float(self.values[: self.width].mean())

    @property
    def recent(self) -> float:
        """Mean over the last window."""
        return float(self.values[-self.width :].mean())

    @property
    def recent_steps(self) -> list[int]:
        return [int(self.steps[max(0, len(self) - self.width)]), int(self.steps[-1])]

    def trend(self) -> Series:
        """The series itself; Missing where it is too short to tell a trend."""
        if len(self) < TREND:
            raise Missing(f"{len(self)} steps with {self.name}; a trend needs {TREND}")
        return self

    def gain(self, start: int = 0, width: int | None = None) -> tuple[float, float]:
        """Recent minus early mean (early: from the step at index `start`), and that in standard errors."""
        width = width or self.width
        first, last = self.values[start : start + width], self.values[-width:]
        noise = float(np.sqrt(first.var() / len(first) + last.var() / len(last)))
        gain = float(last.mean() - first.mean())
        if abs(gain) < 1e-9:
            return 0.0, 0.0
        return gain, gain / noise if noise > 0 else float(np.copysign(np.inf, gain))

    def rolling(self) -> np.ndarray:
        """Means of all windows. (T - width + 1,)"""
        return np.convolve(self.values, np.ones(self.width) / self.width, mode="valid")


@dataclass(frozen=True)
class Grouping:
    """The K groups of a log. order: (N,) rows sorted by group; starts: (K,) where each begins in it; step, size: (K,);
    low, high: (K,) of the rewards, NaN without any; right, wrong: (K,) bool, all of them (see `View.success`)."""

    order: np.ndarray
    starts: np.ndarray
    step: np.ndarray
    size: np.ndarray
    low: np.ndarray
    high: np.ndarray
    right: np.ndarray
    wrong: np.ndarray

    @property
    def constant(self) -> np.ndarray:
        """Equal rewards in a group of more than one. (K,) bool"""
        return (self.low == self.high) & (self.size > 1)

    @property
    def usual(self) -> int:
        """The commonest group size."""
        sizes, counts = np.unique(self.size, return_counts=True)
        return int(sizes[counts.argmax()])

    def spread(self, values: np.ndarray) -> np.ndarray:
        """(K,) -> (N,) in row order."""
        rows = np.empty(len(self.order), dtype=values.dtype)
        rows[self.order] = np.repeat(values, self.size)
        return rows

    def all_same(self, codes: np.ndarray) -> np.ndarray:
        """Whether (N,) values are equal within each group. (K,) bool"""
        ordered = codes[self.order]
        return np.minimum.reduceat(ordered, self.starts) == np.maximum.reduceat(ordered, self.starts)


class View:
    """One log; what several checks read is computed once."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.metrics = [canonical(row) for row in log.metrics]

    # ---- series -------------------------------------------------------------------------------------------------

    def series(self, name: str) -> Series:
        """A number over the steps: as the engine logged it, else measured on the rollouts. Missing without either."""
        found = self.known(name)
        if found is None or not len(found):
            raise Missing(f"the log has no {name}")
        return found

    def known(self, name: str) -> Series | None:
        """As `series`, None where there is none."""
        if name not in self._series:
            found = self._logged(name)
            self._series[name] = found if found is not None else self._measured(name)
        return self._series[name]

    @cached_property
    def _series(self) -> dict[str, Series | None]:
        return {}

    def _logged(self, name: str) -> Series | None:
        pairs = [
            (row.get("step", index), row[name]) for index, row in enumerate(self.metrics, 1) if _number(row.get(name))
        ]
        if not pairs:
            return None
        steps, values = np.array([step for step, _ in pairs]), np.array([value for _, value in pairs], dtype=float)
        finite = np.isfinite(values)
        return Series(name, steps[finite], values[finite])

    def _measured(self, name: str) -> Series | None:
        values = self._per_row(name) if len(self.log) else None
        if values is None:
            return None
        steps, index = self._steps
        known = ~np.isnan(values)
        count = np.bincount(index[known], minlength=len(steps))
        total = np.bincount(index[known], values[known], minlength=len(steps))
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = total / count
            if name in SPREADS:
                square = np.bincount(index[known], values[known] ** 2, minlength=len(steps))
                mean = np.sqrt(np.maximum(square / count - mean**2, 0.0))
        if name == "advantage_abs_max":
            np.maximum.at(mean, index[known], values[known])
        keep = count > 0
        return Series(name, steps[keep], mean[keep])

    def _per_row(self, name: str) -> np.ndarray | None:
        log = self.log
        column = MEANS.get(name) or SPREADS.get(name)
        if column is not None:
            return log.numbers(column) if log.has(column) else None
        if name == "invalid_share":
            return np.isnan(log.numbers("reward")).astype(float)
        if name in ("zero_advantage_share", "advantage_abs_max") and log.has("advantage"):
            size = np.abs(log.numbers("advantage"))
            return size if name == "advantage_abs_max" else (size <= ZERO).astype(float)
        if name.startswith("verify/") and log.has("outcome"):
            return self._outcomes == name.removeprefix("verify/")
        return self._per_group(name)

    def _per_group(self, name: str) -> np.ndarray | None:
        groups = self.groups
        flags = {
            "constant_group_share": groups.constant,
            "all_correct_share": groups.right,
            "all_wrong_share": groups.wrong,
        }
        if name not in flags:
            return None
        values = np.full(len(self.log), np.nan)
        values[groups.order[groups.starts]] = flags[name].astype(float)  # one row stands for its group
        return values

    @cached_property
    def _outcomes(self) -> np.ndarray:
        return np.asarray(self.log.table["outcome"].to_numpy(), dtype=object)

    @cached_property
    def _steps(self) -> tuple[np.ndarray, np.ndarray]:
        """The rollouts' steps, and each row's place among them. (T,), (N,)"""
        steps, index = np.unique(self.log.codes("step"), return_inverse=True)
        return steps, index

    @cached_property
    def terms(self) -> list[str]:
        """The logged terms of the reward, reward_part/NAME."""
        return list(dict.fromkeys(key for row in self.metrics for key in row if key.startswith("reward_part/")))

    def correctness(self) -> Series:
        """The share of correct responses by step, else the reward's term for it. Missing without either."""
        found = self.known("accuracy")
        if found is not None and len(found):
            return found
        for name in self.terms:
            if means_correctness(name):
                return self.series(name)
        raise Missing("the log says nothing of correctness, neither as accuracy nor as a term of the reward")

    # ---- rollouts -----------------------------------------------------------------------------------------------

    def rows(self, *columns: str) -> None:
        """Missing unless there are rollouts with these columns."""
        if not len(self.log):
            raise Missing("the log holds metrics alone, no rollouts")
        for column in columns:
            if not self.log.has(column):
                raise Missing(f"the rollouts have no {column}")

    @cached_property
    def success(self) -> np.ndarray:
        """1.0 for a correct response, 0.0 for another, NaN where unknown. (N,) Where the log says nothing of
        correctness: whether the reward is the highest of the log, if it has two values or more."""
        if self.log.has("correct"):
            return self.log.numbers("correct")
        reward = self.log.numbers("reward")
        best = np.nanmax(reward) if (~np.isnan(reward)).any() else np.nan
        return np.where(np.isnan(reward), np.nan, (reward == best).astype(float))

    @cached_property
    def groups(self) -> Grouping:
        self.rows()
        codes, reward = self.log.codes("group"), self.log.numbers("reward")
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=codes[order][0] - 1))
        success = self.success[order]
        worst = self.success == 0 if self.log.has("correct") else reward == np.nanmin(reward)
        return Grouping(
            order=order,
            starts=starts,
            step=self.log.codes("step")[order][starts],
            size=np.diff(starts, append=len(order)),
            low=np.fmin.reduceat(reward[order], starts),
            high=np.fmax.reduceat(reward[order], starts),
            right=np.minimum.reduceat(np.nan_to_num(success), starts) == 1,
            wrong=np.logical_and.reduceat(worst[order], starts),
        )

    @cached_property
    def recent(self) -> np.ndarray:
        """Rows of the last tenth of the steps (at least 5). (n,)"""
        self.rows()
        steps, index = self._steps
        return np.flatnonzero(index >= len(steps) - max(5, len(steps) // 10))

    @cached_property
    def early(self) -> np.ndarray:
        """Rows of as many steps from the first on. (n,)"""
        self.rows()
        steps, index = self._steps
        return np.flatnonzero(index < max(5, len(steps) // 10))

    def recent_groups(self) -> np.ndarray:
        """Which groups stand in these steps. (K,) bool"""
        return self.groups.step >= self.log.codes("step")[self.recent].min()

    @cached_property
    def response_codes(self) -> np.ndarray:
        """One number per distinct response text. (N,)"""
        self.rows("response")
        encoded = pc.dictionary_encode(self.log.table["response"].combine_chunks())
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.unify_dictionaries().combine_chunks()
        return np.asarray(pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False), dtype=np.int64)

    # ---- judgement ----------------------------------------------------------------------------------------------

    @cached_property
    def learned(self) -> bool:
        """Whether the recent responses are (nearly) all right, so that a want of signal is success: 90% correct; where
        the log says nothing of correctness, 90% of the way from the lowest reward to the highest (0 to 1 where only
        means are logged)."""
        accuracy = self.known("accuracy")
        if accuracy is not None and len(accuracy):
            return accuracy.recent >= 0.9
        reward = self.known("reward")
        if reward is None or not len(reward):
            return False
        low, high = 0.0, 1.0
        if len(self.log):
            rewards = self.log.numbers("reward")
            low, high = float(np.nanmin(rewards)), float(np.nanmax(rewards))
        return high > low and (reward.recent - low) / (high - low) >= 0.9


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def means_correctness(term: str) -> bool:
    """Whether a term of the reward, by its name, pays for the right answer."""
    return any(word in term.lower() for word in CORRECTNESS)
