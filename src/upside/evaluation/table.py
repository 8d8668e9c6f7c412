"""Evaluations as tables for the screen, 80 columns wide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from upside.evaluation.metrics import Estimate
from upside.evaluation.paired import Difference, Paired
from upside.evaluation.results import FAILURES, Evaluation
from upside.evaluation.suite import Suite, average_difference

if TYPE_CHECKING:
    from rich.table import Table

Line = tuple[str, str, str]

NONE = "–"
"""Stands where there is no figure: the interval of one problem, the share of none."""


def figures(evaluation: Evaluation, pass_at: Sequence[int] = (), *, detail: bool = True) -> list[Line]:
    """The table of one set as plain rows (name, value, 95% interval). detail: levels, families, strategies, and mixed
    groups too."""
    n = evaluation.samples
    decoding = "greedy" if evaluation.settings.get("greedy") else f"avg@{n}"
    rows = [_share(f"accuracy (pass@1, {decoding})", evaluation.accuracy)]
    rows += [_share(f"pass@{k}", evaluation.pass_at(k)) for k in evaluation.ks(pass_at or None) if k > 1 or pass_at]
    if n > 1:
        rows.append(_share(f"maj@{n}", evaluation.majority_at(n)))
    if n >= 8 and detail:
        rows.append(_share("mixed groups of 8", evaluation.mixed(8)))
    rows.append(_mean("tokens a response", evaluation.tokens))
    rows += [
        _mean(f"  of {name} ones", value)
        for name, value in (("right", evaluation.tokens_right), ("wrong", evaluation.tokens_wrong))
        if value.problems
    ]
    rows.append(_share("truncated", evaluation.truncated))
    rows += [
        _share(name, share) for name in FAILURES if (share := evaluation.outcome(name)).value or name == "unparsed"
    ]
    if evaluation.unjudged:
        how = "left out" if evaluation.on_failure == "exclude" else "counted as wrong"
        rows.append((f"no verdict: {how}", f"{evaluation.unjudged:.1%}", ""))
    return rows + _parts(evaluation) if detail else rows


def _parts(evaluation: Evaluation) -> list[Line]:
    rows = []
    for kind, found in (("family", evaluation.by_family()), ("level", evaluation.by_level())):
        if len(found) > 1:
            rows += [_share(f"{kind} {name}", value) for name, value in found.items()]
    for name, (share, accuracy) in evaluation.styles().items():
        rows.append((f"strategy {name}", f"{share:.1%}", f"{_number(accuracy, '.1%')} of these right"))
    return rows


def differences(paired: Paired) -> list[tuple[str, str, str, str, str]]:
    """(name, value, baseline, difference, its 95% interval), differences of shares in percentage points."""
    rows = [_points("accuracy", paired.accuracy)]
    rows += [_points(f"pass@{k}", each) for k, each in paired.pass_at.items()]
    d = paired.tokens
    means = _number(d.value, ".1f"), _number(d.baseline, ".1f"), _number(d.difference, "+.1f")
    rows.append(("tokens", *means, _interval(d.low, d.high, "+.1f")))
    return rows


def verdict(difference: Difference) -> str:
    """What a difference of accuracy says, in words."""
    d = difference
    if d.low != d.low:
        return f"{d.problems} problem{'' if d.problems == 1 else 's'} to compare: no interval, so nothing can be said"
    points = f"{100 * d.difference:+.1f} points (95% interval {100 * d.low:+.1f} to {100 * d.high:+.1f})"
    if d.within_noise:
        return f"within noise: {points}"
    return f"{'better' if d.difference > 0 else 'worse'} than the baseline by more than noise: {points}"


def describe(evaluation: Evaluation, title: str = "Evaluation") -> Table:
    """A rich table of `figures`: print it with rich."""
    table = _table(title, "figure", "value", "95% interval")
    _block(table, f"{len(evaluation.by_problem)} problems, {len(evaluation.rows)} responses", figures(evaluation))
    return table


def describe_suite(suite: Suite, title: str = "Evaluation") -> Table:
    """One table with a block a set, and the average where there are several."""
    table = _table(title, "figure", "value", "95% interval")
    several = len(suite.evaluations) > 1
    for name, evaluation in suite.evaluations.items():
        head = f"{name}: {len(evaluation.by_problem)} problems, {len(evaluation.rows)} responses"
        _block(table, head, figures(evaluation, suite.pass_at, detail=not several))
    if several:
        _block(table, f"average of {len(suite.evaluations)} sets", [_share("accuracy", suite.average)])
    return table


def describe_paired(paired: dict[str, Paired], title: str) -> Table:
    """One table with a block a set, and the average where there are several."""
    table = _table(title, "difference", "value", "baseline", "diff.", "95% interval")
    for name, each in paired.items():
        total = each.discordant + each.equal
        head = f"{name}: {each.discordant} of {total} problems differ ({each.better} better, {each.worse} worse)"
        _block(table, head, differences(each))
    if len(paired) > 1:
        _block(table, f"average of {len(paired)} sets", [_points("accuracy", average_difference(paired))])
    return table


def _table(title: str, first: str, *rest: str) -> Table:
    from rich.table import Table

    table = Table(title=_plain(title))
    table.add_column(first)
    for name in rest:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _block(table: Table, head: str, rows: Sequence[Sequence[str]]) -> None:
    table.add_section()
    table.add_row(f"[bold]{_plain(head)}[/bold]")
    for row in rows:
        table.add_row(*map(_plain, row))


def _plain(text: str) -> str:
    """Without markup, line breaks and control characters: names of families come from a data file."""
    from rich.markup import escape

    return escape("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))


def _share(name: str, estimate: Estimate) -> Line:
    return name, _number(estimate.value, ".1%"), _interval(estimate.low, estimate.high, ".1%")


def _mean(name: str, estimate: Estimate) -> Line:
    return name, _number(estimate.value, ".1f"), _interval(estimate.low, estimate.high, ".1f")


def _points(name: str, d: Difference) -> tuple[str, str, str, str, str]:
    interval = _interval(100 * d.low, 100 * d.high, "+.1f")
    return name, _number(d.value, ".1%"), _number(d.baseline, ".1%"), _number(100 * d.difference, "+.1f"), interval


def _interval(low: float, high: float, form: str) -> str:
    return f"{low:{form}} – {high:{form}}" if low == low and high == high else NONE


def _number(value: float, form: str) -> str:
    return f"{value:{form}}" if value == value else NONE
