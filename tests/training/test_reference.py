"""`upside reference build` and runs that read its table."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from click.testing import CliRunner

from upside.cli import main
from upside.evaluation import run_evaluation
from upside.training import reference
from upside.training.folder import RunFolder
from upside.training.recipe import Recipe, RecipeError, load
from upside.training.run import train

AAPO = ["estimator=aapo", "eval.problems=0", "steps=3", "reference=table", "reference_table=table.parquet"]


def recipe(*changes: str) -> Recipe:
    return load("small.yaml", [*AAPO, "rewards=[verdict]", *changes])


def build(of: Recipe, *changes: str) -> str:
    """Runs the command that the recipe's errors name; returns what it prints."""
    words = shlex.split(reference.command(of))
    assert words[:3] == ["upside", "reference", "build"]
    done = CliRunner().invoke(main, [*words[1:], *changes])
    assert done.exit_code == 0, done.output
    return done.output


def columns(path: str) -> dict[str, list[Any]]:
    return pyarrow.parquet.read_table(path).to_pydict()


@pytest.mark.usefixtures("workplace")
def test_the_table_is_an_evaluation_of_the_training_problems() -> None:
    of = recipe()
    output = build(of)
    table = columns("table.parquet")
    assert list(table) == ["problem", "sample", "reward", "correct", "outcome", "tokens", "prompt"]
    problems = len(set(table["problem"]))
    assert f"written: table.parquet: {4 * problems} reference responses to {problems} problems" in output
    assert table["sample"] == [0, 1, 2, 3] * problems
    suite = run_evaluation(
        of.model, f"reference={of.task}", split="train", samples=4, max_new_tokens=10, problems=None
    )  # fmt: skip
    rows = suite["reference"].rows
    assert [(row.problem, row.sample, row.score, row.tokens) for row in rows] == list(
        zip(table["problem"], table["sample"], table["reward"], table["tokens"], strict=True)
    )
    assert not Path("table.parquet.unfinished").exists()
    again = CliRunner().invoke(main, shlex.split(reference.command(of))[1:])
    assert again.exit_code == 2
    assert "table.parquet exists; remove it" in again.output


@pytest.mark.usefixtures("workplace")
def test_a_killed_build_goes_on_and_ends_in_the_same_table() -> None:
    of = recipe()
    build(of, "--batch-size", "16")
    first = columns("table.parquet")
    suite = run_evaluation(
        of.model, f"reference={of.task}", split="train", samples=4, max_new_tokens=10, max_prompt_tokens=512,
        batch_size=16, output="whole",
    )  # fmt: skip
    journal = Path("other.parquet.unfinished")  # as a kill after two batches leaves it
    journal.mkdir()
    lines = [json.dumps({"settings": suite.settings})]
    rows = suite["reference"].rows
    lines += [
        json.dumps({"set": "reference", "batch": batch, "rows": [asdict(row) | {"score": 0.5} for row in part]})
        for batch, part in enumerate([rows[:16], rows[16:32]])
    ]
    (journal / "unfinished.jsonl").write_text("\n".join(lines) + "\n")
    output = build(of, "--batch-size", "16", "--output", "other.parquet")
    assert "going on after 8 finished problems" in output
    other = columns("other.parquet")
    assert other["reward"][:32] == [0.5] * 32  # kept, not done again
    assert other["reward"][32:] == first["reward"][32:]
    assert not journal.exists()


@pytest.mark.usefixtures("workplace")
def test_other_rewards_than_the_verdict_and_groups() -> None:
    changed = load("small.yaml", [*AAPO, "rewards=[verdict,{name: length_ratio, weight: 0.5}]"])
    build(changed)
    table = columns("table.parquet")
    from upside.rewards import Completions, load_rewards
    from upside.tasks import load_task

    task = load_task("sums.jsonl")
    problems = {problem.id: problem for problem in task.problems("train", None, 0)}
    judge = load_rewards(changed.rewards, task)
    part = slice(4, 8)
    asked = [problems[id] for id in table["problem"][part]]
    right = [str(asked[0].answer) if correct else "x" for correct in table["correct"][part]]
    limit = [tokens == 10 for tokens in table["tokens"][part]]
    expected = judge(Completions(asked, right, table["tokens"][part], limit, groups=[0] * 4)).score
    assert table["reward"][part] == pytest.approx(expected)
    with pytest.raises(RecipeError, match=r"another reference: rewards is .*length_ratio.* here\. Name another file"):
        train(recipe())


@pytest.mark.usefixtures("workplace")
def test_a_run_draws_from_the_table_in_turn() -> None:
    of = recipe("steps=40", "prompts_per_step=12", "max_new_tokens=2")
    build(of, "--samples", "6")
    table = columns("table.parquet")
    numbers = {(p, s): i / 1000 for i, (p, s) in enumerate(zip(table["problem"], table["sample"], strict=True))}
    schema = pyarrow.parquet.read_table("table.parquet")
    marked = schema.set_column(
        2, "reward", pyarrow.array([numbers[k] for k in zip(table["problem"], table["sample"], strict=True)])
    )
    pyarrow.parquet.write_table(marked, "table.parquet")
    train(recipe("steps=6", "prompts_per_step=12", "max_new_tokens=2"))
    from upside.tasks import load_task

    ids = {problem.prompt: problem.id for problem in load_task("sums.jsonl").problems("train", None, 0)}
    logged = pyarrow.parquet.read_table("run/rollouts").to_pydict()
    assert len(logged["step"]) == 6 * 48
    place: dict[tuple[int, Any], int] = {}
    for step, group, prompt, value in zip(
        logged["step"], logged["group"], logged["prompt"], logged["reference_reward"], strict=True
    ):
        at = place.setdefault((step, group), 0)
        place[step, group] += 1
        assert value == pytest.approx(numbers[ids[prompt], ((step - 1) * 4 + at) % 6], abs=1e-6)
    rows = RunFolder(Path("run")).metrics()
    assert rows[0]["reference_missing_share"] == 0


@pytest.mark.usefixtures("workplace")
def test_problems_that_the_table_lacks_are_counted_or_sampled() -> None:
    of = recipe()
    build(of, "--problems", "20")
    with pytest.raises(RecipeError, match=r"reference_table: \d+ of \d+ training problems are not in table.parquet \(first: .*reference_missing=fresh, or build a table of all of them: upside reference build"):  # fmt: skip  # noqa: E501
        train(of)
    assert not Path("run").exists()
    table = pyarrow.parquet.read_table("table.parquet")
    marked = table.set_column(2, "reward", pyarrow.array([5.0] * len(table)))  # no fresh response gets that
    pyarrow.parquet.write_table(marked, "table.parquet")
    train(recipe("reference_missing=fresh", "steps=6"))
    values = pyarrow.parquet.read_table("run/rollouts")["reference_reward"].to_pylist()
    assert {5.0} < set(values) <= {5.0, 0.0, 1.0}
    groups = [set(values[at : at + 4]) for at in range(0, len(values), 4)]
    assert all(group == {5.0} or 5.0 not in group for group in groups)


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("temperature=0.5", r"sampling.temperature is 1.0 there, 0.5 here"),
        ("max_new_tokens=11", r"sampling.max_new_tokens is 10 there, 11 here"),
        ("model=bundled", r"model.weights is '\w+' there, '\w+' here"),
        ("task_options.template=boxed", r"asked with another prompt there"),
        ("reference_table=nowhere.parquet", r"there is no reference table nowhere.parquet"),
        ("reference_table=sums.jsonl", r"sums.jsonl is no reference table"),
    ],
)
def test_a_table_of_another_reference_is_refused(change: str, message: str) -> None:
    build(recipe())
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        train(recipe(change))
    assert not Path("run").exists()


@pytest.mark.usefixtures("workplace")
def test_keys_that_do_not_go_together() -> None:
    with pytest.raises(RecipeError, match=r"reference_table: None does not go with reference=table"):
        load("small.yaml", ["reference=table"])
    with pytest.raises(RecipeError, match=r"reference_table: t.parquet does not go with reference=fresh"):
        load("small.yaml", ["reference_table=t.parquet"])
    with pytest.raises(RecipeError, match=r"reference: 'tabel' is unknown; did you mean 'table'"):
        load("small.yaml", ["reference=tabel"])
    output = (
        CliRunner()
        .invoke(main, ["train", "small.yaml", "--dry-run", "reference=table", "reference_table=t.parquet"])
        .output
    )
    assert "caution: reference_table is not read: the estimator canon" in output
    assert "not here yet: t.parquet" in output


@pytest.mark.usefixtures("workplace")
def test_a_damaged_table_is_an_error_in_a_line() -> None:
    build(recipe())
    whole, table = Path("table.parquet").read_bytes(), pyarrow.parquet.read_table("table.parquet")

    def changed(column: str, values: list[Any], kind: str) -> pyarrow.Table:
        array = pyarrow.array(values * (len(table) // len(values)), kind)
        return table.set_column(table.schema.get_field_index(column), column, array)

    Path("cut.parquet").write_bytes(whole[: len(whole) // 2])
    Path("overwritten.parquet").write_bytes(whole[:100] + bytes(200) + whole[300:])
    pyarrow.parquet.write_table(table.replace_schema_metadata({b"upside": b"3"}), "other.parquet")
    pyarrow.parquet.write_table(changed("problem", [None, "a"], "string"), "nameless.parquet")
    pyarrow.parquet.write_table(changed("reward", [float("inf")], "double"), "infinite.parquet")
    pyarrow.parquet.write_table(changed("reward", ["1"], "string"), "text.parquet")
    for name in ("cut", "overwritten", "other", "nameless"):
        with pytest.raises(ValueError, match=rf"{name}.parquet is no reference table \(.*upside reference build"):
            reference.ReferenceTable.load(f"{name}.parquet")
    for name, value in (("infinite", "inf"), ("text", "'1'")):
        with pytest.raises(ValueError, match=rf"reward {value} of .* must be a finite number, NaN or null"):
            reference.ReferenceTable.load(f"{name}.parquet")
