"""The charts of one or several logs, one for each thing that at least one of them measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from upside.analysis.blocks import Chart, Series
from upside.analysis.logs import Log

Points = list[tuple[int, float | None]]


@dataclass(frozen=True)
class Curve:
    """A line of metrics.jsonl to draw. column: where it is not there, the mean of this column of the rollouts."""

    key: str
    title: str
    unit: str
    column: str | None = None
    percent: bool = False
    note: str = ""


CURVES = (
    Curve("held_out_accuracy", "Held-out accuracy", "share correct", percent=True),
    Curve("reward", "Reward", "mean reward", "reward"),
    Curve("length", "Length", "tokens a response", "length"),
    Curve("entropy", "Entropy", "nats per token", "entropy", note="How undecided the model is at each token."),
    Curve(
        "zero_advantage_share", "No signal", "share of responses", percent=True,
        note="Responses whose advantage is exactly 0: they teach nothing.",
    ),
    Curve("truncated_share", "Truncated", "share of responses", "truncated", percent=True,
          note="Cut off at the token limit before they ended."),
    Curve("loss", "Loss", "loss", note="Stays near 0 by design; it does not say whether the model learns."),
    Curve("grad_norm", "Gradient norm", "before clipping"),
    Curve("kl", "KL divergence", "nats per token", note="Distance from the reference model."),
    Curve("clip_share", "Clipped", "share of tokens", percent=True, note="Tokens whose ratio left the trust region."),
    Curve("adora_mean_weight", "ADORA weight", "mean weight"),
    Curve("canon_gap", "CANON gap", "mean reward, high half − low half"),
    Curve("canon_mu", "CANON μ", "μ", note="1 compares between the halves, 0 within them."),
    Curve("margin_mean", "AAPO margin", "mean margin"),
    Curve("lr", "Learning rate", "learning rate"),
    Curve("seconds", "Time", "seconds a step"),
)  # fmt: skip
ACCURACY = Curve("accuracy", "Training accuracy", "share of the responses", "correct", percent=True)
MODES = ("greedy", "sampled")


def charts(logs: Mapping[str, Log]) -> list[Chart]:
    """The charts of the logs by name, a series each. Where none has a value there is no chart.

    Over a line of at least 80 steps lies its running mean, over a twentieth of them."""
    keys = _keys(logs)
    made = [_chart(curve, logs, keys) for curve in (ACCURACY, *CURVES)]
    return [chart for chart in (*_held_out(logs, keys), *made) if chart is not None]


def _keys(logs: Mapping[str, Log]) -> dict[str, str]:
    """What each log's colour goes by: its estimator where several logs share one and others have another, its name."""
    estimators = {name: str(log.recipe.get("estimator", name)) for name, log in logs.items()}
    shared = 1 < len(set(estimators.values())) < len(logs)
    return estimators if shared else {name: name for name in logs}


def _chart(curve: Curve, logs: Mapping[str, Log], keys: Mapping[str, str]) -> Chart | None:
    series = [_series(name, keys[name], points(curve, log)) for name, log in logs.items()]
    series = [one for one in series if any(y is not None for y in one.y)]
    if not series or (curve.key in ("kl", "lr", "truncated_share", "clip_share") and not any(map(_varies, series))):
        return None
    longest = max(len(one.x) for one in series)
    window = longest // 40 * 2 + 1 if longest >= 80 else 0
    note = curve.note + (f" Smoothed over {window} steps." if window else "")
    return Chart(curve.title, "step", curve.unit, series, percent=curve.percent, note=note.strip(), smooth=window)


def _held_out(logs: Mapping[str, Log], keys: Mapping[str, str]) -> list[Chart]:
    """Held-out accuracy over the steps, one chart a decoding mode, with the 95% intervals."""
    made = []
    for mode in MODES:
        series = []
        for name, log in logs.items():
            found = [(step, facts[mode]) for step, facts in evaluations(log) if mode in facts]
            if found:
                x = [step for step, _ in found]
                y, low, high = ([facts.get(end) for _, facts in found] for end in ("accuracy", "low", "high"))
                series.append(Series(name, x, y, low, high, key=keys[name]))
        if series:
            title = f"Held-out accuracy, {mode}"
            made.append(Chart(title, "step", "share correct", series, percent=True, note="Band: 95% interval."))
    return made


def evaluations(log: Log) -> list[tuple[int, Mapping[str, Any]]]:
    """(step, what the summary keeps of it) of every held-out evaluation, in order."""
    summary = log.summary
    found = [(0, summary["before"])] if summary.get("before") else []
    found += [(int(each["step"]), each) for each in summary.get("during", [])]
    last = int(summary.get("steps") or log.recipe.get("steps") or 0)
    if summary.get("after"):
        found = [pair for pair in found if pair[0] < last] + [(last, summary["after"])]
    return found


def points(curve: Curve, log: Log) -> Points:
    """(step, value) of a curve, from the metrics where they have it, else from the rollouts; [] where neither does."""
    if any(line.get(curve.key) is not None for line in log.metrics):
        return [(int(line["step"]), line.get(curve.key)) for line in log.metrics]
    if curve.key == "zero_advantage_share" and log.has("advantage"):
        return _means(log, log.numbers("advantage"), lambda value: (value == 0).astype(float))
    if curve.column and log.has(curve.column):
        return _means(log, log.numbers(curve.column), lambda value: value)
    return []


def _means(log: Log, values: np.ndarray, of: Any) -> Points:
    """The mean over each step's rows that have a value."""
    found: Points = []
    for step, rows in log.by_step():
        here = values[rows]
        here = here[~np.isnan(here)]
        found.append((step, float(of(here).mean()) if len(here) else None))
    return found


def _series(name: str, key: str, found: Points) -> Series:
    return Series(name, [x for x, _ in found], [y for _, y in found], key=key)


def _varies(series: Series) -> bool:
    return len({y for y in series.y if y is not None}) > 1


def first_mean(curve: Curve, log: Log) -> float | None:
    """The mean of the first twentieth of a curve, at least one step."""
    known = [y for _, y in points(curve, log) if y is not None]
    return float(np.mean(known[: max(1, len(known) // 20)])) if known else None


def final_mean(curve: Curve, log: Log) -> float | None:
    """The mean of the last twentieth of a curve, at least one step."""
    known = [y for _, y in points(curve, log) if y is not None]
    return float(np.mean(known[-max(1, len(known) // 20) :])) if known else None
