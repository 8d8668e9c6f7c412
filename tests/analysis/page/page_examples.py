"""Sections and a run folder made by hand, every number in them known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import yaml

from upside.analysis.blocks import Chart, Column, Facts, Findings, Groups, Interval, Prose, Section, Series, Table

COLUMNS = [
    Column("reward", "number", 2, help="What the rewards sum to."),
    Column("correct"),
    Column("length", "number", 0),
    Column("advantage", "signed", 3),
]


def response(text: str, reward: float, correct: bool | None, length: float, advantage: float) -> dict[str, Any]:
    values = {"reward": reward, "correct": correct, "length": length, "advantage": advantage}
    return {"text": text, "values": values, "why": f"reward {reward:g}"}


def group(step: int, number: int, prompt: str, tags: list[str], responses: list[dict[str, Any]]) -> dict[str, Any]:
    sentence = f"sentence of {prompt}"
    return {"step": step, "group": number, "prompt": prompt, "sentence": sentence, "tags": tags, "responses": responses}


def groups(source: str = "first") -> Groups:
    """Three groups: mixed at step 1, all wrong at step 1, all right at step 2."""
    mixed = [response("seven apples", 1, True, 12, 1.5), response("eight pears", 0, False, 30, -0.5),
             response("nine plums", 0, False, 7, -1.0)]  # fmt: skip
    wrong = [response("no idea", 0, False, 3, 0.0), response("none", 0, False, 2, 0.0)]
    right = [response("forty two", 1, True, 40, 0.0), response("42", 1, True, 2, 0.0)]
    made = [
        group(1, 0, "3+4", ["mixed"], mixed),
        group(1, 1, "1-9", ["dead", "too_hard"], wrong),
        group(2, 0, "6*7", ["dead", "too_easy"], right),
    ]
    return Groups(source, COLUMNS, made, total=3)


def sections() -> list[Section]:
    """One of every block."""
    table = Table(
        "Runs",
        [Column("run"), Column("accuracy", "percent", help="Share of right answers."), Column("tokens", "number", 0)],
        [["first", Interval(0.5, 0.4, 0.6), 1200], ["second", Interval(0.75, 0.7, 0.8), 90], ["third", None, 300]],
        note="Three runs.",
    )
    lines = Chart(
        "Accuracy", "step", "share correct",
        [Series("first", [0, 10, 20], [0.25, 0.5, 0.625], [0.2, 0.4, 0.6], [0.3, 0.6, 0.7]),
         Series("second", [0, 20], [0.25, 0.125])],
        percent=True,
    )  # fmt: skip
    points = Chart(
        "Accuracy and length", "tokens", "share correct",
        [Series("first", [40], [0.625], [0.6], [0.7]), Series("second", [10], [0.125])],
        kind="points",
    )  # fmt: skip
    findings = [
        {"check": "entropy", "level": "ok", "title": "Entropy", "evidence": "0.2 nats", "threshold": "0.01",
         "remedy": "", "steps": []},
        {"check": "easy", "level": "warn", "title": "Too easy", "evidence": "60% dead", "threshold": "50%",
         "remedy": "harder problems", "steps": [3, 4]},
        {"check": "kl", "level": "unknown", "title": "KL", "evidence": "not logged", "threshold": "", "remedy": "",
         "steps": []},
        {"check": "timeouts", "level": "fail", "title": "Timeouts", "evidence": "9 of 10", "threshold": "1%",
         "remedy": "longer limit", "steps": []},
    ]  # fmt: skip
    return [
        Section("overview", "Overview", [Facts([("Estimator", "grpo"), ("Task", "sums")], headline=1), table]),
        Section("curves", "Curves", [lines, points], intro="Two charts."),
        Section("diagnosis", "Diagnosis", [Prose(["Read this."], emphasis=True), Findings(findings)]),
        Section("responses", "Responses", [groups(), groups("second")]),
    ]


def run_folder(path: Path, **recipe: Any) -> Path:
    """A run of 2 steps x 2 groups x 2 responses: accuracy 25% and 75%; held out 2 of 4 right before, 3 of 4 after."""
    (path / "rollouts").mkdir(parents=True)
    settings = {"estimator": "grpo", "task": "sums", "seed": 3, "steps": 2, "group_size": 2, "lr": 0.001, **recipe}
    (path / "recipe.yaml").write_text(yaml.safe_dump(settings))
    (path / "versions.json").write_text(json.dumps({"upside": "0.1.0", "torch": "2.13.0"}))
    lines = [{"step": 1, "reward": 0.25, "accuracy": 0.25, "length": 10.0, "loss": 0.1, "entropy": None},
             {"step": 2, "reward": 0.75, "accuracy": 0.75, "length": 14.0, "loss": -0.1, "entropy": None}]  # fmt: skip
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for step, rights in ((1, [1, 0, 0, 0]), (2, [1, 1, 1, 0])):
        columns = {
            "step": [step] * 4, "prompt": ["1+1", "1+1", "2+2", "2+2"], "group": [0, 0, 1, 1],
            "response": [f"answer {step}{i}" for i in range(4)], "reward": [float(right) for right in rights],
            "correct": [bool(right) for right in rights], "valid": [True] * 4, "length": [9.0, 11.0, 10.0, 10.0],
            "entropy": [0.5] * 4, "truncated": [False] * 4,
        }  # fmt: skip
        pyarrow.parquet.write_table(pa.table(columns), path / "rollouts" / f"step-{step:05d}.parquet")
    counts = {"mode": "greedy", "judged": [1] * 4, "drawn": [1] * 4, "tokens": [9] * 4}
    held = [{"step": 0, "right": [1, 1, 0, 0], **counts}, {"step": 2, "right": [1, 1, 1, 0], **counts}]
    (path / "held_out.jsonl").write_text("".join(json.dumps(line) + "\n" for line in held))
    summary = {
        "before": {"greedy": {"accuracy": 0.5, "low": 0.25, "high": 0.75, "by_level": {"1": 1.0, "2": 0.0}}},
        "after": {"greedy": {"accuracy": 0.75, "low": 0.5, "high": 0.875, "by_level": {"1": 1.0, "2": 0.5}}},
        "steps": 2, "seconds": {"load": 5.0, "train": 60.0},
    }  # fmt: skip
    (path / "summary.json").write_text(json.dumps(summary))
    return path
