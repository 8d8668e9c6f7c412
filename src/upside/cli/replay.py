"""`upside replay`."""

from __future__ import annotations

import click

from upside.cli.arguments import mapping as read_mapping


@click.command()
@click.argument("logs", nargs=-1, required=True)
@click.option(
    "--estimators",
    "-e",
    multiple=True,
    default=("grpo,canon_inter,canon_dynamic,adora,aapo",),
    show_default=True,
    help="Estimators, as `upside compare` takes them.",
)
@click.option("--baseline", default=None, help="The name the others are compared with. [default: the first]")
@click.option(
    "--map", "maps", multiple=True, metavar="MEANING=COLUMN,…", help="Columns of other names, such as reward=score."
)
@click.option(
    "--lengths", type=click.Choice(["chars", "words"]), default=None, help="Stand in for tokens where none are logged."
)
@click.option("--output", default=None, help="Folder for replay.json, sections.json (for `upside report`), replay.png.")
@click.option("--rows", is_flag=True, help="Also write every response's advantages, advantages.parquet.")
def replay(
    logs: tuple[str, ...],
    estimators: tuple[str, ...],
    baseline: str | None,
    maps: tuple[str, ...],
    lengths: str | None,
    output: str | None,
    rows: bool,
) -> None:
    """What other estimators would have given on logged responses. No training, no GPU.

    LOGS are run folders of `upside train`, TRL's output folders (log_completions=True), verl's rollout_data_dir, or
    tables: Parquet, JSON lines, CSV. Several files are the parts of one log, each folder is a log of its own.

    \b
      upside replay runs/a --estimators grpo,rloo,canon:metric=length,mu=0.5
      upside replay rollouts.csv --map reward=score,group=uid,step=iteration,length=n_tokens
    """
    from pathlib import Path

    from upside.analysis import read_log, show
    from upside.analysis import replay as run

    if rows and not output:
        raise ValueError("--rows needs --output FOLDER to write to")
    folders = [log for log in logs if Path(log).is_dir()]
    files = [log for log in logs if log not in folders]
    sources: list[str | list[str]] = [*folders, *([files] if files else [])]
    for number, source in enumerate(sources, start=1):
        found = run(read_log(source, read_mapping(maps) or None, lengths), estimators, baseline)
        show.print_sections(found.sections())
        if output:
            found.write(Path(output) / (f"log-{number}" if len(sources) > 1 else ""), rows)
    if output:
        click.echo(f"written: {output}")
