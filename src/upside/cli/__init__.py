"""The command line. Heavy imports happen inside the commands, so that `upside --help` answers at once."""

from __future__ import annotations

import os
from typing import Any

import click

from upside.cli.check import check
from upside.cli.compare import compare
from upside.cli.doctor import doctor
from upside.cli.evaluate import evaluate
from upside.cli.explain import explain
from upside.cli.look import estimators, plan, tasks
from upside.cli.microscope import microscope
from upside.cli.models import model, reference
from upside.cli.replay import replay
from upside.cli.report import report
from upside.cli.train import train

USER_ERRORS = (ValueError, OSError)  # the message says what is wrong, a full disk for one; no traceback needed


class _Group(click.Group):
    """Turns the errors meant for the user into one line and exit code 2; --debug shows where they come from."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            known = isinstance(error, (*USER_ERRORS, ImportError)) and not isinstance(error, BrokenPipeError)
            if ctx.params.get("debug") or not known:  # a pipe that was closed is click's affair
                raise
            text = str(error)
            if isinstance(error, ImportError):
                text = f"{error}; install what training needs with: pip install 'upside[train]'"
            click.echo(f"Error: {text}", err=True)
            ctx.exit(2)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(package_name="upside")
def main(debug: bool) -> None:
    """Advantage estimation for reinforcement learning of reasoning models."""
    # Before torch loads: threads that wait sleep. Spinning, two of them on a busy 2-core machine took 15 s for a step
    # that one does in 0.8 s.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


for command in (
    train,
    compare,
    evaluate,
    doctor,
    microscope,
    explain,
    replay,
    report,
    estimators,
    tasks,
    plan,
    reference,
    model,
    check,
):
    main.add_command(command)
