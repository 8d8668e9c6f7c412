"""`upside explain`."""

from __future__ import annotations

import click

from upside.cli.arguments import mapping as read_mapping


@click.command()
@click.argument("log")
@click.option("--step", type=int, default=None, help="A step. [default: the last; all with --prompt or --kind]")
@click.option("--group", type=int, default=None, help="A group by its number within the step, from 0.")
@click.option("--prompt", metavar="TEXT", default=None, help="Groups whose prompt holds TEXT.")
@click.option("--kind", default=None, help="Groups of a kind: flipped, truncated, mixed, dead, too_easy, …")
@click.option("--estimator", metavar="SPEC", default=None, help="Who explains. [default: the run's own]")
@click.option("--limit", type=click.IntRange(min=1), default=3, show_default=True, help="Groups at most.")
@click.option("--full", is_flag=True, help="Whole texts instead of one line of each.")
@click.option(
    "--map", "maps", multiple=True, metavar="MEANING=COLUMN,…", help="Columns of other names, such as reward=score."
)
@click.option(
    "--lengths", type=click.Choice(["chars", "words"]), default=None, help="Stand in for tokens where none are logged."
)
def explain(
    log: str,
    step: int | None,
    group: int | None,
    prompt: str | None,
    kind: str | None,
    estimator: str | None,
    limit: int,
    full: bool,
    maps: tuple[str, ...],
    lengths: str | None,
) -> None:
    """Why each response got its advantage: its numbers after every stage, and sentences.

    LOG is a run folder of `upside train`, or any log that `upside replay` reads. Without --step, --group, --prompt or
    --kind: the most instructive groups of the last step.

    \b
      upside explain runs/a --step 12 --group 3
      upside explain runs/a --kind flipped --limit 10
      upside explain runs/a --estimator "canon:metric=length > adora_weight"
    """
    from upside.analysis import explain_groups, read_log
    from upside.analysis.explaining.console import print_groups

    found = read_log(log, read_mapping(maps) or None, lengths)
    kind = kind and kind.replace(" ", "_").replace("-", "_")  # shown without the underscore
    if step is None and prompt is None and kind is None and found.steps:
        step = found.steps[-1]
    many = 10**12 if full else 2_000_000
    groups = explain_groups(
        found, estimator, step=step, group=group, prompt=prompt, kind=kind, limit=limit, characters=many
    )
    print_groups(groups, full)
