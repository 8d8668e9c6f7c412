"""`upside doctor`."""

from __future__ import annotations

import sys

import click

from upside.cli.arguments import mapping as read_mapping
from upside.cli.arguments import options as read_options


@click.command()
@click.argument("logs", nargs=-1)
@click.option(
    "--map", "maps", multiple=True, metavar="MEANING=COLUMN,…", help="Columns of other names, such as reward=score."
)
@click.option("--only", multiple=True, metavar="CHECK,…", help="These checks alone.")
@click.option("--skip", multiple=True, metavar="CHECK,…", help="All checks but these.")
@click.option(
    "--set",
    "limits",
    multiple=True,
    metavar="CHECK.LIMIT=NUMBER",
    help="Another threshold, such as truncation.warn=0.3.",
)
@click.option(
    "--fail-on", type=click.Choice(["warn", "fail"]), default="fail", show_default=True, help="What makes exit code 1."
)
@click.option("--all", "everything", is_flag=True, help="Also show the checks that found nothing.")
@click.option("--json", "as_json", is_flag=True, help="All findings as JSON: one object a log.")
@click.option("--list", "listing", is_flag=True, help="List the checks with what they look at and their thresholds.")
def doctor(
    logs: tuple[str, ...],
    maps: tuple[str, ...],
    only: tuple[str, ...],
    skip: tuple[str, ...],
    limits: tuple[str, ...],
    fail_on: str,
    everything: bool,
    as_json: bool,
    listing: bool,
) -> None:
    """Why does a run not learn? Named checks with evidence, threshold and remedy.

    LOGS are run folders of `upside train`, TRL's output folders, verl's rollout_data_dir, tables of rollouts, or logs
    with numbers of each step alone (trainer_state.json, verl's console, JSON lines, CSV). Several files that are no
    folders are logs of their own.

    \b
      upside doctor runs/run-grpo-s0
      upside doctor runs/run-grpo-s0 --only truncation,missing_eos --set truncation.fail=0.5
      upside doctor trainer_state.json --fail-on warn --json

    Exit code: 0 nothing found, 1 a finding at --fail-on or worse, 2 a log that cannot be read.
    """
    import json

    from upside.analysis import read_log, show
    from upside.analysis.doctor import CHECKS, diagnose

    if listing:
        for check in CHECKS.values():
            click.echo(f"{click.style(check.name, bold=True)}: {check.title}\n  looks at   {check.looks_at}")
            click.echo(f"  threshold  {check.rule.format(**check.limits)}\n  remedy     {check.remedy}")
        return
    if not logs:
        raise click.UsageError("Missing argument 'LOGS...'.")
    changed, mapping = read_options(limits), read_mapping(maps) or None
    found = [
        diagnose(read_log(log, mapping), _names(only), _names(skip), changed, "warn" if fail_on == "warn" else "fail")
        for log in logs
    ]
    if as_json:
        for diagnosis in found:
            click.echo(json.dumps({"source": diagnosis.source, "findings": diagnosis.findings}))
    else:
        for diagnosis in found:
            show.print_sections(diagnosis.sections(everything))
    sys.exit(max(diagnosis.exit_code for diagnosis in found))


def _names(texts: tuple[str, ...]) -> list[str]:
    """Names of checks, comma-separated or repeated."""
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]
