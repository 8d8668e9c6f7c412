from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from upside.analysis.comparison import ComparisonError, PlannedRun, _alone, compare, plan
from upside.analysis.comparison.plan import differences
from upside.analysis.comparison.processes import Job, environment
from upside.training.recipe import RecipeError, load, to_yaml

TWO = {"grpo": "grpo", "slow": "canon:metric=length,mu=0.2"}


def planned(output: Path, *overrides: str, seeds: tuple[int, ...] = (3, 4)) -> list[PlannedRun]:
    return plan(None, overrides, TWO, seeds, output, threads=1)


def put(run: PlannedRun, **changes: object) -> None:
    """A run folder with that recipe, as `upside train` begins one."""
    run.recipe.folder.mkdir(parents=True)
    run.folder.recipe_file.write_text(to_yaml(dataclasses.replace(run.recipe, **changes)))


def test_seed_by_seed_so_that_an_early_end_compares_all(tmp_path: Path) -> None:
    runs = planned(tmp_path)
    assert [run.key for run in runs] == ["grpo-s3", "slow-s3", "grpo-s4", "slow-s4"]
    assert [(run.recipe.estimator, run.recipe.seed) for run in runs[1:3]] == [(TWO["slow"], 3), ("grpo", 4)]
    assert runs[0].recipe.folder == tmp_path / "runs" / "grpo-s3"


def test_states(tmp_path: Path) -> None:
    run = planned(tmp_path, "steps=2")[0]
    assert run.state == "new"
    put(run)
    assert run.state == "half"
    run.folder.metrics_file.write_text('{"step": 1}\n{"step": 2}\n{"st')
    assert run.step == 2
    run.folder.update_summary(after={}, steps=1, seconds={})
    assert run.state == "half"
    run.folder.update_summary(steps=2)
    assert run.state == "finished"


def test_what_does_not_change_a_run_may_differ(tmp_path: Path) -> None:
    run = planned(tmp_path)[0]
    put(
        run,
        output="elsewhere",
        threads=None,
        processes=1,
        name="other",
        save_every=7,
    )
    planned(tmp_path)


def test_another_run_in_the_folder_is_refused(tmp_path: Path) -> None:
    put(planned(tmp_path, "eval.every=20")[0])
    with pytest.raises(ComparisonError, match=r"grpo-s3 holds a run with eval\.every=20, now it is 50; give another"):
        planned(tmp_path)
    with pytest.raises(ComparisonError, match=r"lr=0\.0006, now it is 0\.001 \(also: eval\.every\)"):
        planned(tmp_path, "lr=1e-3")


def test_a_folder_of_something_else_is_refused_and_an_empty_one_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "slow-s4"
    (folder / "rollouts").mkdir(parents=True)  # a kill before the recipe was written
    planned(tmp_path)
    (folder / "notes.txt").touch()
    with pytest.raises(ComparisonError, match="something else than a run"):
        planned(tmp_path)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("estimator=rloo", "estimator: .* use --estimators"),
        ("seed=1", "--seeds"),
        ("output=x", "use --output"),
        ("eval.problems=0", "nothing to compare"),
    ],
)
def test_overrides_that_the_comparison_sets_itself(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(ComparisonError, match=message):
        planned(tmp_path, override)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"baseline": "rloo"}, "baseline: 'rloo' is none of the estimators 'grpo', 'slow'"),
        ({"target": 80}, "target: 80 is no accuracy"),
        ({"seeds": [1, 1]}, "each once"),
        ({"seeds": 0}, "at least one"),
    ],
)
def test_bad_options(tmp_path: Path, options: dict, message: str) -> None:
    with pytest.raises(ComparisonError, match=message):
        compare(estimators=TWO, output=tmp_path, **options)
    assert not list(tmp_path.iterdir())


def test_a_setting_of_one_estimator(tmp_path: Path) -> None:
    named = {"grpo": "grpo", "slow:er": "grpo", "slow": "rloo"}
    own = ["slow:er:lr=1e-4", "slow:er:beta=0.01", "slow:lr=2e-4"]
    assert plan(None, [], named, [0], tmp_path, 1, "slow:lr=2e-4")[2].recipe.lr == 2e-4
    runs = plan(None, ["lr=1e-3"], named, [0, 1], tmp_path, 1, own)
    assert [(run.recipe.lr, run.recipe.beta) for run in runs] == 2 * [(1e-3, 0.0), (1e-4, 0.01), (2e-4, 0.0)]


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (
            "rloo:lr=1e-4",
            r"set: 'rloo:lr=1e-4' begins with none of the estimators 'grpo', 'slow'; write NAME:KEY=VALUE",
        ),
        ("grpo", r"such as grpo:lr=1e-4"),
        ("grpo:steps=5", r"set: 'steps' has to be the same for all estimators; one alone may have: beta, "),
        ("grpo:eval.problems=5", r"'eval\.problems' has to be the same"),
        ("grpo:lr", r"cannot read 'lr'; write key=value"),
    ],
)
def test_a_setting_that_none_may_have_of_its_own(tmp_path: Path, own: str, message: str) -> None:
    with pytest.raises((ComparisonError, RecipeError), match=message):
        plan(None, [], TWO, [0], tmp_path, 1, [own])


def test_an_estimator_that_the_recipe_cannot_feed_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"'canon:metric=style' needs style, which a recipe cannot supply"):
        plan(None, [], {"grpo": "grpo", "style": "canon:metric=style"}, [0], tmp_path, threads=1)


def test_one_comparison_at_a_time_in_a_folder_and_one_process_a_run(tmp_path: Path) -> None:
    with _alone(tmp_path), pytest.raises(ComparisonError, match="another `upside compare` is at work"):
        compare(estimators=TWO, output=tmp_path)
    job = Job.of(planned(tmp_path)[0], tmp_path)
    log = job.open_log()
    assert job.open_log() is None  # its trainer still writes there
    log.close()
    again = job.open_log()
    assert again is not None
    again.close()


def test_an_output_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(ComparisonError, match=r"taken is no folder to write to .*; give another"):
        compare(estimators=["grpo"], seeds=1, output=tmp_path / "taken")


def test_the_environment_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    found = [environment(2, slot) for slot in range(3)]
    assert [env["CUDA_VISIBLE_DEVICES"] for env in found] == ["3", "5", "3"]
    assert {env["OMP_NUM_THREADS"] for env in found} == {"2"}


def test_without_ray_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("upside.analysis.comparison.cluster.find_spec", lambda name: None)
    with pytest.raises(ComparisonError, match=r"pip install 'upside\[ray\]'"):
        compare(estimators=TWO, output=tmp_path, ray=True)


def test_differences_name_each_key() -> None:
    old, new = load(None), load(None, ["steps=5", "eval.samples=9", "threads=2"])
    assert differences(old, new) == [("steps", 240, 5), ("eval.samples", 1, 9)]


def test_a_damaged_summary_is_no_finished_run(tmp_path: Path) -> None:
    run = planned(tmp_path)[0]
    put(run)
    run.folder.summary_file.write_text(json.dumps({"before": {}}))
    assert run.state == "half"
