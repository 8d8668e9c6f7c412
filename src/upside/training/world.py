"""How many processes a run has: what was asked for, what is there, and waiting for the main one.

torchrun, `accelerate launch` on several GPUs and ray.train start the processes and tell each in RANK and WORLD_SIZE.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from upside.training.recipe import Recipe, RecipeError

EVALUATION = timedelta(days=7)  # how long the others wait while the main process evaluates


def rank() -> int:
    """This process's number, 0 the main one."""
    return int(os.environ.get("RANK", "0"))


def size() -> int:
    """How many processes there are."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def check(recipe: Recipe) -> None:
    """Raise RecipeError when there are other processes than the recipe or `accelerate launch` asked for, when this one
    process sees several GPUs, and when the responses of a step cannot be shared evenly; each names what would do."""
    import torch

    asked = {"processes": recipe.processes, "accelerate launch --num_processes": asked_of_accelerate()}
    for key, number in asked.items():
        if number is not None and number != size():
            there = "there is one process" if size() == 1 else f"there are {size()} processes"
            why = "; on a CPU accelerate launch starts one, whatever it is asked" if key != "processes" else ""
            raise RecipeError(f"{key}: {number} asked for, {there}{why}; use: {launch_command(number)}")
    gpus = torch.cuda.device_count()
    if size() == 1 and gpus > 1:
        raise RecipeError(
            f"processes: one process sees {gpus} GPUs; use: {launch_command(gpus)}, or CUDA_VISIBLE_DEVICES=0 for one"
        )
    check_shares(recipe, size())


def check_shares(recipe: Recipe, processes: int) -> None:
    """RecipeError when the responses of an optimiser step do not divide among the processes."""
    update = recipe.responses // recipe.minibatches
    if update % processes == 0:
        return
    fit = [p for p in range(1, update + 1) if update % p == 0]
    prompts = [n for n in range(1, 2 * recipe.prompts_per_step + processes) if _fits(recipe, n, processes)]
    below = [n for n in prompts if n < recipe.prompts_per_step][-1:]
    above = [n for n in prompts if n > recipe.prompts_per_step][:1]
    remedy = " or ".join(f"prompts_per_step={n}" for n in [*below, *above])
    raise RecipeError(
        f"prompts_per_step: {recipe.prompts_per_step} x {recipe.group_size} responses in {recipe.minibatches} "
        f"minibatches are {update} an optimiser step, which {processes} processes cannot share evenly; "
        f"use {remedy}, or one of {', '.join(map(str, fit))} processes"
    )


def _fits(recipe: Recipe, prompts: int, processes: int) -> bool:
    responses = prompts * recipe.group_size
    return responses % recipe.minibatches == 0 and responses // recipe.minibatches % processes == 0


def asked_of_accelerate() -> int | None:
    """How many processes the command line or the configuration of `accelerate launch` asked for, over all machines;
    None where it did not start this process or names no number."""
    if "ACCELERATE_MIXED_PRECISION" not in os.environ:  # it always sets this one
        return None
    import psutil  # type: ignore[import-untyped]  # comes with accelerate

    try:
        words = psutil.Process(os.getppid()).cmdline()
    except psutil.Error:
        return None
    return number_in(_after_launch(words))


def _after_launch(words: Sequence[str]) -> list[str] | None:
    """The arguments of `accelerate launch`, `accelerate-launch` or `python -m accelerate.commands.launch`."""
    for at, word in enumerate(words):
        path = Path(word)
        if path.name == "accelerate-launch" or path.parts[-3:] == ("accelerate", "commands", "launch.py"):
            return list(words[at + 1 :])
        if word == "accelerate.commands.launch":
            return list(words[at + 1 :])
        if path.name in ("accelerate", "accelerate_cli.py") and words[at + 1 : at + 2] == ["launch"]:
            return list(words[at + 2 :])
    return None


def number_in(arguments: list[str] | None) -> int | None:
    """`--num_processes` of the arguments of `accelerate launch`, else `num_processes` of its configuration file."""
    if arguments is None:
        return None
    from accelerate.commands.config.config_args import default_config_file, load_config_from_file
    from accelerate.commands.launch import launch_command_parser

    known, _ = launch_command_parser().parse_known_args(arguments)
    if known.num_processes is not None:
        return int(known.num_processes)
    file = known.config_file or (None if known.cpu else default_config_file)
    if file is None or not Path(file).is_file():
        return None
    number = int(load_config_from_file(str(file)).num_processes)
    return number if number > 0 else None


def launch_command(processes: int, arguments: Sequence[str] | None = None) -> str:
    """The command that starts this run with so many processes, to be typed as it is. arguments: of `upside`; default
    those of this process where it is the command line's."""
    if arguments is None:
        ours = Path(sys.argv[0]).parts[-1:] == ("upside",) or Path(sys.argv[0]).parts[-2:] == ("cli", "__main__.py")
        arguments = sys.argv[1:] if ours else ["train", "RECIPE"]
    return f"torchrun --standalone --nproc_per_node {processes} -m upside.cli {shlex.join(arguments)}"


class Gate:
    """Where the other processes wait for the main one, for hours if need be: it has a process group of its own, so that
    the limit on every other exchange (`trl.ddp_timeout`, half an hour) stays what it is."""

    def __init__(self, there: int) -> None:
        """there: how many processes the training library sees."""
        import torch.distributed as dist

        if there != size():
            raise RecipeError(
                f"processes: RANK and WORLD_SIZE tell of {size()}, the training library sees {there}; start the run "
                f"with torchrun, such as {launch_command(there)}"
            )
        self.group = dist.new_group(backend="gloo", timeout=EVALUATION) if size() > 1 else None

    def wait(self) -> None:
        """Return once every process is here."""
        import torch.distributed as dist

        if self.group is not None:
            dist.barrier(group=self.group)

    def told(self, value: str | None) -> str | None:
        """The value of the main process, on every one."""
        import torch.distributed as dist

        values = [value]
        if self.group is not None:
            dist.broadcast_object_list(values, src=0, group=self.group)
        return values[0]


class ProcessLost(ValueError):
    """An exchange between the processes broke off, because one of them has ended or hangs."""

    def __init__(self, remedy: str) -> None:
        super().__init__(
            f"process {rank()} of {size()} lost the others: one has ended, by an error that it says itself, a signal "
            f"or for want of memory, or did not answer in time; {remedy}"
        )


def is_lost(error: RuntimeError) -> bool:
    """Whether an error of torch means that another process is gone."""
    import torch.distributed as dist

    words = ("gloo", "NCCL", "Connection reset", "Connection closed", "Broken pipe")
    return size() > 1 and (isinstance(error, dist.DistError) or any(word in str(error) for word in words))
