"""`upside train`."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from upside.cli.arguments import split


@click.command()
@click.argument("arguments", nargs=-1, metavar="[RECIPE] [KEY=VALUE]...")
@click.option("--dry-run", is_flag=True, help="Validate the recipe and print it resolved; train nothing.")
@click.option(
    "--engine",
    type=click.Choice(["trl", "verl"]),
    default="trl",
    show_default=True,
    help="trl: this machine, or several processes under torchrun or accelerate launch. verl: Ray.",
)
def train(arguments: tuple[str, ...], dry_run: bool, engine: str) -> None:
    """Train a model as RECIPE says: a YAML file, or the name of a shipped recipe (default: reasoner).

    KEY=VALUE changes a key of the recipe, for example

    \b
      upside train estimator=canon_inter seed=1 steps=100
      upside train my_recipe.yaml eval.problems=64 output=runs/first
      upside train papers/aapo_7b --dry-run
      torchrun --standalone --nproc_per_node 2 -m upside.cli train steps=20
    """
    from upside.training.outlook import outlook
    from upside.training.recipe import load, to_yaml

    path, overrides = split(arguments)
    recipe = load(path, overrides)
    if dry_run and engine == "trl":
        notes = outlook(recipe)
        click.echo(to_yaml(recipe), nl=False)
        for line in notes:
            click.echo(f"# {line}")
        return
    from upside.training.folder import Interrupted

    try:
        if engine == "verl":
            _train_on_verl(recipe, dry_run)
        else:
            from upside.training.run import train as run

            run(recipe)
    except Interrupted as stop:
        if os.environ.get("RANK", "0") == "0":
            click.echo(str(stop))
        sys.exit(stop.exit_code)


def _train_on_verl(recipe: Any, dry_run: bool) -> None:
    from importlib.util import find_spec

    missing = [name for name in ("verl", "ray") if find_spec(name) is None]
    if missing and not dry_run:
        raise ValueError(
            f"--engine verl: {' and '.join(missing)} not found; install verl and Ray with: pip install 'upside[verl]', "
            "or leave --engine out to train with TRL"
        )
    from upside.engines.verl import launch  # verl itself is imported by the process that runs it

    launch.train(recipe, dry_run=dry_run)
