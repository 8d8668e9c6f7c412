"""A comparison of run folders written by hand: every figure can be computed on paper."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from upside.analysis import show
from upside.analysis.blocks import Chart, load
from upside.analysis.comparison import ComparisonError, PlannedRun, plan
from upside.analysis.comparison.result import Comparison, from_runs
from upside.training.recipe import to_yaml

NAMES = {"grpo": "grpo", "aapo": "aapo", "rloo": "rloo"}
VERSIONS = {"python": "3.11", "torch": "2", "trl": "1", "transformers": "5", "machine": "x86_64", "gpu": None}


def planned(output: Path, names: Sequence[str] = ("grpo", "aapo"), seeds: Sequence[int] = (0, 1)) -> list[PlannedRun]:
    overrides = ["steps=4", "prompts_per_step=1", "group_size=2", "eval.samples=2", "eval.greedy=false", "eval.every=2"]
    return plan(None, overrides, {name: NAMES[name] for name in names}, seeds, output, threads=1)


def write(
    run: PlannedRun,
    right: Sequence[Sequence[int]],
    length: float = 10.0,
    reference_tokens: int | None = None,
    prompt: str = "1+1=",
    start: Sequence[int] = (1, 0, 0, 0),
) -> None:
    """A finished run of 4 steps of 2 responses; right: of 2 answers to each of 4 problems, after steps 2 and 4."""
    folder = run.folder
    folder.rollouts.mkdir(parents=True)
    folder.recipe_file.write_text(to_yaml(run.recipe))
    folder.versions_file.write_text(json.dumps(VERSIONS))
    for step in range(1, 5):
        extra = {} if reference_tokens is None else {"reference_tokens": reference_tokens}
        folder.log({
            "step": step, "accuracy": step / 4, "length": length, "entropy": 0.5, "zero_advantage_share": 0.25,
            "seconds": 3.0, "seconds_rollout": 1.0, **extra,
        })  # fmt: skip
        folder.write_rollouts(step, {"prompt": [prompt, prompt]})
    for step, counts in zip((0, 2, 4), (start, *right), strict=True):
        line = {"step": step, "mode": "sampled", "right": list(counts), "judged": [2] * 4, "drawn": [2] * 4}
        with folder.held_out_file.open("a") as file:
            file.write(json.dumps({**line, "tokens": [12] * 4}) + "\n")
    folder.update_summary(
        after={"accuracy": 0.5}, steps=4, seconds={"load": 1.0, "evaluate_before": 2.0, "evaluate_during": 1.0,
        "train": 13.0, "evaluate_after": 2.0, "steps": 12.0}, cpu_seconds={"train": 9.0, "evaluate_during": 1.0},
    )  # fmt: skip


@pytest.fixture
def two(tmp_path: Path) -> Comparison:
    """grpo against aapo, two seeds; aapo is better by 1 and by 3 of 8 answers, and generates twice as much."""
    grpo0, aapo0, grpo1, aapo1 = runs = planned(tmp_path)
    write(grpo0, [(1, 1, 0, 0), (1, 1, 1, 1)])
    write(aapo0, [(1, 1, 1, 1), (2, 1, 1, 1)], reference_tokens=20)
    write(grpo1, [(1, 1, 0, 0), (1, 1, 1, 0)])
    write(aapo1, [(1, 1, 1, 1), (2, 2, 1, 1)], reference_tokens=20)
    return from_runs(runs, "grpo", target=0.5)


def test_accuracy_and_the_paired_difference(two: Comparison) -> None:
    grpo, aapo = two.results
    assert grpo.by_seed == {"sampled": [0.5, 0.375]}
    assert aapo.by_seed == {"sampled": [0.625, 0.75]}
    assert grpo.accuracy["sampled"].value == 0.4375
    pair = two.pair("aapo")
    assert pair.difference.value == 0.25
    # t over the seeds' differences 0.125 and 0.375: standard error 0.125, t(1) = 12.706
    assert (pair.difference.low, pair.difference.high) == (-1, 1)  # 0.25 ± 1.588; no accuracies differ by more
    assert pair.detectable is None  # 11.55 standard deviations of 0.1768 are more than accuracies can differ by
    assert pair.difference.p == pytest.approx(0.2952, abs=1e-4)  # t = 2
    assert pair.adjusted == pair.difference.p  # one comparison
    assert pair.within_noise
    assert pair.improvement.value == 1
    assert pair.needed == 7  # effect 0.25 / 0.1768 = 1.414, power 78% with 6
    assert pair.needed_range[0] <= pair.needed <= pair.needed_range[1]


def test_equal_tokens(two: Comparison) -> None:
    grpo, aapo = two.results
    assert grpo.tokens == [80, 80]
    assert aapo.tokens == [160, 160]
    assert aapo.reference_tokens == [80, 80]
    assert not aapo.estimated
    assert two.settings["token_budget"] == 80
    assert grpo.equal_tokens == grpo.by_seed["sampled"]
    assert aapo.equal_tokens == [0.5, 0.5]  # aapo's are those after step 2
    assert two.pair("aapo", budget="tokens").difference.value == pytest.approx(0.0625)
    assert any("aapo generated 2.00 times the tokens of grpo" in text for text in texts(two))


def test_steps_and_tokens_to_the_target(two: Comparison) -> None:
    grpo, aapo = two.results
    assert grpo.steps_to_target == [4, None]
    assert aapo.steps_to_target == [2, 2]
    assert aapo.tokens_to_target == [80, 80]
    cost = two.sections()[2].blocks[0]
    assert [row[1:3] for row in cost.rows] == [["> 4 (1 of 2)", "> 0.00 (1 of 2)"], ["2 (2 of 2)", "0.00 (2 of 2)"]]
    assert [row[4:9] for row in cost.rows] == [[4.0, 8.0, 5.0, 1.0, 8.0]] * 2


def test_reference_tokens_that_were_not_logged_are_estimated_and_said_to_be(tmp_path: Path) -> None:
    runs = planned(tmp_path, seeds=[0])
    write(runs[0], [(1, 1, 0, 0), (1, 1, 1, 1)])
    write(runs[1], [(1, 1, 0, 0), (1, 1, 1, 1)])
    found = from_runs(runs, "grpo")
    assert found.result("aapo").reference_tokens == [4 * 2 * 6.0]  # the initial model's answers have 6 tokens
    assert found.result("aapo").estimated
    assert not found.result("grpo").estimated
    assert any("estimated from the initial model's mean length" in text for text in texts(found))
    assert found.settings["target"] == 0.47  # 95% of 0.5, in whole percents


def test_what_is_not_fair_is_said(tmp_path: Path) -> None:
    runs = planned(tmp_path, seeds=[0])
    write(runs[0], [(1, 1, 0, 0), (1, 1, 1, 1)])
    write(runs[1], [(1, 1, 0, 0), (1, 1, 1, 1)], 10.0, 20, prompt="1+2=", start=(0, 1, 0, 0))
    found = from_runs(runs, "grpo")
    assert [check.equal for check in found.checks] == [False, False, True, True]
    assert "aapo (seed 0) and grpo (seed 0) (sampled)" in found.checks[0].evidence
    assert "from step 1" in found.checks[1].evidence
    assert sum(text.startswith("NOT FAIR") for text in texts(found)) == 2


def test_what_is_missing_is_left_out_and_named(tmp_path: Path) -> None:
    runs = planned(tmp_path)
    for run in runs[:3]:
        write(run, [(1, 1, 0, 0), (1, 1, 1, 1)])
    found = from_runs(runs, "grpo", failed={"aapo-s1": "exit code 1"})
    assert found.missing == ["aapo-s1"]
    assert found.pair("aapo").seeds == [0]
    assert found.pair("aapo").difference.p is None
    assert any("One seed cannot tell" in text for text in texts(found))
    assert not any("No estimator differs" in text for text in texts(found))
    with pytest.raises(ComparisonError, match=r"no run has finished.*aapo-s1: exit code 1"):
        from_runs(runs[3:], "grpo", failed={"aapo-s1": "exit code 1"})


def test_a_clear_difference_is_called_better_and_p_is_corrected(tmp_path: Path) -> None:
    runs = planned(tmp_path, ("grpo", "aapo", "rloo"), seeds=[0, 1, 2])
    for run in runs:
        best = {"grpo": (0, 0, 0, 0), "aapo": (2, 2, 2, 1 + run.recipe.seed % 2), "rloo": (0, 0, 0, 0)}[run.name]
        write(run, [(1, 1, 0, 0), best])
    found = from_runs(runs, "grpo")
    aapo, rloo = found.pair("aapo"), found.pair("rloo")
    # 7/8, 1, 7/8: standard error 1/24, t(2) = 22, and P over all nine pairs of runs
    assert aapo.difference.value == pytest.approx(11 / 12)
    assert aapo.adjusted == pytest.approx(2 * aapo.difference.p)
    assert not aapo.within_noise
    assert rloo.difference.value == 0
    said = texts(found)
    assert any(text.startswith("aapo: 91.7 points above grpo") and text.endswith("BETTER.") for text in said)
    assert "rloo: the same as grpo in every answer." in said


def test_a_run_that_lacks_an_evaluation_or_prompts(tmp_path: Path) -> None:
    runs = planned(tmp_path, seeds=(0,))
    for run in runs:
        write(run, [(1, 1, 0, 0), (1, 1, 1, 1)])
    (runs[1].folder.rollouts / "step-00004.parquet").unlink()
    prompts = from_runs(runs, "grpo").checks[1]
    assert (prompts.equal, prompts.evidence) == (False, "other prompts: aapo (seed 0) and grpo (seed 0) from step 4")
    lines = runs[1].folder.held_out_file.read_text().splitlines(keepends=True)
    runs[1].folder.held_out_file.write_text("".join([lines[0], lines[2]]))
    with pytest.raises(ComparisonError, match=r"of aapo, seed 0, has other evaluations .* delete its folder"):
        from_runs(runs, "grpo")


def test_problems_that_some_run_could_not_judge_are_left_out(tmp_path: Path) -> None:
    runs = planned(tmp_path, seeds=[0])
    for run in runs:
        write(run, [(1, 1, 0, 0), (2, 2, 0, 0)])
    lines = [json.loads(line) for line in runs[0].folder.held_out_file.read_text().splitlines()]
    lines[-1]["judged"][3] = 0
    runs[0].folder.held_out_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = from_runs(runs, "grpo")
    assert (found.settings["problems"], found.settings["problems_left_out"]) == (3, 1)
    assert found.result("aapo").by_seed["sampled"] == [pytest.approx(2 / 3)]


def test_files_and_sections(two: Comparison, tmp_path: Path) -> None:
    two.write(tmp_path)
    assert load(tmp_path / "sections.json") == two.sections()
    plain = json.loads((tmp_path / "comparison.json").read_text())
    assert plain["pairs"][0]["difference"]["value"] == 0.25
    assert plain["times"]["grpo"]["cpu_seconds"]["steps"] == 8
    table = (tmp_path / "table.md").read_text()
    assert "| aapo | 68.8% (" in table
    assert "+25.0 (-100.0 to +100.0) | within noise | 1.00 (" in table
    charts = [block for section in two.sections() for block in section.blocks if isinstance(block, Chart)]
    assert [len(chart.series) for chart in charts] == [2] * 7
    held_out = charts[0].series[0]
    assert (held_out.x, held_out.y) == ([0, 2, 4], [0.125, 0.25, 0.4375])
    assert held_out.low[-1] == pytest.approx(0.40625)  # quartiles of 0.375 and 0.5
    out = Console(file=StringIO(), width=120)
    show.print_sections(two.sections(), out)
    assert "WITHIN NOISE" in out.file.getvalue()


def test_settings_of_its_own_are_said(tmp_path: Path) -> None:
    names = {"grpo": "grpo", "slow": "grpo"}
    overrides = ["steps=4", "prompts_per_step=1", "group_size=2", "eval.samples=2", "eval.greedy=false", "eval.every=2"]
    runs = plan(None, overrides, names, [0], tmp_path, 1, ["slow:lr=1e-5"])
    for run in runs:
        write(run, [(1, 1, 0, 0), (1, 1, 1, 1)])
    found = from_runs(runs, "grpo")
    assert [result.own for result in found.results] == [{}, {"lr": 1e-5}]
    assert any(
        "slow was trained with other settings than grpo: grpo, lr=1e-05. Not only the estimator" in text
        for text in texts(found)
    )
    assert "grpo, lr=1e-05" in str(found.sections()[4].blocks[1])
    turned = from_runs(runs, "slow")  # it is the baseline that has its own
    assert any("grpo was trained with other settings than slow: grpo, lr=" in text for text in texts(turned))


def texts(comparison: Comparison) -> list[str]:
    return list(comparison.sections()[0].blocks[1].paragraphs)
