"""An evaluation as a table for the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from upside.evaluation.metrics import Estimate
from upside.evaluation.results import Evaluation

if TYPE_CHECKING:
    from rich.table import Table


def figures(evaluation: Evaluation) -> list[tuple[str, str, str]]:
    """The table as plain rows (name, value, 95% interval)."""
    n = evaluation.samples
    decoding = "greedy" if evaluation.settings.get("greedy") else f"avg@{n}"
    rows = [_share(f"accuracy (pass@1, {decoding})", evaluation.accuracy)]
    rows += [_share(f"pass@{k}", evaluation.pass_at(k)) for k in (4, 16) if k <= n]
    if n > 1 and n not in (4, 16):
        rows.append(_share(f"pass@{n}", evaluation.pass_at(n)))
    if n > 1:
        rows.append(_share(f"maj@{n}", evaluation.majority_at(n)))
    if n >= 8:
        rows.append(_share("mixed groups of 8", evaluation.mixed(8)))
    tokens = evaluation.tokens
    rows.append(("tokens a response", f"{tokens.value:.1f}", f"{tokens.low:.1f} – {tokens.high:.1f}"))
    rows.append(_share("truncated", evaluation.truncated))
    if evaluation.unjudged:
        rows.append(("unjudged (left out)", f"{evaluation.unjudged:.1%}", ""))
    families = evaluation.by_family()
    if len(families) > 1:
        rows += [_share(f"family {name}", value) for name, value in families.items()]
    levels = evaluation.by_level()
    if len(levels) > 1:
        rows += [_share(f"level {name}", value) for name, value in levels.items()]
    for name, (share, accuracy) in evaluation.styles().items():
        rows.append((f"strategy {name}", f"{share:.1%}", f"{accuracy:.1%} of these right"))
    return rows


def describe(evaluation: Evaluation, title: str = "Evaluation") -> Table:
    """A rich table of `figures`: print it with rich."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=f"{escape(title)}: {len(evaluation.by_problem)} problems, {len(evaluation.rows)} responses")
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("95% interval", justify="right")
    for row in figures(evaluation):
        table.add_row(*map(escape, row))
    return table


def _share(name: str, estimate: Estimate) -> tuple[str, str, str]:
    return name, f"{estimate.value:.1%}", f"{estimate.low:.1%} – {estimate.high:.1%}"
