"""The picture of a run: five curves over the steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

PANELS = (
    ("accuracy", "Accuracy of the sampled responses"),
    ("reward", "Mean reward"),
    ("length", "Mean response length (tokens)"),
    ("entropy", "Entropy (nats per token)"),
    ("zero_advantage_share", "Share of responses with zero advantage"),
)


def smooth(values: Sequence[float], window: int) -> list[float]:
    """Mean of the last `window` values at each point (fewer at the start)."""
    return [sum(values[max(0, i + 1 - window) : i + 1]) / min(i + 1, window) for i in range(len(values))]


MODES = {"greedy": ("tab:orange", "s"), "sampled": ("tab:green", "o")}
"""Held-out results: colour and mark."""


def draw(
    rows: Sequence[dict[str, Any]], path: Path, title: str, evaluations: Sequence[tuple[int, dict[str, Any]]] = ()
) -> None:
    """Write the PNG. rows: metrics.jsonl; evaluations: (step, what summary.json keeps of it) pairs, drawn into the
    first panel with their 95% intervals."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 7), layout="constrained")
    axes = figure.subplots(2, 3).flat
    window = max(1, len(rows) // 20)
    for axis, (key, label) in zip(axes, PANELS, strict=False):
        points = [(row["step"], row[key]) for row in rows if row.get(key) is not None]
        axis.set_title(label, fontsize=10, loc="left")
        axis.set_xlabel("step", fontsize=9)
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
        if not points:
            axis.text(0.5, 0.5, "not measured", transform=axis.transAxes, ha="center")
            continue
        steps, values = [p[0] for p in points], [p[1] for p in points]
        axis.plot(steps, values, color="tab:blue", alpha=0.25, linewidth=1)
        axis.plot(steps, smooth(values, window), color="tab:blue", linewidth=1.8, label=f"mean of {window} steps")
        if key in ("accuracy", "zero_advantage_share"):
            axis.set_ylim(0, 1)
        if key == "accuracy" and evaluations:
            for mode, (colour, mark) in MODES.items():
                _held_out(
                    axis, [(step, found[mode]) for step, found in evaluations if mode in found], mode, colour, mark
                )
            axis.legend(fontsize=8, frameon=False, loc="lower right")
    axes[-1].axis("off") if hasattr(axes, "__getitem__") else figure.axes[-1].axis("off")
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    figure.savefig(path, dpi=110)


def _held_out(axis: Any, found: Sequence[tuple[int, dict[str, Any]]], mode: str, colour: str, mark: str) -> None:
    """Accuracy at each step with its interval."""
    if not found:
        return
    steps = [step for step, _ in found]
    values = [facts["accuracy"] for _, facts in found]
    spread = [
        [facts["accuracy"] - facts["low"] for _, facts in found],
        [facts["high"] - facts["accuracy"] for _, facts in found],
    ]
    axis.errorbar(
        steps, values, yerr=spread, fmt=f"{mark}-", markersize=4, linewidth=1, capsize=3, color=colour,
        label=f"held-out, {mode} (95% interval)",
    )  # fmt: skip
