"""What `upside evaluate` does: load a model and a task, evaluate, write files, print the table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upside.evaluation.generate import Backend, transformers_backend, upside_backend
from upside.evaluation.results import Evaluation
from upside.evaluation.run import Style, evaluate, settings_of
from upside.evaluation.table import describe
from upside.tasks import Split, load_task
from upside.tasks.prompts import within_limit

if TYPE_CHECKING:
    from rich.console import Console
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

BACKENDS: dict[str, Backend] = {"upside": upside_backend, "transformers": transformers_backend}


def load_model(model: str | Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Model and tokenizer of a name as `upside.models.loading.load_model` takes it; float32 on the CPU, the
    checkpoint's own type on a GPU. Raises what that does."""
    import torch

    from upside.models import loading

    cuda = torch.cuda.is_available()
    loaded, tokenizer = loading.load_model(model, dtype="auto" if cuda else torch.float32)
    return loaded.to("cuda" if cuda else "cpu").eval(), tokenizer


def style_of(task_name: str) -> Style | None:
    """How responses to the bundled tasks are sorted by strategy; None for other tasks."""
    if task_name not in ("reasoner", "arithmetic", "knights"):
        return None
    from upside.models.tutors import style

    return style


def run_evaluation(
    model: str | Path = "bundled",
    task: str = "reasoner",
    *,
    output: str | Path | None = None,
    split: Split = "test",
    problems: int | None = 512,
    samples: int = 16,
    greedy: bool = False,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
    max_new_tokens: int = 96,
    max_prompt_tokens: int | None = None,
    batch_size: int = 128,
    seed: int = 0,
    backend: str = "upside",
    task_options: Mapping[str, Any] | None = None,
    console: Console | None = None,
) -> Evaluation:
    """Evaluate a model folder (or "bundled") on a task and print the table.

    output: folder for `evaluation.json` (figures) and `responses.parquet` (every response); None writes
    nothing. problems: how many of the split (None: all). Prompts over `max_prompt_tokens` are left out and
    counted. Raises ValueError for anything out of range before the model is loaded, FileExistsError where the
    output folder holds an evaluation already.
    """
    from rich.console import Console

    console = console or Console()
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    settings_of(samples, greedy, temperature, top_p, top_k, max_new_tokens, batch_size)
    folder = _new_folder(output)
    source = load_task(task, **(task_options or {}))
    chosen = source.problems(split, problems, seed)
    loaded, tokenizer = load_model(model)
    dropped = 0
    if max_prompt_tokens is not None:
        chosen, dropped = within_limit(tokenizer, chosen, max_prompt_tokens)
        console.print(f"{dropped} of {len(chosen) + dropped} prompts are over {max_prompt_tokens} tokens")
    with _progress(console) as progress:
        bar = progress.add_task(f"{task} ({backend})", total=len(chosen) * samples)
        found = evaluate(
            loaded,
            tokenizer,
            chosen,
            source,
            samples=samples,
            greedy=greedy,
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            max_new_tokens=max_new_tokens,
            batch_size=batch_size,
            seed=seed,
            progress=lambda done, total: progress.update(bar, completed=done, total=total),
            style=style_of(task),
            backend=BACKENDS[backend],
        )
    found.settings.update(
        model=str(model), task=task, split=split, backend=backend, prompts_dropped=dropped,
        task_options=dict(task_options or {}),
    )  # fmt: skip
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        found.to_parquet(folder / "responses.parquet")
        found.to_json(folder / "evaluation.json")
        console.print(f"written: {folder / 'evaluation.json'}, {folder / 'responses.parquet'}", markup=False)
    console.print(describe(found, f"{model} on {task} ({split})"))
    return found


def _new_folder(output: str | Path | None) -> Path | None:
    if output is None:
        return None
    folder = Path(output)
    if (folder / "evaluation.json").exists() or (folder / "responses.parquet").exists():
        raise FileExistsError(f"{folder} already holds an evaluation; name another output folder or remove it")
    return folder


def _progress(console: Console) -> Any:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True)
