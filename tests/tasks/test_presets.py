"""The papers' data sets by name, from local copies of their files."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from upside.tasks import load_task
from upside.tasks.base import judge
from upside.tasks.presets import PRESETS, find_preset
from upside.tasks.row_options import RowOptions
from upside.tasks.rows import RowTask
from upside.tasks.templates import TEMPLATES

DATA = Path(__file__).parent.parent / "data"


def lines(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_the_table_is_whole():
    assert list(PRESETS) == [
        "gsm8k", "math", "math500", "aime24", "aime25", "amc23", "minerva", "olympiadbench", "kk", "geometry3k",
        "geometry3k_vision", "openr1_math_46k", "simplelr", "open_rs",
    ]  # fmt: skip
    for preset in PRESETS.values():
        RowOptions(**preset.options)  # known options with usable values
        assert preset.train or preset.test
        assert preset.url.startswith("https://")
        task = load_task(preset.name)  # nothing is fetched
        assert isinstance(task, RowTask)
        assert task.remote == f"{preset.hub} on the hub"


def test_names_are_tolerant():
    assert find_preset("OpenR1-Math-46k") is PRESETS["openr1_math_46k"]
    assert find_preset("open-rs") is PRESETS["open_rs"]
    assert find_preset("MATH-500") is PRESETS["math500"]
    assert find_preset("gsm8") is None


def test_gsm8k_from_a_folder(tmp_path):
    shutil.copy(DATA / "gsm8k_train.jsonl", tmp_path / "train.jsonl")
    shutil.copy(DATA / "gsm8k_test.jsonl", tmp_path / "test.jsonl")
    task = load_task("gsm8k", path=tmp_path)
    train, test = task.problems("train"), task.problems("test")
    assert (len(train), len(test), task.dropped, task.remote) == (12, 20, {}, None)
    assert train[0].prompt.endswith("\nPlease reason step by step, and put your final answer within \\boxed{}.")
    first = next(p for p in test if p.prompt.startswith("Janet"))
    assert first.answer == "18"
    verdicts = judge(task, [first] * 3, ["So \\boxed{18}.", "\\boxed{18.0}", "\\boxed{19}"])
    assert [v.correct for v in verdicts] == [True, True, False]


def test_math500_is_for_evaluation_and_its_gold_judges_itself():
    task = load_task("math500", path=DATA / "math500.jsonl")
    problems = task.problems("test")
    assert (len(problems), {p.level for p in problems}) == (12, {2, 3, 4, 5})
    assert {p.metadata["family"] for p in problems} >= {"Algebra", "Precalculus"}
    verdicts = judge(task, problems, [f"\\boxed{{{p.answer}}}" for p in problems])
    assert [v.correct for v in verdicts] == [True] * 12
    with pytest.raises(ValueError, match=r"train problems asked for, but it has 0 \(train 0, test 12\)"):
        task.problems("train")
    cut = load_task("MATH-500", path=DATA / "math500.jsonl", test_share=0.25)
    assert len(cut.problems("train")) + len(cut.problems("test")) == 12
    hard = load_task("math500", path=DATA / "math500.jsonl", levels=[4, 5])
    assert {p.level for p in hard.problems("test")} == {4, 5}
    assert hard.dropped == {"other_level": 8}


def test_math_takes_the_last_box_of_the_solution(tmp_path):
    row = {"problem": "p", "level": "Level 4", "type": "Algebra"}
    lines(
        tmp_path / "algebra" / "train.jsonl",
        {**row, "solution": "First $\\boxed{1}$, then $\\boxed{\\frac{2}{3}}$."},
        {**row, "problem": "q", "solution": "We see that the answer follows from " + "all that came before. " * 5},
    )
    lines(tmp_path / "algebra" / "test.jsonl", {**row, "problem": "r", "solution": "\\boxed{5}", "level": "Level ?"})
    task = load_task("math", path=tmp_path)
    (problem,), (other,) = task.problems("train"), task.problems("test")
    assert (problem.answer, problem.level, problem.metadata["family"]) == ("\\frac{2}{3}", 4, "Algebra")
    assert (other.answer, other.level) == ("5", 0)
    assert task.dropped == {"no_answer": 1}


def test_olympiadbench_gold_judges_itself():
    task = load_task("olympiadbench", path=DATA / "olympiadbench.jsonl")
    problems = task.problems("test")
    verdicts = judge(task, problems, [f"Thus \\boxed{{{p.answer.strip('$')}}}." for p in problems])
    assert [v.correct for v in verdicts] == [True] * len(problems) == [True] * 10


def test_kk_with_any_number_of_people(tmp_path):
    row = json.loads((DATA / "kk_3people.jsonl").read_text().splitlines()[0])
    shutil.copy(DATA / "kk_3people.jsonl", tmp_path / "3ppl_train.jsonl")
    pair = {
        **row,
        "names": ["Ann", "Bob"],
        "quiz": "two",
        "solution_text_format": "(1) Ann is a knight\n(2) Bob is a knave",
    }
    lines(tmp_path / "2ppl_train.jsonl", pair)
    lines(tmp_path / "2ppl_test.jsonl", {**pair, "quiz": "two more"})
    task = load_task("kk", path=tmp_path)
    assert sorted(p.level for p in task.problems("train")) == [2] + [3] * 20
    assert [p.level for p in task.problems("test")] == [2]
    for people in (3, [3], "3-8", "3,4"):
        task = load_task("kk", path=tmp_path / "3ppl_train.jsonl", people=people, test_share=0)
        assert {p.level for p in task.problems("train")} == {3}
    problem = next(p for p in task.problems("train") if p.prompt.startswith(row["quiz"]))
    assert problem.answer == row["solution_text_format"]
    assert problem.system == TEMPLATES["kk"].system
    good = f"<think>Hm.</think><answer>{problem.answer}</answer>"
    assert task.verify(problem, good).correct is True
    assert task.verify(problem, good.replace("knight", "knave")).correct is False
    with pytest.raises(ValueError, match=r"people: 9 must be numbers of 2 to 8"):
        load_task("kk", people=9)
    with pytest.raises(ValueError, match="'names'"):
        load_task("kk", path=DATA / "gsm8k_train.jsonl")


def test_geometry3k_as_text():
    task = load_task("geometry3k", path=DATA / "geometry3k")
    problems = task.problems("train") + task.problems("test")
    assert len(problems) == 12
    problem = next(p for p in problems if "triangle R S T" in p.prompt)
    assert problem.prompt == (
        "\\triangle R S T \\cong \\triangle X Y Z. Find y.\n\nThe diagram shows:\nEquals(LengthOf(Line(T, R)), x+21)\n"
        "Equals(MeasureOf(Angle(T, R, S)), 4y-10)\nEquals(MeasureOf(Angle(Z, X, Y)), 3y+5)\n"
        "Equals(LengthOf(Line(Z, X)), 2x-14)\n"
        "Please reason step by step, and put your final answer within \\boxed{}."
    )
    assert task.verify(problem, "\\boxed{15}").correct is True
    assert task.verify(problem, "\\boxed{16}").correct is False


def test_geometry3k_needs_the_diagram(tmp_path):
    shutil.copy(DATA / "geometry3k/train.jsonl", tmp_path)
    with pytest.raises(ValueError, match=r"train\.jsonl, line 1: no statements about the diagram.*_annot\.json beside"):
        load_task("geometry3k", path=tmp_path)
    rows = [{"problem": "<image>Find x.", "answer": "3", "diagram_logic_form": ["Equals(x, 3)", "Equals(x, 3)"]}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "hub.parquet")
    task = load_task("geometry3k", path=tmp_path / "hub.parquet", test_share=0, template="plain")
    assert task.problems("train")[0].prompt == "Find x.\n\nThe diagram shows:\nEquals(x, 3)"
    (tmp_path / "diagram_logic_forms_annot.json").write_text("[]")
    with pytest.raises(ValueError, match="expected an object of id"):
        load_task("geometry3k", path=tmp_path)


def test_the_training_sets_in_their_published_shapes(tmp_path):
    openr1 = {
        "prompt": [{"role": "system", "content": "Think well."}, {"role": "user", "content": "1+1?"}],
        "reward_model": {"ground_truth": "2", "style": "rule"},
        "target": [{"role": "assistant", "content": "…"}],
    }
    pq.write_table(pa.Table.from_pylist([openr1]), tmp_path / "openr1.parquet")
    (problem,) = load_task("openr1-math-46k", path=tmp_path / "openr1.parquet", test_share=0).problems("train")
    assert (problem.prompt, problem.system, problem.answer) == ("1+1?", "Think well.", "2")
    simplelr = {"prompt": [{"role": "user", "content": "…"}], "question": "1+2?", "gt_answer": "3", "level": 4}
    pq.write_table(pa.Table.from_pylist([simplelr]), tmp_path / "simplelr.parquet")
    (problem,) = load_task("simplelr", path=tmp_path / "simplelr.parquet", test_share=0).problems("train")
    assert (problem.prompt.splitlines()[0], problem.answer, problem.level) == ("1+2?", "3", 4)
    assert problem.system == "You are a helpful assistant."
    (base,) = load_task(
        "simplelr", path=tmp_path / "simplelr.parquet", test_share=0, template="simplerl_abel"
    ).problems("train")
    assert (base.chat, base.id) == (False, problem.id)
    open_rs = {"problem": "1+3?", "solution": "…", "answer": "4", "level": "Hard"}
    pq.write_table(pa.Table.from_pylist([open_rs]), tmp_path / "open_rs.parquet")
    (problem,) = load_task("open_rs", path=tmp_path / "open_rs.parquet", test_share=0).problems("train")
    assert (problem.answer, problem.metadata["family"]) == ("4", "Hard")
    assert problem.system == TEMPLATES["think_boxed"].system


def test_competitions_and_minerva_in_their_published_shapes(tmp_path):
    lines(tmp_path / "aime.jsonl", {"problem": "p", "answer": 204})
    for name in ("aime24", "aime25", "amc23"):
        (problem,) = load_task(name, path=tmp_path / "aime.jsonl").problems("test")
        assert problem.answer == "204"
    lines(tmp_path / "minerva.jsonl", {"problem": "p", "solution": "We find \\boxed{4.5e33} erg."})
    assert load_task("minerva", path=tmp_path / "minerva.jsonl").problems("test")[0].answer == "4.5e33"


def test_upside_data_holds_copies_of_all(tmp_path, monkeypatch):
    monkeypatch.setenv("UPSIDE_DATA", str(tmp_path))
    (tmp_path / "openr1-math-46k").mkdir()
    (tmp_path / "MATH-500").mkdir()
    shutil.copy(DATA / "math500.jsonl", tmp_path / "MATH-500" / "test.jsonl")
    assert len(load_task("math500").problems("test")) == 12
    assert load_task("gsm8k").remote == "openai/gsm8k on the hub"
    with pytest.raises(FileNotFoundError, match=r"task 'openr1_math_46k': .*openr1-math-46k holds no \.jsonl"):
        load_task("openr1_math_46k")
    monkeypatch.setenv("UPSIDE_DATA", str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError, match="UPSIDE_DATA: there is no folder"):
        load_task("math500")


def test_conflicts_in_public_sets_are_left_out_and_counted(tmp_path):
    lines(
        tmp_path / "test.jsonl",
        {"problem": "p", "answer": "1"},
        {"problem": "p", "answer": "2"},
        {"problem": "q", "answer": "0.5"},
        {"problem": "q", "answer": "1/2"},
    )
    task = load_task("aime24", path=tmp_path)
    assert [p.answer for p in task.problems("test")] == ["0.5"]
    assert task.dropped == {"conflicting_answers": 2, "repeated": 1}


def test_wrong_options_and_paths(tmp_path):
    with pytest.raises(ValueError, match=r"task 'math500' has no option 'people'"):
        load_task("math500", people=3)
    with pytest.raises(FileNotFoundError, match="no data file"):
        load_task("math500", path=tmp_path / "none.jsonl")
    with pytest.raises(FileNotFoundError, match=r"holds no \.jsonl, \.parquet, \.csv file"):
        load_task("math500", path=tmp_path)


def test_upside_tasks_lists_them_without_torch():
    code = (
        "import sys; from click.testing import CliRunner; from upside.cli import main; "
        "print(CliRunner().invoke(main, ['tasks']).output); print('torch' in sys.modules, 'datasets' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for preset in PRESETS.values():
        assert f"  {preset.name} " in out
        assert preset.hub in out
    assert "hf:OWNER/NAME[:CONFIG][:SPLIT]" in out
    assert out.strip().endswith("False False")
