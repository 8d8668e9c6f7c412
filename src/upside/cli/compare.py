"""`upside compare`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from upside.cli.arguments import split


@click.command()
@click.argument("arguments", nargs=-1, metavar="[RECIPE] [KEY=VALUE]...")
@click.option(
    "--estimators", multiple=True, required=True, metavar="SPEC,…", help="What to compare; repeatable (see below)."
)
@click.option("--set", "own", multiple=True, metavar="NAME:KEY=VALUE", help="A setting of one estimator; repeatable.")
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="Runs of each estimator.")
@click.option("--first-seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--baseline", metavar="NAME", default=None, help="What the others are measured against. [default: first]")
@click.option(
    "--target", type=float, default=None, help="Accuracy for steps and tokens to reach it. [default: 95% of baseline's]"
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=None,
    help="Runs at a time. [default: 1; with --ray as many as fit]",
)
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="CPU threads of a run.")
@click.option("--ray", is_flag=True, help="Each run as a Ray task, on a cluster or a local one.")
@click.option("--ray-address", default=None, help="A running cluster. [default: RAY_ADDRESS, else one started here]")
@click.option("--output", default=None, help="Folder for runs and results. [default: comparisons/<recipe's name>]")
@click.option("--dry-run", is_flag=True, help="Say which runs there would be and how far they are; train nothing.")
def compare(
    arguments: tuple[str, ...],
    estimators: tuple[str, ...],
    own: tuple[str, ...],
    seeds: int,
    first_seed: int,
    baseline: str | None,
    target: float | None,
    jobs: int | None,
    threads: int,
    ray: bool,
    ray_address: str | None,
    output: str | None,
    dry_run: bool,
) -> None:
    """Train RECIPE with several estimators and seeds, and say what differs and what is noise.

    Same prompts in the same order, same initial weights, same held-out problems, same steps; results at equal steps
    and at equal generated tokens. After a kill the same command goes on: finished runs are not repeated, half ones
    continue. A run that fails stops no other; exit code 1 then.

    \b
      upside compare --estimators grpo,canon_inter,adora --seeds 3 --jobs 2
      upside compare my.yaml steps=100 --estimators grpo,slow=canon:metric=length,mu=0.2 --output out
      upside compare --estimators adora,grpo,slower=grpo --set slower:lr=1e-4
      upside compare --estimators grpo --estimators "mine=grpo > my_stage:strength=0.2"

    A comma starts the next estimator, unless an option of the one before follows (mu=0.2 above). NAME=SPEC gives an
    estimator a name, which tables and run folders then bear. With --set one of them has a learning rate, loss or the
    like of its own, and the result says so. Stages of your own come from installed packages (entry
    point upside.stages).
    """
    from rich.console import Console

    from upside.analysis import show
    from upside.analysis.blocks import Chart
    from upside.analysis.comparison import Stopped
    from upside.analysis.comparison import compare as run
    from upside.training.recipe import load

    path, overrides = split(arguments)
    folder = output or f"comparisons/{load(path, overrides).name}"
    numbers = list(range(first_seed, first_seed + seeds))
    if dry_run:
        _plan(path, overrides, estimators, own, numbers, Path(folder), baseline, threads)
        return
    try:
        found = run(
            path,
            overrides,
            estimators=estimators,
            own=own,
            seeds=numbers,
            output=folder,
            baseline=baseline,
            target=target,
            jobs=jobs,
            threads=threads,
            ray=ray or ray_address is not None,
            ray_address=ray_address,
        )
    except Stopped as stop:
        click.echo(str(stop))
        sys.exit(130)
    console = Console(highlight=False)
    read = [section for section in found.sections() if not all(isinstance(block, Chart) for block in section.blocks)]
    show.print_sections(read, console if console.is_terminal else Console(highlight=False, width=140))
    click.echo(f"written to {folder}: comparison.json, sections.json, table.md, curves.png, runs/")
    for key, reason in found.failed.items():
        click.echo(f"\n{key} failed: {reason}", err=True)
    sys.exit(1 if found.failed else 0)


def _plan(
    path: str | None,
    overrides: list[str],
    estimators: tuple[str, ...],
    own: tuple[str, ...],
    seeds: list[int],
    folder: Path,
    baseline: str | None,
    threads: int,
) -> None:
    from upside.analysis.comparison import check_baseline, plan, read_estimators

    named = read_estimators(estimators)
    check_baseline(baseline, named)
    runs = plan(path, overrides, named, seeds, folder, threads, own)
    for run in runs:
        state = run.state if run.state != "half" else f"half: step {run.step} of {run.recipe.steps}"
        click.echo(f"{run.key:<32} {run.recipe.estimator:<32} seed {run.recipe.seed}  {state}")
    left = sum(run.recipe.steps - (run.recipe.steps if run.state == "finished" else run.step) for run in runs)
    click.echo(f"{len(runs)} runs, {left} steps left, into {folder}")
