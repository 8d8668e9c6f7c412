"""`upside report`."""

from __future__ import annotations

import click


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="RUN...")
@click.option("--output", default="report.html", show_default=True, metavar="FILE", help="The page to write.")
@click.option("--title", metavar="TEXT", help="Heading of the page; default: the names of what it shows.")
@click.option(
    "--estimator",
    "estimators",
    multiple=True,
    metavar="SPEC",
    help="Explain the groups with this estimator instead of the run's own; may be given several times.",
)
@click.option("--baseline", metavar="RUN", help="One of the runs; the others' held-out accuracy is compared to it.")
def report(
    paths: tuple[str, ...], output: str, title: str | None, estimators: tuple[str, ...], baseline: str | None
) -> None:
    """Write one HTML file that shows RUN...: folders of `upside train`, `upside compare` and `upside microscope`, or
    other logs of rollouts that `upside replay` reads.

    Curves, tables, doctor's findings, and every group's responses with the value after each stage. The file needs no
    network and no server.

    \b
      upside report runs/first
      upside report runs/grpo runs/canon --baseline runs/grpo --output both.html
    """
    from upside.analysis import report as write

    click.echo(str(write(paths, output, title=title, estimators=estimators, baseline=baseline)))
