"""`upside microscope`."""

from __future__ import annotations

from typing import Any

import click

from upside.cli.arguments import options as read_options
from upside.cli.arguments import whole_numbers


@click.command()
@click.argument("model", default="bundled")
@click.option("--data", "--task", metavar="SPEC", default="reasoner", show_default=True, help="As in a recipe.")
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="An option of the data.")
@click.option("--split", type=click.Choice(["train", "test"]), default="train", show_default=True)
@click.option("--estimators", multiple=True, metavar="SPEC,…", help="As for `upside compare`. [default: nine of them]")
@click.option("--group-size", metavar="G,G,…", default="2,4,8,16", show_default=True, help="Responses a prompt.")
@click.option("--problems", type=int, default=64, show_default=True, help="How many prompts of the data.")
@click.option("--samples", type=int, default=128, show_default=True, help="Responses drawn to each prompt.")
@click.option("--prompts-per-batch", type=int, default=None, help="As in training. [default: 16, or a divisor below]")
@click.option(
    "--aggregate",
    type=click.Choice(["sum", "sequence", "token"]),
    default="sum",
    show_default=True,
    help="The loss over tokens: plain sum, divided by each response's length, or by the batch's tokens.",
)
@click.option("--temperature", type=float, default=1.0, show_default=True)
@click.option("--max-new-tokens", type=int, default=None, help="[default: 96 for the generated tasks, else 2048]")
@click.option("--max-prompt-tokens", type=int, default=None, help="Leave out longer prompts.")
@click.option("--projection", type=int, default=8192, show_default=True, help="Dimensions kept of each gradient.")
@click.option("--step", type=int, default=1, show_default=True, help="Where in a run it stands, for schedules.")
@click.option("--total-steps", type=int, default=None, help="Of that run.")
@click.option("--batch-size", type=int, default=256, show_default=True, help="Responses sampled at once.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--output", default=None, help="Folder for microscope.json, sections.json and microscope.png.")
@click.option("--threads", type=click.IntRange(min=1), default=None, help="CPU threads.")
def microscope(
    model: str,
    options: tuple[str, ...],
    estimators: tuple[str, ...],
    group_size: str,
    threads: int | None,
    output: str | None,
    **settings: Any,
) -> None:
    """How good is each estimator's gradient at the weights of MODEL (a folder, a hub id, or "bundled")?

    Where it points on average against the gradient of the expected reward (the bend), how noisy one batch is, what a
    step along it gains, how many responses carry no signal; with intervals, by group size.

    \b
      upside microscope bundled --estimators grpo,rloo,canon_intra --group-size 4,8
      upside microscope runs/a/model --data math500 --problems 32 --samples 64 --output scopes/a
    """
    from upside.analysis.gradients import microscope as run
    from upside.analysis.gradients.scope import ESTIMATORS
    from upside.analysis.show import print_sections
    from upside.training.threads import set_threads

    set_threads(threads)
    found = run(
        model,
        estimators=estimators or ESTIMATORS,
        group_sizes=whole_numbers("--group-size", group_size),
        options=read_options(options),
        output=output,
        **settings,
    )
    print_sections(found.sections())
    if output is not None:
        click.echo(f"written: {output}/microscope.json, sections.json, microscope.png")
