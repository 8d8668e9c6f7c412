"""Recipes on data sets: presets in dry and real runs, rows left out and told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from upside.training.outlook import outlook
from upside.training.recipe import load
from upside.training.run import train

DATA = Path(__file__).parent.parent / "data"


def test_a_dry_run_fetches_nothing() -> None:
    lines = "\n".join(outlook(load(None, ["task=gsm8k"])))
    assert "data: a run loads openai/gsm8k on the hub; nothing is fetched now" in lines
    assert "not here yet: data/absent; a run needs it" in "\n".join(
        outlook(load(None, ["task=kk", "task_options={path: data/absent, people: 3-7}"]))
    )
    with pytest.raises(ValueError, match="task: task 'kk' has no option 'peple': did you mean 'people'"):
        outlook(load(None, ["task=kk", "task_options={peple: 3}"]))


def test_a_preset_trains_and_tells_what_it_left_out(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = (DATA / "gsm8k_train.jsonl").read_text()
    lost = [{"question": "What then?", "answer": None}, {"question": "Long. " * 100, "answer": "1"}]
    (workplace / "train.jsonl").write_text(rows + "".join(json.dumps(row) + "\n" for row in lost))
    options = "{path: train.jsonl, template: question_answer, test_share: 0}"
    changes = ["task=gsm8k", f"task_options={options}", "max_prompt_tokens=400", "steps=1", "eval.problems=0"]
    summary = train(load("small.yaml", changes))
    text = capsys.readouterr().out
    assert summary["dropped"]["no_answer"] == 1
    assert summary["dropped"]["too_long"] == summary["dropped_prompts"] >= 1
    assert "dropped 1 rows: no_answer (first: train.jsonl, line 13)" in text
    assert f"dropped {summary['dropped_prompts']} prompts longer than max_prompt_tokens=400 (first: problem " in text
    assert json.loads(Path("run/summary.json").read_text())["dropped"] == summary["dropped"]
