"""Logs that hold numbers of a step and no responses: TRL's trainer_state.json, verl's console and file logs, tables.

`canonical` gives the numbers of others the names that metrics.jsonl has for them; what it does not know stays.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from upside.analysis.logs import columns
from upside.analysis.logs.log import Log, LogError

NAMES: dict[str, tuple[str, ...]] = {  # ours: those of TRL, verl, and other recorders
    "reward": ("reward_mean", "critic/rewards/mean", "critic/score/mean", "rewards/mean", "objective/rlhf_reward"),
    "reward_std": ("reward/std", "critic/score/std", "group_reward_std_mean"),
    "accuracy": ("acc", "critic/acc/mean"),
    "held_out_accuracy": (
        "eval_accuracy", "eval_score", "eval/accuracy", "val/test_score", "eval_reward", "eval/reward",
    ),
    "length": (
        "completions/mean_length", "response_length/mean", "completion_length", "completion_len_mean",
        "response_len_mean",
    ),
    "truncated_share": (
        "completions/clipped_ratio", "response_length/clip_ratio", "truncation_rate", "response_len_clip_ratio",
    ),
    "repeated_share": ("repetition_rate",),
    "entropy": ("actor/entropy", "actor/entropy_loss", "policy/entropy", "policy/entropy_avg", "entropy_mean"),
    "kl": ("actor/kl_loss", "actor/kl", "objective/kl", "actor/ppo_kl", "kl_mean"),
    "clip_share": (
        "clip_ratio/region_mean", "clip_ratio", "actor/pg_clipfrac", "policy/clipfrac_avg", "clip_fraction",
        "pg_clipfrac",
    ),
    "grad_norm": ("actor/grad_norm", "policy/grad_norm"),
    "lr": ("learning_rate", "actor/lr"),
    "loss": ("actor/pg_loss", "policy_loss", "actor/loss"),
    "constant_group_share": ("frac_reward_zero_std", "zero_variance_group_frac", "zero_var_group_frac"),
    "zero_advantage_share": ("adv_zero_frac",),
    "advantage_std": ("adv_std", "critic/advantages/std"),
    "explained_variance": ("critic/vf_explained_var", "value_explained_variance", "value_explained_var"),
    "seconds": ("step_time", "timing_s/step", "perf/time_per_step", "step_time_s", "time_per_step"),
}  # fmt: skip
OURS = {theirs: ours for ours, names in NAMES.items() for theirs in names}
PART = re.compile(r"^(?:rewards/(.+)/mean|reward_component[./](.+)|reward_part/(.+))$")
VALIDATION = re.compile(r"^val-core/.*/(?:acc|reward|score)/mean@\d+$")
RESPONSES = {"rewards", *(name for meaning in ("group", "prompt", "response") for name in columns.NAMES[meaning])}
CONSOLE = re.compile(r"\bstep:(\d+) - (.+)")
ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".parquet", ".log", ".txt")


def canonical(row: Mapping[str, Any]) -> dict[str, Any]:
    """A step's numbers under our names; where two of theirs mean the same, the first that `NAMES` lists."""
    found: dict[str, Any] = {}
    rank: dict[str, int] = {}
    for key, value in row.items():
        name = key.removeprefix("train/")
        ours = OURS.get(name) or _patterned(name)
        place = NAMES[ours].index(name) if ours in NAMES and name in NAMES[ours] else -1
        if ours not in found or place < rank[ours]:
            found[ours], rank[ours] = value, place
    return found


def _patterned(name: str) -> str:
    if match := PART.match(name):
        return f"reward_part/{next(part for part in match.groups() if part)}"
    return "held_out_accuracy" if VALIDATION.match(name) else name.removeprefix("advantage/")


def is_metrics(path: Path) -> bool:
    """Whether a file, or a recorder's folder, holds steps' numbers and no responses."""
    if path.is_dir():
        return (path / "steps.parquet").is_file()
    if not path.name.lower().endswith(ENDINGS):
        return False
    try:
        first = next(iter(_rows(path)), None)
    except (LogError, OSError):
        return False
    if not first or RESPONSES & set(first):
        return False
    return any(name in NAMES for name in canonical(first))


def read_metrics(path: Path) -> Log:
    """A log without rollouts: `table` is empty, `metrics` holds one dict a step under our names, ascending."""
    steps: dict[int, dict[str, Any]] = {}
    for index, row in enumerate(_rows(path / "steps.parquet" if path.is_dir() else path), 1):
        step = row.get("step", index)
        if isinstance(step, bool) or not isinstance(step, int | float) or step != int(step):
            raise LogError(f"{path}, entry {index}: step {step!r} is no step; steps count 0, 1, 2, …")
        steps.setdefault(int(step), {}).update(canonical({**row, "step": int(step)}))
    if not steps:
        raise LogError(f"{path}: no steps in it; give the log of a run that has taken some")
    schema = pa.schema({"step": pa.int64(), "group": pa.int64(), "reward": pa.float64()})
    note = "The log holds numbers of each step and no responses; what needs responses is left out."
    return Log(str(path), "table", schema.empty_table(), [steps[step] for step in sorted(steps)], notes=[note])


def metrics_beside(folder: Path) -> list[dict[str, Any]]:
    """The steps of the newest trainer_state.json in TRL's output folder (or beside its completions), [] without one."""
    root = folder.parent if folder.name == "completions" else folder
    found = [*root.glob("trainer_state.json"), *root.glob("checkpoint-*/trainer_state.json")]
    return read_metrics(max(found, key=lambda file: file.stat().st_mtime)).metrics if found else []


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """One dict an entry, whatever the file is. LogError where it cannot be read."""
    reader = {".parquet": _parquet, ".csv": _csv, ".json": _json, ".log": _console, ".txt": _console}
    try:
        yield from reader.get(path.suffix.lower(), _lines)(path)
    except (ValueError, RecursionError, csv.Error, pa.ArrowException) as error:
        if isinstance(error, LogError):
            raise
        raise LogError(
            f"{path}: cannot be read as {path.suffix or 'JSON lines'} ({error}); give another file"
        ) from None


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    for batch in pyarrow.parquet.ParquetFile(path).iter_batches():
        yield from batch.to_pylist()


def _csv(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        for row in csv.DictReader(file):
            yield {key: _value(text) for key, text in row.items() if key and text not in (None, "")}


def _json(path: Path) -> Iterator[dict[str, Any]]:
    found = json.loads(path.read_text(encoding="utf-8"))
    rows = found.get("log_history") if isinstance(found, dict) else found
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise LogError(f"{path}: neither a trainer_state.json nor a list of steps")
    yield from rows


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise LogError(f"{path}, line {number}: no JSON ({error}); mend or delete the line") from None
            if not isinstance(row, dict):
                raise LogError(f"{path}, line {number}: expected an object with the numbers of a step")
            data = row.get("data")  # verl's file logger: {"step": 1, "data": {…}}
            yield {**data, "step": row["step"]} if isinstance(data, dict) and "step" in row else row


def _console(path: Path) -> Iterator[dict[str, Any]]:
    """verl's console: `step:1 - actor/entropy:0.42 - …`."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if match := CONSOLE.search(line):
                pairs = (part.rpartition(":") for part in match[2].split(" - "))
                yield {"step": int(match[1]), **{key.strip(): _value(text) for key, _, text in pairs if key}}


def _value(text: Any) -> Any:
    """A number where the text is one (numpy's `np.float64(0.5)` too)."""
    inner = re.sub(r"^np\.\w+\((.*)\)$", r"\1", str(text).strip())
    try:
        number = float(inner)
    except ValueError:
        return text
    return int(number) if number.is_integer() and "." not in inner and "e" not in inner.lower() else number
