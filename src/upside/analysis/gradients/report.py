"""What the microscope found, as blocks: sentences, tables, charts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from upside.analysis.blocks import Block, Cell, Chart, Column, Interval, Prose, Section, Series, Table
from upside.analysis.gradients.figures import Figures
from upside.analysis.gradients.spread import Spread

if TYPE_CHECKING:
    from upside.analysis.gradients.scope import Microscope

MAIN = 8
"""The group size of the sentences, where it was measured."""

METHOD = (
    "Method: every estimator weighs the same responses. The oracle is the policy gradient of the expected reward with "
    "the mean reward of a prompt's other responses as baseline. Responses fall into blocks of G a prompt; only "
    "products of different blocks are averaged, so no gradient is compared with an oracle that its own responses made, "
    "and the noise of both stays out of lengths and cosines. Intervals are 95%, jackknife-t over blocks: they hold "
    "for these prompts. A cosine is corrected, so noise can carry it past 1; it is shown as 1 then."
)


def sections(found: Microscope) -> list[Section]:
    """One section: sentences, the bend, the noise, where the noise comes from, charts, method."""
    s = found.settings
    intro = (
        f"{s['model']} on {s['problems']} prompts of {s['data']} ({s['split']}), {s['samples']} responses to each at "
        f"temperature {s['temperature']:g}: how far each estimator's gradient is from the gradient of the expected "
        f"reward. A batch is {s['prompts_per_batch']} prompts with G responses each; tokens are added up as "
        f"{s['aggregate']!r}. Weights do not move."
    )
    size = MAIN if MAIN in s["group_sizes"] else max(s["group_sizes"])
    shown = [each for each in found.figures if each.group_size == size]
    blocks: list[Block] = [
        Prose([f"At {size} responses a prompt:", *(_sentence(each, shown[0]) for each in shown)]),
        _bend(found.figures),
        _noise(found.figures),
        _spread(found.spread),
        *charts(found),
        Prose([METHOD, _projection(found)]),
    ]
    return [Section("microscope", "Microscope: gradients at fixed weights", blocks, intro)]


def charts(found: Microscope) -> list[Chart]:
    """Bend, noise and gain against the group size."""
    s = found.settings
    best = f"one batch of {s['prompts_per_batch']} prompts"
    return [
        _chart(found, "Bend of the mean gradient", "degrees from the oracle", lambda f: f.angle),
        _chart(found, f"Noise of {best}", "noise-to-signal ratio", lambda f: f.noise),
        _chart(found, f"Gain of a step along {best}", "share of the best step's", lambda f: f.batch_cosine, True),
    ]


def _chart(
    found: Microscope, title: str, label: str, of: Callable[[Figures], Interval], percent: bool = False
) -> Chart:
    series = []
    for name in found.settings["estimators"]:
        rows = [each for each in found.figures if each.estimator == name]
        points = [of(each) if each.resolved else Interval(None) for each in rows]
        series.append(
            Series(
                name,
                [each.group_size for each in rows],
                [point.value for point in points],
                [point.low for point in points],
                [point.high for point in points],
                key=name,
            )
        )
    return Chart(title, "responses a prompt, G", label, series, percent=percent, log_x=True)


def _sentence(f: Figures, first: Figures) -> str:
    if f.idle.value == 1:
        return f"{f.estimator} gives every response advantage 0 and teaches nothing."
    if not f.resolved:
        return f"{f.estimator}: not resolvable; its mean gradient cannot be told from noise. Draw more responses."
    cosine = _capped(f.cosine)
    ends = f"cos {cosine.value:.3f}" + (f", {cosine.low:.3f} to {cosine.high:.3f}" if cosine.low is not None else "")
    straight = f.cosine.high is not None and f.cosine.high >= 1
    bend = "does not bend beyond noise" if straight else f"bends by {f.angle.value:.0f}°"
    text = f"{f.estimator} {bend} ({ends}); a step along one batch gains {f.batch_cosine.value:.0%} of the best step"
    if f is first:
        return text + "."
    points = Interval(*(None if end is None else 100 * end for end in dataclasses.astuple(f.batch_difference)))
    return (
        f"{text}, {_against(points, 0, '{:+.1f}')} points from {first.estimator}; "
        f"noise {_against(f.noise_ratio, 1, '{:.2f}')} times that of {first.estimator}."
    )


def _against(value: Interval, neutral: float, form: str) -> str:
    """A figure beside another estimator's, and whether its interval holds the value that says no difference."""
    if value.value is None or value.low is None or value.high is None:
        return "an unknown number of"
    text = f"{form.format(value.value)} ({form.format(value.low)} to {form.format(value.high)}"
    return text + (": no difference shown)" if value.low <= neutral <= value.high else ")")


def _bend(rows: list[Figures]) -> Table:
    columns = [
        Column("G", "number", help="Responses to each prompt."),
        Column("estimator"),
        Column(
            "cosine",
            "number",
            3,
            "Of the mean gradient with the oracle, corrected for the noise of both: 1 is no bend.",
        ),
        Column("degrees", "number", 1, "The same as an angle."),
        Column(
            "scale",
            "number",
            2,
            "Length of the mean gradient along the oracle; 1 is that of the policy gradient itself.",
        ),
        Column("reliability", "percent", 0, "Share of the mean gradient's squared length that is no noise."),
        Column("oracle's", "percent", 0, "The reliability of the oracle, from the same responses."),
    ]
    cells = [
        [
            f.group_size,
            f.estimator,
            *(
                (_capped(f.cosine), f.angle.value, f.scale)
                if f.resolved
                else ("no signal" if f.idle.value == 1 else "not resolvable", None, None)
            ),
            f.reliability.value,
            f.oracle_reliability.value,
        ]
        for f in rows
    ]
    return Table("The bend: where the mean gradient points", columns, cells)


def _noise(rows: list[Figures]) -> Table:
    first = rows[0].estimator
    columns = [
        Column("G", "number", help="Responses to each prompt."),
        Column("estimator"),
        Column("noise", "number", 2, "Noise-to-signal of one batch: E|g - Eg|² / |Eg|²."),
        Column(f"noise / {first}'s", "number", 2, f"The noise divided by that of {first}, on the same batches."),
        Column(
            "gain", "percent", 1,
            "Mean cosine of one batch with the oracle: what a small step along it gains, as a share of the best step.",
        ),
        Column(f"gain - {first}'s", "points", 1, f"The gain minus that of {first}, on the same batches."),
        Column("idle", "percent", 0, "Share of responses with advantage 0."),
    ]  # fmt: skip
    none = Interval(None)
    cells = [
        [
            f.group_size,
            f.estimator,
            f.noise if f.resolved else none,
            f.noise_ratio if f.resolved and f.estimator != first else none,
            f.batch_cosine,
            f.batch_difference if f.estimator != first else none,
            f.idle.value,
        ]
        for f in rows
    ]
    note = (
        "Gain is also the first-order gain of a step of length 1, divided by the length of the true gradient. "
        "A batch without any signal gains 0."
    )
    return Table("The noise: what one batch is worth", columns, cells, note)


def _spread(s: Spread) -> Table:
    columns = [
        Column("of a response"),
        Column("mean", "number", 1, "With a 95% interval over blocks of responses."),
        Column("tokens", "number", 1, "Mean length of these responses."),
    ]
    rows: list[list[Cell]] = [
        ["|∇ log π|² of right ones", s.right, s.right_tokens],
        ["|∇ log π|² of wrong ones", s.wrong, s.wrong_tokens],
        ["noise (R - b)² |∇ log π|² without a baseline", s.raw, None],
        ["  with the prompt's mean reward as b", s.mean, None],
        ["  with the b of least noise", s.least, None],
    ]
    return Table("Where the noise comes from", columns, rows, _why(s))


def _why(s: Spread) -> str:
    if s.wrong_to_right.value is None or s.mean_to_raw.value is None or s.reward.value is None or s.best.value is None:
        return "Right and wrong responses cannot be compared: one kind is missing."
    return (
        f"Wrong responses have {_against(s.wrong_to_right, 1, '{:.2f}')} times the squared score length of right ones. "
        f"With the mean reward as baseline the noise of a response is {_against(s.mean_to_raw, 1, '{:.2f}')} times "
        f"that of no baseline; if all scores were equally long it would be {s.if_equal.value:.2f} times. The mean "
        f"reward is {s.reward.value:.3f}; the baseline of least noise, E[R |∇ log π|²] / E[|∇ log π|²], is "
        f"{s.best.value:.3f} on average."
    )


def _projection(found: Microscope) -> str:
    s = found.settings
    if s["projection"] >= s["parameters"]:
        return f"Gradients are whole: {s['parameters']:,} parameters."
    return (
        f"Gradients of {s['parameters']:,} parameters are projected to {s['projection']:,} random dimensions: a "
        f"cosine c is off by about {1 / s['projection'] ** 0.5:.3f} (1 - c²), a squared length by "
        f"{(2 / s['projection']) ** 0.5:.1%} (measured on single responses: {s['projection_error']:.1%})."
    )


def _capped(cosine: Interval) -> Interval:
    """At most 1; without an interval where all of it is above."""
    if cosine.value is None or cosine.low is None or cosine.high is None or cosine.low > 1:
        return Interval(None if cosine.value is None else min(1.0, cosine.value))
    return Interval(min(1.0, cosine.value), cosine.low, min(1.0, cosine.high))
