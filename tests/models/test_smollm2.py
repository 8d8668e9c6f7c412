"""End to end with a real pretrained model: import, the shipped recipe cut short, the run folder."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pyarrow.parquet
import pytest
from transformers import AutoTokenizer, GenerationConfig

from upside.training.recipe import load
from upside.training.run import train

CHANGES = (
    "steps=2", "prompts_per_step=2", "group_size=4", "warmup=0", "eval.problems=4", "eval.samples=2", "eval.every=0",
    "save_every=100",
)  # fmt: skip


@pytest.mark.slow
def test_the_recipe_trains_the_imported_model(smollm2: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    recipe = load("smollm2_arithmetic", [f"model={smollm2}", f"output={output}", *CHANGES])
    summary = train(recipe)
    try:
        _check(output, summary, smollm2)
    finally:
        shutil.rmtree(output)  # 2 GB


def _check(output: Path, summary: dict, smollm2: Path) -> None:
    rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2]
    assert all(math.isfinite(row["loss"]) and math.isfinite(row["grad_norm"]) for row in rows)
    for when in ("before", "after"):
        assert summary[when]["greedy"]["n"] == summary[when]["sampled"]["n"] == 4
    names = ("recipe.yaml", "versions.json", "summary.json", "curves.png", "model/model.safetensors")
    assert all((output / name).stat().st_size > 0 for name in names)
    tokenizer = AutoTokenizer.from_pretrained(output / "model")
    for step in (1, 2):
        responses = pyarrow.parquet.read_table(output / "rollouts" / f"step-{step:05d}.parquet").to_pylist()
        assert len(responses) == 8
        for row in responses:  # plain text goes in; the line break, or the model's own end, ends a response
            assert "<|im_start|>" not in row["prompt"]
            assert row["prompt"].count("\n") == 2
            ids = tokenizer(row["response"])["input_ids"]
            assert "\n" not in tokenizer.decode(ids[:-1])
    # the line break ended responses to this task alone: the model written ends where the model read did
    ends = [GenerationConfig.from_pretrained(folder).eos_token_id for folder in (output / "model", smollm2)]
    assert ends == [2, 2]
