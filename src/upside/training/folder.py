"""The run folder: everything a run leaves behind, in files other tools can read.

| file | what |
|---|---|
| recipe.yaml | the resolved recipe |
| versions.json | package versions and the machine |
| metrics.jsonl | one JSON object a step |
| rollouts/step-00001.parquet | one row a response: prompt, response, reward, correct, outcome, stages' values, … |
| pictures/ | of problems with pictures, each once and small, named by its pixels; the column `images` refers to them |
| checkpoints/ | what `resume=true` continues from |
| model/ | the trained model and its tokenizer |
| held_out.jsonl | one JSON object an evaluation: each problem's right, judged and drawn responses, and tokens |
| curves.png | accuracy, reward, length, entropy, zero-advantage share |
| summary.json | held-out accuracy before and after, how judgements ended, doctor's findings, seconds of each phase |
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import math
import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upside.evaluation.results import Evaluation, right
from upside.training import world
from upside.training.recipe import Recipe, load, to_yaml

if TYPE_CHECKING:
    from PIL.Image import Image

# what may differ between a run and its continuation
FREE_ON_RESUME = {
    "steps", "eval", "save_every", "keep_checkpoints", "output", "resume", "report_to", "threads", "processes", "name",
    "doctor",
}  # fmt: skip
WHOLE = ("trainer_state.json", "advantage_estimator.json")  # a checkpoint has them, or a kill cut it short
NULLABLE = {"outcome": "string", "correct": "bool", "reference_reward": "double"}  # types of columns that may be empty
PACKAGES = ("upside", "torch", "trl", "transformers", "accelerate", "datasets", "tokenizers", "omegaconf")


class RunFolderError(ValueError):
    """The output folder cannot be used as it is; the message says what to do."""


class Interrupted(Exception):
    """The run was stopped by a signal; `command` continues it from its last checkpoint."""

    exit_code = 130

    def __init__(self, name: str, command: str) -> None:
        super().__init__(f"stopped by {name}; continue with: {command}")
        self.command = command


class Halted(Interrupted):
    """The doctor stopped the run (`doctor=halt`). finding: as `blocks.Findings` has it."""

    exit_code = 3

    def __init__(self, finding: Mapping[str, Any], command: str) -> None:
        name = f"the doctor: {finding['check']}: {finding['evidence']}. Remedy: {finding['remedy']}. As it is"
        super().__init__(name, f"{command} doctor=warn")
        self.finding = finding


class RunFolder:
    """Paths and files of one run. Use `open_for` to make or reopen one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recipe_file = path / "recipe.yaml"
        self.metrics_file = path / "metrics.jsonl"
        self.summary_file = path / "summary.json"
        self.rollouts = path / "rollouts"
        self.pictures = path / "pictures"
        self.checkpoints = path / "checkpoints"
        self.model = path / "model"
        self.curves = path / "curves.png"
        self.versions_file = path / "versions.json"
        self.held_out_file = path / "held_out.jsonl"

    @classmethod
    def open_for(cls, recipe: Recipe, engine: str = "trl") -> RunFolder:
        """A new folder for the recipe, or with `resume` the one that holds the earlier part of the same run.

        Raises RunFolderError when the folder holds a run and `resume` is off, when it holds something else, or when
        the earlier part ran on another engine (whose checkpoints this one cannot read), its recipe differs in more
        than the length of the run and what is reported, or the new length is shorter than what is done.
        """
        folder = cls(recipe.folder)
        if folder.recipe_file.is_file():
            if not recipe.resume:
                raise RunFolderError(
                    f"output: {folder.path} already holds a run; add resume=true to continue it, or give another "
                    f"output=FOLDER"
                )
            folder._check_engine(engine)
            folder._check_same(recipe, engine)
            folder._check_length(recipe)
        elif folder.path.exists() and not folder.path.is_dir():
            raise RunFolderError(f"output: {folder.path} is a file; give another output=FOLDER")
        elif folder.path.exists() and any(folder.path.iterdir()):
            raise RunFolderError(f"output: {folder.path} is not empty and holds no run; give another output=FOLDER")
        elif recipe.resume:
            raise RunFolderError(f"output: {folder.path} holds no run to resume; leave out resume=true to start one")
        folder.rollouts.mkdir(parents=True, exist_ok=True)
        folder.checkpoints.mkdir(exist_ok=True)
        resolved = dataclasses.replace(
            recipe, output=str(recipe.folder), resume=False, processes=recipe.processes or world.size()
        )
        partial = folder.recipe_file.with_suffix(".tmp")
        partial.write_text(to_yaml(resolved))
        partial.replace(folder.recipe_file)
        folder.versions_file.write_text(json.dumps({"engine": engine, **versions()}, indent=2) + "\n")
        return folder

    def _check_engine(self, engine: str) -> None:
        known = json.loads(self.versions_file.read_text()) if self.versions_file.exists() else {}
        old = known.get("engine", engine)
        if old != engine:
            raise RunFolderError(
                f"resume: {self.path} was run with --engine {old}; continue with `{resume_command(self, old)}` or give "
                "another output=FOLDER"
            )

    def _check_same(self, recipe: Recipe, engine: str) -> None:
        old, new = load(self.recipe_file), recipe
        names = [f.name for f in dataclasses.fields(Recipe) if f.name not in FREE_ON_RESUME]
        changed = [name for name in names if getattr(old, name) != getattr(new, name)]
        if changed:
            first, more = changed[0], f" (also: {', '.join(changed[1:])})" if changed[1:] else ""
            raise RunFolderError(
                f"resume: {self.path} was run with {first}={getattr(old, first)!r}, now it is "
                f"{getattr(new, first)!r}{more}; "
                f"continue with `{resume_command(self, engine)}` or give another output=FOLDER"
            )

    def _check_length(self, recipe: Recipe) -> None:
        done = self.steps_done(recipe)
        if done > recipe.steps:
            raise RunFolderError(f"steps: {self.path} is at step {done} already; {recipe.steps} would be fewer")

    def last_checkpoint(self) -> Path | None:
        """The newest complete checkpoint, None when there is none."""
        found = [
            (int(path.name.rpartition("-")[2]), path)
            for path in self.checkpoints.glob("checkpoint-*")
            if all((path / name).is_file() for name in WHOLE)
        ]
        return max(found)[1] if found else None

    def steps_done(self, recipe: Recipe) -> int:
        """Steps behind the newest checkpoint of either engine, 0 where there is none."""
        latest = self.checkpoints / "latest_checkpointed_iteration.txt"  # verl's
        if latest.is_file():
            return int(latest.read_text())
        checkpoint = self.last_checkpoint()
        return int(checkpoint.name.rpartition("-")[2]) // recipe.updates if checkpoint else 0

    def forget_after(self, step: int) -> None:
        """Drop what was logged after a step: the run goes on from there and logs it again."""
        kept = [line for line in self._metric_lines() if json.loads(line)["step"] <= step]
        partial = self.metrics_file.with_suffix(".tmp")
        partial.write_text("".join(kept))
        partial.replace(self.metrics_file)
        for path in self.rollouts.glob("step-*.parquet"):
            if int(path.stem.rpartition("-")[2]) > step:
                path.unlink()

    def _metric_lines(self) -> list[str]:
        return whole_lines(self.metrics_file)

    def log_held_out(self, step: int, found: Mapping[str, Evaluation]) -> None:
        """Keep what each held-out problem got after a step (0: before training), {"greedy": …, "sampled": …}; what was
        kept of this step or a later one is replaced."""
        kept = [line for line in whole_lines(self.held_out_file) if json.loads(line)["step"] < step]
        for mode, evaluation in found.items():
            rows = evaluation.by_problem
            line = {
                "step": step,
                "mode": mode,
                "right": [right(problem) for problem in rows],
                "judged": [sum(row.correct is not None for row in problem) for problem in rows],
                "drawn": [len(problem) for problem in rows],
                "tokens": [sum(row.tokens for row in problem) for problem in rows],
            }
            kept.append(json.dumps(line) + "\n")
        partial = self.held_out_file.with_suffix(".tmp")
        partial.write_text("".join(kept))
        partial.replace(self.held_out_file)

    def held_out(self) -> list[dict[str, Any]]:
        """What `log_held_out` kept: one dict a step and mode, each list with one entry a problem, in order."""
        return [json.loads(line) for line in whole_lines(self.held_out_file)]

    def metrics(self) -> list[dict[str, Any]]:
        """The logged steps in order."""
        return [json.loads(line) for line in self._metric_lines()]

    def log(self, row: dict[str, Any]) -> None:
        """Append one step to metrics.jsonl; NaN and infinity become null, which JSON has no number for."""
        clean = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
        with self.metrics_file.open("a") as file:
            file.write(json.dumps(clean) + "\n")

    def rollouts_file(self, step: int) -> Path:
        """Where a step's responses are."""
        return self.rollouts / f"step-{step:05d}.parquet"

    def write_rollouts(self, step: int, columns: dict[str, list[Any]]) -> Any:
        """One Parquet file per step, one row per response; returns the table."""
        import pyarrow
        import pyarrow.parquet

        arrays = {name: pyarrow.array(values, NULLABLE.get(name)) for name, values in columns.items()}
        table = pyarrow.table(arrays)
        pyarrow.parquet.write_table(table, self.rollouts_file(step))
        return table

    def keep_pictures(self, images: Sequence[Image]) -> list[str]:
        """Write the pictures at no more than 256 pixels a side, those that are not there yet; returns their files,
        relative to the folder."""
        from upside.tasks.pictures import png, thumbnail

        found = []
        for image in images:
            name, content = png(thumbnail(image))
            if not (self.pictures / name).exists():
                self.pictures.mkdir(exist_ok=True)
                partial = self.pictures / f"{name}.tmp"
                partial.write_bytes(content)
                partial.replace(self.pictures / name)
            found.append(f"{self.pictures.name}/{name}")
        return found

    def summary(self) -> dict[str, Any]:
        """What is known of the run so far; {} before anything is."""
        return json.loads(self.summary_file.read_text()) if self.summary_file.exists() else {}

    def update_summary(self, **facts: Any) -> dict[str, Any]:
        """Merge facts into summary.json and return the whole."""
        whole = {**self.summary(), **facts}
        partial = self.summary_file.with_suffix(".tmp")
        partial.write_text(json.dumps(whole, indent=2) + "\n")
        partial.replace(self.summary_file)
        return whole


def whole_lines(file: Path) -> list[str]:
    """The lines of a file that was appended to; the last is left out where a kill cut it short."""
    if not file.exists():
        return []
    return [line for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]


def resume_command(folder: RunFolder, engine: str = "trl") -> str:
    """The command that continues the run, to be typed as it is."""
    if world.size() > 1:
        return world.launch_command(world.size(), ["train", str(folder.recipe_file), "resume=true"])
    command = f"upside train {shlex.quote(str(folder.recipe_file))} resume=true"
    return command if engine == "trl" else f"{command} --engine {engine}"


def versions() -> dict[str, Any]:
    """Versions of what a run depends on, and the machine it ran on."""
    import torch

    found: dict[str, Any] = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {**found, "machine": platform.machine(), "cores": os.cpu_count(), "gpu": gpu}
