"""A comparison as tables, sentences and charts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from upside.analysis.blocks import Cell, Chart, Column, Interval, Prose, Section, Series, Table
from upside.analysis.comparison import verdicts
from upside.analysis.comparison.curves import Curve

if TYPE_CHECKING:
    from upside.analysis.comparison.result import Comparison, Pair, Result

HELD_EQUAL = (
    "Within a seed all runs start from the same weights, see the same prompts in the same order, and are measured on "
    "the same held-out problems, which are the same for all seeds. They take the same number of steps, and results are "
    "also given at equal generated tokens: at the smallest total of any run, read off the held-out curve by straight "
    "lines. Tokens are those sampled for training, AAPO's fresh reference responses included, evaluation not."
)
TRAINING = {
    "training_zero_advantage_share": ("Responses without a signal", "share of zero advantages", True),
    "training_entropy": ("Entropy", "nats per token", False),
    "training_length": ("Response length in training", "tokens", False),
}


def title(comparison: Comparison) -> str:
    """One line: what was compared on what."""
    s = comparison.settings
    seeds = f"{len(s['seeds'])} seed{'s' if len(s['seeds']) > 1 else ''}"
    count = len(comparison.results)
    return f"{count} estimator{'s' if count > 1 else ''} on {s['task']}, {s['steps']} steps, {seeds}"


def sections(comparison: Comparison) -> list[Section]:
    """Results, curves, cost, the differences in full, fairness, method."""
    charts_ = charts(comparison)
    return [
        Section(
            "comparison-results",
            title(comparison),
            [
                table(comparison, RESULT),
                Prose(verdicts.sentences(comparison), emphasis=True),
                replace(table(comparison, BESIDE, "Beside the accuracy"), note=""),
            ],
        ),
        Section("comparison-curves", "Learning curves", charts_[:3]),
        Section("comparison-cost", "What it cost", [_cost(comparison), charts_[3]]),
        Section("comparison-training", "What training looked like", charts_[4:]),
        Section(
            "comparison-differences",
            "Differences to the baseline, in full",
            [_differences(comparison), _seeds(comparison)],
        ),
        Section("comparison-fairness", "What was held equal", [_checks(comparison), Prose([HELD_EQUAL])]),
        Section("comparison-method", "How the numbers are made", [Prose(list(verdicts.METHOD))]),
    ]


# ---- tables -----------------------------------------------------------------------------------------------------


RESULT = ("estimator", "accuracy", "difference", "verdict", "P(better)")
BESIDE = ("estimator", "greedy", "at equal tokens", "tokens (millions)", "length", "zero advantage")


def table(comparison: Comparison, names: Sequence[str] = (), heading: str = "Results") -> Table:
    """The results at a glance, one row an estimator. names: which columns; none: all."""
    s = comparison.settings
    every = [
        Column("estimator", help="Its name in this comparison"),
        Column("accuracy", "percent", help=f"Held-out, {s['mode']}, at the end; bootstrap over seeds and problems"),
        Column(
            "difference", "points", help=f"To {s['baseline']}, in points, paired by seed and problem; 95% t interval"
        ),
        Column("verdict", help="better or worse: Holm-corrected p below 0.05; else within noise"),
        Column("P(better)", "number", 2, help="Chance that a run of it is better than a run of the baseline"),
        Column("greedy", "percent", help="Held-out accuracy of the likeliest response"),
        Column("at equal tokens", "percent", help="Accuracy when each had generated as many as the thriftiest run did"),
        Column("tokens (millions)", "number", 2, help="Generated in training a run, with reference responses"),
        Column("length", "number", help="Mean tokens of a held-out response at the end"),
        Column("zero advantage", "percent", 0, help="Share of training responses that taught nothing, over the run"),
    ]
    pick = [at for at, column in enumerate(every) if not names or column.name in names]
    rows = [[row[at] for at in pick] for row in (_row(comparison, result) for result in comparison.results)]
    return Table(heading, [every[at] for at in pick], rows, _note(comparison))


def _note(comparison: Comparison) -> str:
    s = comparison.settings
    drawn = f" ({s['samples']} a problem)" if s["mode"] == "sampled" else ""
    seeds = "seed" if len(s["seeds"]) == 1 else "seeds"
    return (
        f"Held-out accuracy on {s['problems']} problems after {s['steps']} steps of {s['responses']} responses, "
        f"{seeds} {', '.join(map(str, s['seeds']))}; {s['mode']}{drawn}. Intervals are 95%: of an accuracy by "
        "bootstrap over seeds and problems, of a difference by t over both, not corrected for the number of "
        "comparisons; the verdict is corrected (Holm)."
    )


def _row(comparison: Comparison, result: Result) -> list[Cell]:
    pair = comparison.pair(result.name)
    is_baseline = result.name == comparison.settings["baseline"]
    return [
        result.name,
        result.accuracy[comparison.settings["mode"]],
        pair.difference.interval if pair else None,
        verdicts.word(pair) if pair or is_baseline else "not compared",
        pair.improvement if pair else None,
        result.accuracy.get("greedy"),
        _mean(result.equal_tokens),
        fmean(result.tokens) / 1e6,
        fmean(result.length),
        fmean(result.zero_advantage_share),
    ]


def _cost(comparison: Comparison) -> Table:
    s = comparison.settings
    target = f"{100 * s['target']:.0f}%"
    columns = [
        Column("estimator"),
        Column(
            f"steps to {target}",
            help="Median over the seeds until the held-out curve is there; in parentheses how many",
        ),
        Column(f"tokens to {target} (millions)", help="The same in generated tokens"),
        Column("reference tokens", "percent", 0, help="Share of the tokens generated for AAPO's reference responses"),
        Column("sampling", "seconds", 0, help="Wall time a run, generating responses"),
        Column("update", "seconds", 0, help="Wall time a run: scoring, advantages, gradient; AAPO's reference too"),
        Column("evaluation", "seconds", 0, help="Wall time a run, held-out problems"),
        Column("load", "seconds", 1, help="Wall time until the first step"),
        Column("CPU", "seconds", 0, help="CPU time of the steps; on a busy machine the better clock"),
    ]
    rows: list[list[Cell]] = []
    for result in comparison.results:
        wall, cpu = (comparison.times[result.name][key] for key in ("seconds", "cpu_seconds"))
        most = [fmean(result.tokens), fmean(result.reference_tokens)]
        rows.append([
            result.name,
            _reached(result.steps_to_target, s["steps"], 1, "{:.0f}"),
            _reached(result.tokens_to_target, fmean(result.tokens), 1e6, "{:.2f}"),
            most[1] / most[0],
            *(wall[key] for key in ("rollout", "update", "evaluation", "load")),
            cpu["steps"],
        ])  # fmt: skip
    note = "“> N”: most seeds did not get there in N. Times are means over the seeds."
    return Table("Steps, tokens and time", columns, rows, note)


def _reached(values: Sequence[float | None], most: float, unit: float, form: str) -> str:
    """The median over seeds where a seed that never got there counts as later than all."""
    there = sum(value is not None for value in values)
    ranked = sorted(math.inf if value is None else value for value in values)
    low, high = ranked[(len(ranked) - 1) // 2], ranked[len(ranked) // 2]
    median = (low + high) / 2
    text = f"> {form.format(most / unit)}" if math.isinf(median) else form.format(median / unit)
    return f"{text} ({there} of {len(values)})"


def _differences(comparison: Comparison) -> Table:
    columns = [
        Column("estimator"),
        Column("answers", help="sampled as in training, or greedy"),
        Column("at equal", help="steps: after the last; tokens: at the smallest total of any run"),
        Column(
            "difference", "points", 2, help="Accuracy minus the baseline's, paired by seed and problem, 95% t interval"
        ),
        Column("p", "number", 3, help="Two-sided, of no difference"),
        Column("p (Holm)", "number", 3, help="Corrected for the number of comparisons of this kind"),
        Column("P(better)", "number", 2, help="Over all pairs of runs, Newcombe's 95% interval"),
        Column("spread", "points", 2, help="Standard deviation of the seeds' differences, no less than answers make"),
        Column("told from", "points", 1, help="The smallest difference that these seeds tell, 80% power"),
        Column(
            "seeds to tell", help="Seeds that would tell a difference of the size seen; range: the spread is uncertain"
        ),
    ]
    rows: list[list[Cell]] = []
    for pair in comparison.pairs:
        rows.append([
            pair.name, pair.mode, pair.budget, pair.difference.interval, pair.difference.p, pair.adjusted,
            pair.improvement, pair.difference.spread, pair.detectable, _seeds_to_tell(pair),
        ])  # fmt: skip
    return Table(f"Against {comparison.settings['baseline']}", columns, rows)


def _seeds_to_tell(pair: Pair) -> str | None:
    if len(pair.needed_range) < 2:
        return None
    count, low, high = ("> 10000" if n is None else str(n) for n in (pair.needed, *pair.needed_range))
    return f"{count} ({low} to {high})"


def _seeds(comparison: Comparison) -> Table:
    s = comparison.settings
    columns = [Column("estimator"), Column("spec")]
    columns += [Column(f"seed {seed}", "percent", 1) for seed in s["seeds"]]
    columns += [Column("interquartile mean", "percent", 1, help="Over the seeds, bootstrap interval")]
    rows: list[list[Cell]] = []
    for result in comparison.results:
        known = dict(zip(result.seeds, result.by_seed[s["mode"]], strict=True))
        rows.append([
            result.name, verdicts.described(result), *(known.get(seed) for seed in s["seeds"]), result.iqm[s["mode"]]
        ])  # fmt: skip
    return Table(f"Held-out accuracy by seed, {s['mode']}", columns, rows)


def _checks(comparison: Comparison) -> Table:
    rows: list[list[Cell]] = [[check.what, check.equal, check.evidence] for check in comparison.checks]
    columns = [Column("what"), Column("equal"), Column("evidence", help="Found in the run folders")]
    return Table("Checked in the run folders", columns, rows)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


# ---- charts -----------------------------------------------------------------------------------------------------


def charts(comparison: Comparison) -> list[Chart]:
    """Held-out over steps, over tokens, training accuracy; accuracy against length; zero shares, entropy, length."""
    mode = comparison.settings["mode"]
    found = [
        _lines(comparison, "held_out", f"Held-out accuracy ({mode})", "step", "accuracy"),
        _lines(
            comparison, "held_out_by_tokens", "The same over tokens", "generated tokens (millions)", "accuracy", 1e-6
        ),
        _lines(comparison, "training_accuracy", "Accuracy of the training responses", "step", "accuracy"),
        _pareto(comparison),
    ]
    for key, (heading, label, percent) in TRAINING.items():
        found.append(_lines(comparison, key, heading, "step", label, percent=percent))
    return found


def _lines(
    comparison: Comparison, key: str, heading: str, x: str, y: str, scale: float = 1.0, percent: bool = True
) -> Chart:
    series = [_series(name, curve, scale) for name, curve in comparison.curves[key].items()]
    return Chart(heading, x, y, series, percent=percent)


def _series(name: str, curve: Curve, scale: float) -> Series:
    middle, low, high = (
        [None if math.isnan(v) else v for v in values] for values in (curve.middle, curve.low, curve.high)
    )
    return Series(name, [scale * x for x in curve.x], middle, low, high, key=name)


def _pareto(comparison: Comparison) -> Chart:
    mode = comparison.settings["mode"]
    series = []
    for result in comparison.results:
        found: Interval = result.accuracy[mode]
        series.append(
            Series(result.name, [fmean(result.length)], [found.value], [found.low], [found.high], key=result.name)
        )
    note = "Up and to the left is better: more right answers from fewer tokens."
    return Chart(
        "Accuracy against length", "mean tokens of a response", "held-out accuracy", series, "points", True, note
    )
