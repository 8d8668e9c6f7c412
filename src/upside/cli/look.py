"""`upside estimators`, `upside tasks`, `upside plan`: what there is, and what to expect of it."""

from __future__ import annotations

import click


@click.command()
@click.argument("name", required=False)
def estimators(name: str | None) -> None:
    """List the estimators with formula, source and what they need; with NAME, that one and its options."""
    import upside
    from upside import registry, spec

    names = upside.presets()
    if name is not None:
        registry.look_up(name)
        names = [name]
    for each in names:
        found = registry.look_up(each)
        needs = ", ".join(sorted(upside.estimator(each).needs)) if each in registry.PRESETS else ""
        click.echo(click.style(each, bold=True))
        click.echo(f"  formula  {found.formula}")
        click.echo(f"  source   {found.source}")
        click.echo(f"  needs    {needs or 'rewards and groups only'}")
        if name is not None:
            for option, default in registry.options(found.options_of).items():
                click.echo(f"  option   {option} = {spec.format_value(option, default)}")
    if name is None:
        click.echo("\nUse one as estimator=NAME, with options as estimator=NAME:option=value,option=value,")
        click.echo("and join stages with ' > '. `upside estimators NAME` shows the options.")


@click.command()
def tasks() -> None:
    """List where problems come from: the specs a recipe's `task` may be, and the public data sets by name."""
    import upside.tasks
    from upside.tasks.presets import PRESETS

    click.echo("A task is one of\n")
    for spec, what in upside.tasks.SPECS.items():
        click.echo(f"  {spec:<32}{what}")
    click.echo("\nor a data set by name (from the hub, or a local copy: path=FILE or FOLDER, or UPSIDE_DATA=FOLDER)\n")
    rows = [("name", "train + test", "verifier", "hub", "licence of the problems")]
    for preset in PRESETS.values():
        rows.append((preset.name, preset.problems, preset.options["verifier"], preset.hub, preset.licence))
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(len(rows[0]))]
    for row in rows:
        click.echo("  " + "".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


@click.command()
@click.option("--pass-rate", type=float, required=True, help="Chance that one response is right, 0 to 1.")
@click.option("--group-size", type=int, required=True, help="Responses per prompt.")
@click.option("--reference-pass-rate", type=float, default=None, help="Of AAPO's reference. [default: the pass rate]")
@click.option("--prompts", type=int, default=16, show_default=True, help="Prompts per step.")
def plan(pass_rate: float, group_size: int, reference_pass_rate: float | None, prompts: int) -> None:
    """How much of a batch carries no signal, for a pass rate and a group size."""
    from upside.evaluation.plan import plan_group

    found = plan_group(pass_rate, group_size, reference_pass_rate, prompts)
    p, g, r = found.pass_rate, found.group_size, found.reference_pass_rate
    rows = [
        ("dead group", found.dead, "p^G + (1-p)^G: all responses alike, every group-relative advantage is 0"),
        ("  too hard", found.all_wrong, "(1-p)^G: all wrong"),
        ("  too easy", found.all_right, "p^G: all right"),
        ("mixed group", found.mixed, "the rest: these teach"),
        ("AAPO, response", found.aapo_row, "p^G p' + (1-p)^G (1-p'): neither advantage nor margin"),
        ("AAPO, whole group", found.aapo_group, "(p p')^G + ((1-p)(1-p'))^G: no signal in any of its responses"),
    ]
    click.echo(f"pass rate p = {p:g}, group size G = {g}, reference pass rate p' = {r:g}\n")
    for label, value, formula in rows:
        click.echo(f"{label:<18} {value:>8.4f}   {formula}")
    click.echo(
        f"\nof {prompts} prompts a step, {prompts * found.dead:.1f} are dead and {found.expected_mixed:.1f} teach"
    )
