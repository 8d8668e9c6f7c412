"""`upside report`: what a page of a known run says, of several, of other analyses, and what is refused."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from page_examples import run_folder, sections

from upside.analysis import blocks, page, report
from upside.analysis.logs import read_log
from upside.analysis.page import assemble, curves
from upside.cli import main

Visit = Callable[..., Any]


def facts(page: Any, selector: str = "#overview dl > div") -> dict[str, str]:
    """Name -> value of the facts of the page."""
    found = [text.split("\n") for text in page.locator(selector).all_inner_texts()]
    return {name: value for name, value, *_ in found}


def test_a_known_run(tmp_path: Path, visit: Visit) -> None:
    page = visit(report([run_folder(tmp_path / "mine")], tmp_path / "out" / "page.html"))
    said = facts(page)
    assert said["Held-out accuracy, greedy"] == "50.0% → 75.0%"
    assert said["Training accuracy, share of the responses"] == "25.0% → 75.0%"
    assert (said["Estimator"], said["Seed"], said["Steps"]) == ("grpo", "3", "2")
    assert said["Responses"] == "8 in 4 groups"
    assert said["Training time"] == "1 min 5 s"
    assert said["Versions"] == "upside 0.1.0, torch 2.13.0"
    titles = page.locator("figcaption > bdi").all_inner_texts()
    assert titles == ["Held-out accuracy, greedy", "Training accuracy", "Reward", "Length", "Entropy", "Loss"]
    assert page.locator("#parts tbody tr").all_inner_texts() == ["1\t100.0%\t100.0%\t+0.0", "2\t0.0%\t50.0%\t+50.0"]
    assert page.locator("#responses .where").count() == 4
    first = page.locator("#responses .group").first
    assert "1+1" in first.inner_text()
    assert first.locator(".strip").get_attribute("aria-label") == "1 of 2 correct"
    advantages = first.locator("tbody tr:first-child td").all_inner_texts()
    assert "✓ yes" in advantages


def test_two_runs_and_their_paired_difference(tmp_path: Path, visit: Visit) -> None:
    one, two = (run_folder(tmp_path / name / "run", seed=seed) for name, seed in (("a", 1), ("b", 2)))
    lines = (two / "held_out.jsonl").read_text().replace("[1, 1, 1, 0]", "[0, 1, 0, 0]")
    (two / "held_out.jsonl").write_text(lines)
    page = visit(report([one, two], tmp_path / "page.html", title="Both", baseline=one))
    assert page.title() == "Both"
    assert page.locator("#overview table").first.locator("td:first-child").all_inner_texts() == ["a/run", "b/run"]
    difference = page.locator("#overview table").nth(1).locator("tbody td").all_inner_texts()
    assert difference[0] == "b/run"
    assert difference[1].startswith("-50.0 (-141.8 to +41.8)")  # -0.5 ± 3.179 sqrt(1/3)/2; t(3) is right to 0.3%
    assert page.locator(".chart").first.locator(".legend button").all_inner_texts() == ["a/run", "b/run"]
    page.get_by_label("Run", exact=True).select_option("b/run")
    assert page.locator(".group").count() == 4


def test_curves_come_from_the_rollouts_where_no_metrics_are(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    (folder / "metrics.jsonl").unlink()
    found = {chart.title: chart.series[0] for chart in curves.charts({"run": read_log(folder)})}
    assert list(found["Training accuracy"].y) == [0.25, 0.75]
    assert list(found["Entropy"].y) == [0.5, 0.5]
    assert list(found["Held-out accuracy, greedy"].low or []) == [0.25, 0.5]
    assert "Loss" not in found


def test_runs_of_one_estimator_share_a_colour_where_there_are_others(tmp_path: Path) -> None:
    logs = {
        name: read_log(run_folder(tmp_path / name, estimator=estimator))
        for name, estimator in (("g0", "grpo"), ("g1", "grpo"), ("r0", "rloo"))
    }
    keys = lambda *names: [one.key for one in curves.charts({name: logs[name] for name in names})[0].series]  # noqa: E731
    assert keys("g0", "g1", "r0") == ["grpo", "grpo", "rloo"]
    assert keys("g0", "g1") == ["g0", "g1"]
    assert keys("g0", "r0") == ["g0", "r0"]


def test_sections_of_another_analysis_stand_beside_a_run(tmp_path: Path, visit: Visit) -> None:
    folder = tmp_path / "comparison"
    folder.mkdir()
    blocks.save(sections(), folder / blocks.SECTIONS_FILE)
    page = visit(report([run_folder(tmp_path / "run"), folder], tmp_path / "page.html"))
    ids = page.locator("main section").evaluate_all("(all) => all.map((one) => one.id)")
    assert ids[:3] == ["overview", "curves", "parts"]
    assert {"overview-2", "curves-2"} <= set(ids)
    assert len(ids) == len(set(ids))


def test_a_comparison_shows_what_the_doctor_finds_in_its_runs(tmp_path: Path, visit: Visit) -> None:
    folder = tmp_path / "comparison"
    run_folder(folder / "runs" / "a-s0")
    run_folder(folder / "runs" / "b-s0")
    blocks.save(sections(), folder / blocks.SECTIONS_FILE)
    page = visit(report([folder], tmp_path / "page.html"))
    rows = page.locator("#diagnoses tbody tr")
    assert [rows.nth(i).locator("td, th").first.inner_text() for i in range(rows.count())] == ["a-s0", "b-s0"]
    troubled = sum(rows.nth(i).locator("td, th").last.inner_text() != "–" for i in range(rows.count()))
    assert page.locator("main > *").filter(has_text="Diagnosis: ").count() == troubled
    both = visit(report([folder, folder / "runs" / "a-s0"], tmp_path / "both.html"))
    assert both.locator("#diagnoses tbody tr").count() == 2


def test_a_page_that_grows_too_large_holds_fewer_groups_and_says_so(
    tmp_path: Path, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assemble, "LARGEST", 1000)
    page = visit(report([run_folder(tmp_path / "run")], tmp_path / "page.html"))
    assert page.locator("#responses .group").count() == 1
    assert "the page holds 1 of the log's 4" in page.locator(".count").inner_text()


def test_what_cannot_be_explained_says_why_in_its_place(tmp_path: Path, visit: Visit) -> None:
    folder = run_folder(tmp_path / "run")
    page = visit(report([folder], tmp_path / "page.html", estimators=["aapo", "grpo"]))
    assert "run, aapo: not explained" in page.locator("#responses .prose").inner_text()
    assert page.locator("#responses .group").count() == 4


def test_logs_of_others_and_a_log_without_responses(tmp_path: Path, visit: Visit) -> None:
    rows = "".join(f"{step},p,r{i},{int(i < step)}\n" for step in (1, 2) for i in range(4))
    (tmp_path / "mine.csv").write_text("step,prompt,response,reward\n" + rows)
    history = [{"step": step, "loss": 0.1, "reward": step / 10} for step in (1, 2, 3)]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    page = visit(report([tmp_path / "mine.csv", tmp_path / "trainer_state.json"], tmp_path / "page.html"))
    table = page.locator("#overview table").first
    heads = [text.removesuffix("\n") for text in table.locator("th").all_inner_texts()]
    rows = [dict(zip(heads, row.split("\t"), strict=True)) for row in table.locator("tbody tr").all_inner_texts()]
    assert [(row["Steps"], row["Responses"], row["reward"]) for row in rows] == [
        ("2", "8 in 2 groups", "0.500"),
        ("3", "not logged", "0.300"),
    ]
    assert "no responses" in page.locator("#overview .prose").inner_text()
    assert page.locator("#responses .group").count() == 2


def test_the_command_names_its_file(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    done = CliRunner().invoke(main, ["report", str(run_folder(tmp_path / "run")), "--output", str(out)])
    assert (done.exit_code, done.output.strip()) == (0, str(out))
    html = out.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", html)
    assert "default-src 'none'" in html


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "nothing: no such file or folder"),
        (["run", "run"], "run is given twice"),
        (["run", "--baseline", "other"], "baseline: other is no run among the paths: run"),
        (["run", "run2", "--baseline", "run"], "baseline: run shares no held-out evaluation"),
        (["run", "--output", "run"], "output: run is a folder"),
        (["run", "--output", "/dev/null"], "output: /dev/null is no ordinary file"),
        (["empty"], "empty"),
        (["broken"], "broken/sections.json: no sections of an Upside analysis"),
    ],
)
def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str) -> None:
    monkeypatch.chdir(tmp_path)
    run_folder(tmp_path / "run")
    run_folder(tmp_path / "run2", task="another")
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "sections.json").write_text(json.dumps([{"block": "Secret"}]))
    done = CliRunner().invoke(main, ["report", *arguments])
    assert done.exit_code == 2
    assert said in done.output
    assert len(done.output.strip().splitlines()) == 1
    assert not (tmp_path / "report.html").exists()


def test_the_vendored_files_are_those_the_readme_names() -> None:
    folder = Path(page.__file__).parent / "vendor"
    named = dict(re.findall(r"^\| (\S+) \| ([0-9a-f]{64}) \|$", (folder / "README.md").read_text(), re.MULTILINE))
    assert {path.name for path in folder.iterdir()} == {*named, "README.md"}
    assert {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in named} == named
