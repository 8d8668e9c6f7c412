"""`upside check`."""

from __future__ import annotations

import sys

import click


@click.group()
def check() -> None:
    """Prove that an engine of more than one process is set up."""


@check.command("verl")
@click.option("--address", default=None, help="A running Ray cluster. [default: RAY_ADDRESS, else one started here]")
def check_verl(address: str | None) -> None:
    """Is the plug-in loaded in verl's driver and in a Ray worker, and does this verl have what it stands on?

    verl keeps silent about plug-ins that fail to load; this command does not. Exit code 1 when something is missing.
    """
    from upside.engines.verl.check import findings

    failed = []
    for found in findings(address):
        mark = click.style("ok     ", fg="green") if found.ok else click.style("MISSING", fg="red", bold=True)
        click.echo(f"{mark}  {found.what}: {found.detail}")
        failed += [] if found.ok else [found]
    for found in failed:
        click.echo(f"\n{found.what}: {found.remedy}", err=True)
    if failed:
        sys.exit(1)
    click.echo("\nverl is ready: algorithm.adv_estimator=upside, trainer.v1.trainer_mode=upside (docs/verl.md)")
