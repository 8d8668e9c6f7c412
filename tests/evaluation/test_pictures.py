"""Evaluation of models that see: the same answers whatever is cut into batches, and what an evaluation depends on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_vision

from upside.evaluation import evaluate, fingerprint, run_evaluation
from upside.evaluation.backends import choose
from upside.evaluation.journal import Journal
from upside.models.loading import load_model, load_reader
from upside.tasks import load_task
from upside.tasks.base import Problem


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_vision.idefics(tmp_path_factory.mktemp("seeing"))


@pytest.mark.parametrize("problems", [tiny_vision.shapes, tiny_vision.mixed])
def test_batches_and_backends_give_the_same_likeliest_responses(
    seeing: Path, problems: Callable[[int], list[Problem]]
) -> None:
    model, reader = load_model(seeing)
    asked = problems(9)
    task = tiny_vision.Given(asked, asked)
    found = [
        [row.response for row in evaluate(model, reader, asked, task, greedy=True, max_new_tokens=8, **how).rows]
        for how in ({}, {"batch_size": 4}, {"batch_size": 1}, {"batch_size": 4, "backend": "transformers"})
    ]
    assert found[0] == found[1] == found[2] == found[3]
    blind = [replace(problem, images=tiny_vision.shapes(20)[-1].images * len(problem.images)) for problem in asked]
    other = evaluate(model, reader, blind, task, greedy=True, max_new_tokens=8)
    assert [row.response for row in other.rows] != found[0]


def test_an_evaluation_goes_on_after_a_kill(seeing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    how: dict[str, Any] = {
        "options": {"families": "sides"},
        "problems": 8,
        "samples": 2,
        "max_new_tokens": 6,
        "batch_size": 4,
    }
    whole = run_evaluation(seeing, "shapes", output=tmp_path / "whole", **how)
    keep = Journal.append

    def killed(journal: Journal, name: str, batch: int, rows: Any) -> None:
        if batch == 2:
            raise KeyboardInterrupt
        keep(journal, name, batch, rows)

    monkeypatch.setattr(Journal, "append", killed)
    with pytest.raises(KeyboardInterrupt):
        run_evaluation(seeing, "shapes", output=tmp_path / "part", **how)
    monkeypatch.setattr(Journal, "append", keep)
    assert len((tmp_path / "part" / "unfinished.jsonl").read_text().splitlines()) == 3  # settings and two batches
    part = run_evaluation(seeing, "shapes", output=tmp_path / "part", **how)
    assert part["shapes"].rows == whole["shapes"].rows
    with pytest.raises(ValueError, match=r"other settings.*blind"):
        run_evaluation(
            seeing, "shapes", output=tmp_path / "part", **{**how, "options": {"families": "sides", "blind": "figure"}}
        )


def test_pictures_belong_to_what_an_evaluation_depends_on(seeing: Path) -> None:
    reader = load_reader(seeing)
    seen, blind = (load_task("shapes", blind=kind).problems("test", 4) for kind in (None, "figure"))
    assert fingerprint.of_problems(seen) != fingerprint.of_problems(blind)
    assert fingerprint.of_prompt(reader, seen[0]) != fingerprint.of_prompt(reader, blind[0])
    before = fingerprint.of_tokenizer(reader)
    assert before == fingerprint.of_tokenizer(load_reader(seeing))
    reader.image_processor.image_mean = [0.4] * 3
    assert fingerprint.of_tokenizer(reader) != before


def test_who_is_shown_pictures() -> None:
    assert choose("auto", "idefics3").name == "upside"
    assert choose("auto", "qwen2_5_vl").name == "transformers"
    assert choose("transformers", "qwen2_5_vl").name == "transformers"
    with pytest.raises(ValueError, match="backend upside does not show pictures to models of type qwen2_5_vl; use"):
        choose("upside", "qwen2_5_vl")


def test_a_model_of_text_alone_is_not_asked() -> None:
    with pytest.raises(ValueError, match="has pictures, and the model takes text alone"):
        run_evaluation("bundled", "shapes", problems=2)
