"""`upside evaluate`."""

from __future__ import annotations

from typing import Any

import click

from upside.cli.arguments import options as read_options
from upside.cli.arguments import whole_numbers


@click.command()
@click.argument("model", default="bundled")
@click.option(
    "--data",
    "--task",
    multiple=True,
    metavar="[NAME=]SPEC",
    help="A task or data file, as in a recipe; repeatable. [default: reasoner]",
)
@click.option(
    "--option", "options", multiple=True, metavar="[NAME.]KEY=VALUE", help="An option of every set, or of the set NAME."
)
@click.option("--split", type=click.Choice(["test", "train"]), default="test", show_default=True)
@click.option(
    "--problems",
    type=int,
    default=None,
    help="How many of each set; 0: all. [default: all of a data set, 512 of a generator]",
)
@click.option(
    "--sampling", metavar="PAPER", default=None, help="aapo, canon or adora: as the paper evaluates; options win."
)
@click.option("-k", "--samples", type=int, default=None, help="Responses per problem. [default: 16]")
@click.option("--greedy", is_flag=True, help="The likeliest response only.")
@click.option("--temperature", type=float, default=None, help="[default: 1]")
@click.option("--top-p", type=float, default=None, help="[default: 1, off]")
@click.option("--top-k", type=int, default=None, help="[default: 0, off]")
@click.option("--max-new-tokens", type=int, default=None, help="[default: 96 for the generated tasks, else 2048]")
@click.option("--max-prompt-tokens", type=int, default=None, help="Leave out longer prompts.")
@click.option("--pass-at", metavar="K,K,…", default="", help="Which pass@k. [default: powers of two up to -k]")
@click.option(
    "--on-failure",
    default="exclude",
    show_default=True,
    help="A response without a verdict is left out, or counts as 'wrong'.",
)
@click.option("--baseline", default=None, help="A model or a finished --output folder: print the paired difference.")
@click.option("--output", default=None, help="Folder for figures and responses; after a kill the same command goes on.")
@click.option("--batch-size", type=int, default=None, help="Responses at once. [default: 256; vllm: 1024]")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--backend",
    default="auto",
    show_default=True,
    help="upside, transformers or vllm; auto: vllm on a GPU, else upside.",
)
@click.option("--threads", type=click.IntRange(min=1), default=None, help="CPU threads.")
def evaluate(
    model: str, data: tuple[str, ...], options: tuple[str, ...], pass_at: str, threads: int | None, **settings: Any
) -> None:
    """Measure MODEL (a folder, a hub id, "bundled" or "bundled_vision"): avg@k, pass@k, maj@k, tokens, truncation.

    \b
      upside evaluate bundled --problems 64 -k 4
      upside evaluate runs/a/model --data math500 --data aime24 --sampling canon --output evals/a
      upside evaluate runs/a/model --data mine=problems.jsonl --option mine.prompt=question --baseline bundled
    """
    from upside.evaluation import run_evaluation
    from upside.training.threads import set_threads

    ks = whole_numbers("--pass-at", pass_at)
    set_threads(threads)
    run_evaluation(model, data or "reasoner", options=read_options(options), pass_at=ks, **settings)
