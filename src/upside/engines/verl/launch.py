"""`upside train RECIPE --engine verl`: the recipe on Ray, into the same run folder."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pyarrow.parquet

from upside.analysis.doctor.live import Live
from upside.engines.calls import sample_number
from upside.engines.sampler import samples_pictures
from upside.engines.verl.translate import arguments, overrides
from upside.models import loading
from upside.rewards import load_rewards
from upside.tasks import Problem, Task, load_task
from upside.tasks.pictures import MARK
from upside.tasks.prompts import loaded, render_prompt
from upside.training import reference, world
from upside.training.console import Console
from upside.training.folder import Halted, Interrupted, RunFolder, resume_command
from upside.training.heldout import add_gains, facts, measure
from upside.training.plot import draw
from upside.training.prompts import fitting, in_order
from upside.training.recipe import Recipe, RecipeError, to_yaml


class VerlFailed(RuntimeError, ValueError):
    """verl ended with an error; the message holds the end of its log and how to go on."""


def train(recipe: Recipe, *, dry_run: bool = False) -> dict[str, Any]:
    """Train as the recipe says with verl under Ray; returns the summary. dry_run: print verl's command, do nothing.

    `processes` of the recipe are GPUs (default: all of this machine); without a GPU they are processes on the smoke
    platform (default: 1); a dry run of a recipe with vLLM is for GPUs wherever it is made. A cluster that is running is
    used when RAY_ADDRESS is set; the run folder must then be on a file system that all its machines see. Raises
    RecipeError for what verl has no counterpart of, VerlFailed when verl fails.
    """
    import torch

    elsewhere = dry_run and recipe.sampler == "vllm"  # the command is for a machine with GPUs
    cpu = not torch.cuda.is_available() and not elsewhere
    workers = recipe.processes or torch.cuda.device_count() or 1
    if world.size() > 1:
        raise RecipeError(
            f"--engine verl starts its own processes, and a launcher started {world.size()} here; leave torchrun out"
        )
    world.check_shares(recipe, workers)
    recipe = replace(_at_home(recipe), processes=workers, output=str(recipe.folder.absolute()))
    model = _model(recipe)
    command = arguments(overrides(recipe, model, recipe.folder, cpu, workers))
    if dry_run:
        print(f"{'VERL_PLATFORM=cpu ' if cpu else ''}python -m verl.trainer.main_ppo", end="")
        print("".join(f" \\\n  {shlex.quote(argument)}" for argument in command))
        return {}
    return _run(recipe, model, command, cpu)


def _at_home(recipe: Recipe) -> Recipe:
    """With whole paths to its data: verl's processes, which judge by them, stand in the run's folder."""
    task = str(Path(recipe.task).absolute()) if Path(recipe.task).is_file() else recipe.task
    options = dict(recipe.task_options)
    for name in ("path", "test_path"):
        if isinstance(options.get(name), str) and Path(options[name]).exists():
            options[name] = str(Path(options[name]).absolute())
    return replace(recipe, task=task, task_options=options)


def _model(recipe: Recipe) -> str:
    """The model as verl, whose process stands in another folder, can find it."""
    found = loading.locate(recipe.model)
    if recipe.revision is not None:
        raise RecipeError("revision: verl takes a hub model as it is; download that revision and give the folder")
    return str(found.absolute()) if isinstance(found, Path) else found


def _run(recipe: Recipe, model: str, command: list[str], cpu: bool) -> dict[str, Any]:
    console, task = Console(), load_task(recipe.task, **recipe.task_options)
    tokenizer = loading.load_reader(model)
    train_problems = task.problems("train", recipe.train_problems, recipe.seed)
    train_problems, dropped = fitting(train_problems, tokenizer, recipe.max_prompt_tokens, recipe.prompts_per_step)
    held_out = task.problems("test", recipe.eval.problems, seed=0) if recipe.eval.problems else []
    if cpu and any(problem.images for problem in train_problems):
        raise RecipeError(
            "task: verl trains on pictures with vLLM on GPUs, and there is none; leave out --engine verl, or prepare "
            "the run with --dry-run"
        )
    if load_rewards(recipe.rewards, task).needs_groups:  # a function of the user's may say so
        raise RecipeError("rewards: one of them compares the responses to a prompt; verl scores each alone")
    table = reference.for_run(recipe, train_problems, tokenizer)
    rows = _rows(recipe, task, train_problems, tokenizer, table)
    folder = RunFolder.open_for(recipe, "verl")
    _write_pictures(folder.path / "data", train_problems)
    folder.recipe_file.write_text(to_yaml(replace(recipe, resume=False)))  # with the number of workers
    _write_data(folder.path / "data", rows)
    console.note(f"verl: estimator {recipe.estimator}, {recipe.processes} workers, output {folder.path}")
    if recipe.eval.every and held_out:
        console.note("eval.every: with verl the held-out problems are answered before and after the run only")
    before = folder.summary().get("before") or _evaluate(model, task, held_out, recipe, folder, step=0)
    folder.update_summary(before=before)
    started = time.perf_counter()
    if folder.steps_done(recipe) < recipe.steps:
        _launch(recipe, folder, command, cpu, console)
    seconds = time.perf_counter() - started
    _export(recipe, folder)
    after = _evaluate(str(folder.model), task, held_out, recipe, folder, recipe.steps)
    steps = folder.metrics()
    summary = folder.update_summary(
        after=after, engine="verl", estimator=recipe.estimator, task=recipe.task, model=recipe.model, seed=recipe.seed,
        steps=len(steps), dropped_prompts=len(dropped), seconds={"train": round(seconds, 2)},
    )  # fmt: skip
    held_out_points = [(0, before), (recipe.steps, after)] if before and after else []
    draw(steps, folder.curves, f"{recipe.task}, {recipe.estimator}, seed {recipe.seed}", held_out_points)
    if after:
        console.results(before, after)
    console.note(f"run folder: {folder.path}  ({seconds:.0f} s of training)")
    return summary


def _rows(
    recipe: Recipe, task: Task, problems: list[Problem], tokenizer: Any, table: Mapping[int, list[Any]] | None = None
) -> list[dict[str, Any]]:
    """verl's data set in the order of training. RecipeError for prompts that are no messages.

    table: index of a problem -> rewards of its reference responses; each row gets one per response of its step.
    Pictures are named by their file in the run's folder `data`, as `_write_pictures` writes them, and stand at marks in
    the text.
    """
    if getattr(task, "stop", ""):
        raise RecipeError(f"task: {recipe.task} ends responses at characters of its own, which verl does not know")
    rows: list[dict[str, Any]] = []
    seeing = any(problem.images for problem in problems)
    for index in in_order(recipe.steps * recipe.prompts_per_step, len(problems), recipe.seed):
        problem = problems[index]
        prompt = render_prompt(tokenizer, problem)
        if isinstance(prompt, str):
            raise RecipeError(f"task: {recipe.task} has plain-text prompts; verl takes messages and a chat template")
        columns: dict[str, Any] = {}
        more: dict[str, Any] = {}
        if seeing:
            files = [_picture_file(recipe.folder / "data", image.digest()) for image in problem.images]
            columns["images"] = [str(file) for file in files]
            more["upside_pictures"] = [file.name for file in files]  # for the rollouts
        if table is not None:
            samples, size, step = table[index], recipe.group_size, len(rows) // recipe.prompts_per_step + 1
            drawn = [sample_number(step, place, size, len(samples)) for place in range(size)]
            columns["reference_rewards"] = [samples[number] for number in drawn]
        rows.append(
            {
                **columns,
                "data_source": recipe.task,
                "prompt": [{**message, "content": _marked(message["content"])} for message in prompt],
                "reward_model": {"style": "rule", "ground_truth": problem.answer},
                "extra_info": {"index": len(rows), "problem": problem.id, **more},
            }
        )
    return rows


def _marked(content: str | list[dict[str, str]]) -> str:
    """A message's text, `<image>` for a picture: verl cuts it into blocks itself."""
    if isinstance(content, str):
        return content
    return "".join(MARK if block["type"] == "image" else block["text"] for block in content)


def _picture_file(folder: Path, digest: str) -> Path:
    return folder / "pictures" / f"{digest}.png"


def _write_pictures(folder: Path, problems: list[Problem]) -> None:
    """Every picture once, in full size. Raises PictureError that names the problem."""
    for problem in problems:
        for picture, image in zip(problem.images, loaded(problem), strict=True):
            file = _picture_file(folder, picture.digest())
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                partial = file.with_suffix(".tmp")
                image.save(partial, "PNG")
                partial.replace(file)


def _write_data(folder: Path, rows: list[dict[str, Any]]) -> None:
    """train.parquet, and the val.parquet that verl asks for and this run does not use."""
    import pyarrow
    import pyarrow.parquet

    folder.mkdir(exist_ok=True)
    for name, part in (("train", rows), ("val", rows[:1])):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(part), folder / f"{name}.parquet")


def _evaluate(
    model: str, task: Task, held_out: list[Problem], recipe: Recipe, folder: RunFolder, step: int
) -> dict[str, Any]:
    """Held-out results as summary.json keeps them, measured in this process before and after verl's."""
    import torch

    if not held_out:
        return {}
    policy, tokenizer = loading.load_model(model)
    policy.to("cuda" if torch.cuda.is_available() else "cpu")
    own = recipe.sampler == "upside" and (samples_pictures(policy) or not any(p.images for p in held_out))
    found = measure(policy, tokenizer, task, held_out, recipe, "upside" if own else "transformers")
    folder.log_held_out(step, found)
    results: dict[str, Any] = {mode: facts(evaluation) for mode, evaluation in found.items()}
    if step:
        add_gains(results, folder.held_out())
    return {**results, "accuracy": next(iter(found.values())).accuracy.value}


def _launch(recipe: Recipe, folder: RunFolder, command: list[str], cpu: bool, console: Console) -> None:
    """Run verl, its output in verl.log, the steps shown as they are written, the doctor looking at them from here.

    Interrupted after SIGINT or SIGTERM; Halted where the doctor stops the run (verl's last checkpoint is what is left).
    """
    modules = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))  # python:MODULE:FUNCTION
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": modules}
    environment |= {"VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": "1"} if cpu else {}
    log = folder.path / "verl.log"
    shown = len(folder.metrics()) if recipe.resume else 0
    doctor = Live(folder, asdict(recipe), console.note) if recipe.doctor != "off" else None
    console.note(f"verl starts, which takes a minute or two; its log: {log}")
    with log.open("a") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "verl.trainer.main_ppo", *command],
            cwd=folder.path, env=environment, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        console.start(recipe.steps, shown)
        before = signal.signal(signal.SIGTERM, _interrupt)
        try:
            while process.poll() is None:
                time.sleep(0.5)
                for row in folder.metrics()[shown:]:
                    console.step(row)
                    shown = row["step"]
                    if doctor is not None:
                        doctor.step(row, pyarrow.parquet.read_table(folder.rollouts_file(shown)))
                if recipe.doctor == "halt" and doctor is not None and doctor.failed is not None:
                    raise Halted(doctor.failed, resume_command(folder, "verl"))
        except KeyboardInterrupt as stop:
            raise Interrupted(str(stop) or "SIGINT", resume_command(folder, "verl")) from None
        finally:
            signal.signal(signal.SIGTERM, before)
            console.stop()
            if process.poll() is None:
                process.terminate()
                process.wait()
    if process.returncode:
        with log.open(errors="replace") as lines:
            end = "".join(deque(lines, 15))
        raise VerlFailed(
            f"verl ended with exit code {process.returncode}; the end of {log}:\n{end}"
            f"once it is mended, continue with: {resume_command(folder, 'verl')}"
        )


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt(signal.Signals(number).name)


def _export(recipe: Recipe, folder: RunFolder) -> None:
    """The trained model as a folder that transformers loads, from verl's last checkpoint."""
    step = folder.steps_done(recipe)
    if step < recipe.steps:
        raise VerlFailed(f"verl ended well but its last checkpoint is of step {step} of {recipe.steps}")
    saved = folder.checkpoints / f"global_step_{step}" / "actor" / "huggingface"
    shutil.copytree(saved, folder.model, dirs_exist_ok=True)
