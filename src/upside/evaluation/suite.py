"""The evaluations of one model on one or more sets of problems, and the two files that hold them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from upside.evaluation.judging import Row
from upside.evaluation.metrics import AVERAGES, MEANS, SHARES, Estimate, estimate_average
from upside.evaluation.paired import PAIRED, Difference, Paired, average, check_settings, compare
from upside.evaluation.results import Evaluation, OnFailure

FIGURES, RESPONSES = "evaluation.json", "responses.parquet"
INTERVALS = {"shares": SHARES, "tokens": MEANS, "average over sets": AVERAGES, "differences": PAIRED}


@dataclass(frozen=True)
class Suite:
    """evaluations: by the name of the set, in order. settings: everything they depend on, as a tree: model, backend,
    sampling, seed, batch_size, sets (name -> task, options, split, …), versions. baseline: the same sets, answered by
    another model."""

    evaluations: dict[str, Evaluation]
    settings: dict[str, Any] = field(default_factory=dict)
    pass_at: tuple[int, ...] = ()
    baseline: Suite | None = None

    def __getitem__(self, name: str) -> Evaluation:
        return self.evaluations[name]

    @property
    def average(self) -> Estimate:
        """Accuracy as the plain mean over the sets (macro average)."""
        return estimate_average([e.accuracy for e in self.evaluations.values()])

    def against(self, baseline: Suite | None = None) -> dict[str, Paired]:
        """Each set compared with the same set of a baseline (None: this suite's own). Raises ValueError for sets the
        baseline lacks, and what `compare` raises."""
        other = baseline or self.baseline
        if other is None:
            raise ValueError("no baseline to compare with; give one")
        other.check_sets(list(self.evaluations))
        found = {}
        for name, evaluation in self.evaluations.items():
            try:
                found[name] = compare(evaluation, other[name], self.pass_at or None)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        return found

    def check_sets(self, names: Sequence[str], settings: Mapping[str, Any] | None = None) -> None:
        """ValueError when, as a baseline, this suite lacks one of the sets or has it with other settings than the tree
        of settings (None: not looked at)."""
        for name in names:
            if name not in self.evaluations:
                known = ", ".join(self.evaluations)
                raise ValueError(f"the baseline has no set {name!r}, it has {known}; evaluate both on the same sets")
            if settings is not None:
                try:
                    check_settings(flat_settings(settings, name), self[name].settings)
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None

    def summary(self) -> dict[str, Any]:
        """What `evaluation.json` holds: settings, how the intervals are made, the figures of every set, their average,
        and the differences from the baseline."""
        sets = {name: evaluation.summary(self.pass_at) for name, evaluation in self.evaluations.items()}
        for figures in sets.values():
            del figures["settings"]  # they are in the tree
        found: dict[str, Any] = {"settings": self.settings, "intervals": INTERVALS, "sets": sets}
        if len(sets) > 1:
            found["average"] = {"accuracy": asdict(self.average)}
        if self.baseline is not None:
            paired = self.against()
            found["against"] = {
                "model": self.baseline.settings.get("model", {}),
                "sets": {name: each.summary() for name, each in paired.items()},
            }
            if len(paired) > 1:
                found["against"]["average"] = {"accuracy": asdict(average_difference(paired))}
        return found

    def save(self, folder: str | Path) -> None:
        """Write `responses.parquet` (one row a response, the first column its set) and `evaluation.json` into a folder,
        each in one step: no reader sees half a file."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        labelled = [(name, row) for name, evaluation in self.evaluations.items() for row in evaluation.rows]
        with _replacing(folder / RESPONSES) as path:
            _write_parquet(labelled, path)
        with _replacing(folder / FIGURES) as path:
            path.write_text(json.dumps(_no_nan(self.summary()), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path, on_failure: OnFailure | None = None) -> Suite:
        """The suite that `save` wrote, without its baseline. on_failure: default as it was saved. Raises
        FileNotFoundError when there is none, ValueError when the files do not belong together."""
        folder = Path(folder)
        if not is_finished(folder):
            raise FileNotFoundError(f"{folder} holds no finished evaluation ({FIGURES}, {RESPONSES})")
        try:
            written = json.loads((folder / FIGURES).read_text(encoding="utf-8"))
            settings, sets = written["settings"], written["sets"]
            rows = _read_parquet(folder / RESPONSES)
            agree = {name: len({row.problem for row in rows[name]}) == sets[name]["problems"] for name in sets}
            evaluations = {
                name: Evaluation(rows[name], flat_settings(settings, name), on_failure or figures["on_failure"])
                for name, figures in sets.items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{folder}: {FIGURES} or {RESPONSES} is damaged, or of another version of upside "
                f"({type(error).__name__}: {error}); evaluate again into another folder"
            ) from error
        if wrong := [name for name, same in agree.items() if not same]:
            raise ValueError(f"{folder}: {FIGURES} and {RESPONSES} disagree on set {wrong[0]!r}; evaluate again")
        return cls(evaluations, settings)


def average_difference(paired: Mapping[str, Paired]) -> Difference:
    """Difference of the macro average."""
    return average([each.accuracy for each in paired.values()])


def flat_settings(tree: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The settings of one set of the tree that `Suite.settings` is."""
    shared = {key: tree[key] for key in ("backend", "seed", "batch_size") if key in tree}
    return {"model": tree.get("model", {}).get("name"), **shared, **tree.get("sampling", {}), **tree["sets"][name]}


def is_finished(folder: Path) -> bool:
    return (folder / FIGURES).is_file() and (folder / RESPONSES).is_file()


class _replacing:
    """A path to write to that takes the place of `target` when the block ends without an error."""

    def __init__(self, target: Path) -> None:
        self.target, self.path = target, target.with_name(f".{target.name}.{os.getpid()}")

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None:
            with self.path.open("rb") as file:
                os.fsync(file.fileno())
            self.path.replace(self.target)
        else:
            self.path.unlink(missing_ok=True)


def _write_parquet(labelled: Sequence[tuple[str, Row]], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {
        "int": pa.int64(), "float | None": pa.float64(), "bool": pa.bool_(), "bool | None": pa.bool_(),
        "str": pa.string(), "str | None": pa.string(),
    }  # fmt: skip
    schema = pa.schema([("set", pa.string()), *((f.name, types[str(f.type)]) for f in fields(Row))])
    pq.write_table(pa.Table.from_pylist([{"set": name, **asdict(row)} for name, row in labelled], schema), path)


def _read_parquet(path: Path) -> dict[str, list[Row]]:
    import pyarrow.parquet as pq

    found: dict[str, list[Row]] = {}
    for row in pq.read_table(path).to_pylist():
        found.setdefault(row.pop("set"), []).append(Row(**row))
    return found


def _no_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _no_nan(v) for k, v in value.items()}
    return None if isinstance(value, float) and value != value else value
