"""load_task, reasoning-gym data sets and mixtures."""

import subprocess
import sys

import pytest

from upside.tasks import Problem, Task, Verdict, load_task
from upside.tasks.gym import GymTask
from upside.tasks.mixture import Mixture


def test_importing_tasks_is_light():
    code = "import upside.tasks, sys; print([m for m in ('reasoning_gym', 'pyarrow') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "reasoning_gym" not in run.stdout
    assert "pyarrow" not in run.stdout


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("resoner", "did you mean 'reasoner'"),
        ("gsm9k", "unknown task 'gsm9k': did you mean 'gsm8k'.*known are reasoner.*`upside tasks`"),
        ("", "unknown task ''"),
        ("reasoning_gym:knight_knaves", "did you mean 'knights_knaves'"),
        ("reasoning_gym:", "unknown reasoning-gym data set ''"),
        ("reasoning_gym:composite", "unknown reasoning-gym data set"),
        ("reasoning_gym:simple_integration", "evaluates the response as code"),
    ],
)
def test_unknown_specs_name_the_nearest(spec, message):
    with pytest.raises(ValueError, match=message):
        load_task(spec)


@pytest.mark.parametrize("spec", [None, 3, ["arithmetic"]])
def test_a_spec_that_is_no_text(spec):
    with pytest.raises(ValueError, match="task: expected a name or a file, got"):
        load_task(spec)


@pytest.mark.parametrize("spec", ["arithmetic", "knights", "reasoner", "reasoning_gym:chain_sum", "file"])
@pytest.mark.parametrize(
    ("split", "count", "message"),
    [
        ("dev", 2, "split='dev' must be one of train, test"),
        ("train", -1, "count=-1 must be a whole number and not negative"),
        ("test", 1.5, "count=1.5 must be a whole number"),
    ],
)
def test_a_request_that_cannot_be_meant(tmp_path, spec, split, count, message):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"prompt": "1+1", "answer": 2}\n{"prompt": "1+2", "answer": 3}\n')
    with pytest.raises(ValueError, match=message):
        load_task(path if spec == "file" else spec).problems(split, count)


@pytest.mark.parametrize("name", ["knights_knaves", "basic_arithmetic", "chain_sum", "spiral_matrix"])
def test_gym_splits_are_disjoint_and_gold_is_right(name):
    task = load_task(f"reasoning_gym:{name}")
    assert isinstance(task, Task)
    train, test = task.problems("train", 120, seed=3), task.problems("test", 40, seed=3)
    assert len({p.id for p in train}) == 120
    assert {p.id for p in train}.isdisjoint(p.id for p in test)
    assert {p.prompt for p in train}.isdisjoint(p.prompt for p in test)
    assert task.problems("train", 120, seed=3) == train
    assert {p.id for p in task.problems("train", 120, seed=4)}.isdisjoint(p.id for p in test)
    for problem in test[:10]:
        assert task.verify(problem, f"Well.\n<answer>{problem.answer}</answer>") == Verdict(1.0, True)
        assert task.verify(problem, problem.answer).correct is True
        assert task.verify(problem, "").correct is False


def test_gym_partial_credit_is_not_correct():
    task = load_task("reasoning_gym:knights_knaves", n_people=3)
    problem = task.problems("test", 1)[0]
    first, *rest = problem.answer.split(", ")
    names = problem.metadata["entry"]["metadata"]["knight_knave_terms"]
    swapped = first.replace(names["knave"], names["knight"]) if names["knave"] in first else ""
    swapped = swapped or first.replace(names["knight"], names["knave"])
    verdict = task.verify(problem, ", ".join([swapped, *rest]))
    assert verdict.correct is False
    assert 0 < verdict.score < 1


def test_gym_options_are_checked():
    with pytest.raises(ValueError, match="no option 'n_peple': did you mean 'n_people'"):
        load_task("reasoning_gym:knights_knaves", n_peple=3)
    with pytest.raises(ValueError, match="'seed' is set by problems"):
        load_task("reasoning_gym:knights_knaves", seed=3)
    with pytest.raises(ValueError, match="does not accept n_people=-1"):
        load_task("reasoning_gym:knights_knaves", n_people=-1)


def test_an_exhausted_gym_data_set_says_so():
    task = load_task("reasoning_gym:basic_arithmetic", min_terms=2, max_terms=2, min_digits=1, max_digits=1)
    with pytest.raises(ValueError, match="distinct test problems found, 5000 asked"):
        task.problems("test", 5000)


@pytest.mark.parametrize("name", ["spiral_matrix", "binary_matrix", "string_insertion", "n_queens"])
def test_no_gym_response_is_evaluated(name, tmp_path):
    flag = tmp_path / "flag"
    task = load_task(f"reasoning_gym:{name}")
    problem = task.problems("test", 1)[0]
    task.verify(problem, f"<answer>[open({str(flag)!r}, 'w').close()]</answer>")
    assert not flag.exists()


def test_countdown_expressions_reach_the_scorer_only_when_plain(tmp_path):
    task = load_task("reasoning_gym:countdown")
    problem = task.problems("test", 1)[0]
    assert task.verify(problem, problem.answer).correct is True
    flag = tmp_path / "flag"
    for answer in (f"open({str(flag)!r}, 'w')", "9**9**9**9", "9 * * 9", "9" * 9, "(" * 300, "1" * 150 + "x"):
        assert task.verify(problem, f"<answer>{answer}</answer>") == Verdict(0.0, False)
    assert not flag.exists()


def test_a_failing_gym_scorer_makes_the_row_invalid():
    task = GymTask("chain_sum")
    problem = Problem("x", "1+1", "2", metadata={"entry": {"answer": 3, "metadata": {}}})
    assert task.verify(problem, "2") == Verdict(None, None)


def test_the_reasoner_is_half_and_half():
    task = load_task("reasoner")
    problems = task.problems("train", 21, seed=1)
    assert [p.metadata["task"] for p in problems[:4]] == ["arithmetic", "knights", "arithmetic", "knights"]
    assert [p.metadata["family"] for p in problems].count("arithmetic") == 11
    assert task.problems("train", 21, seed=1) == problems
    assert {p.id for p in problems}.isdisjoint(p.id for p in task.problems("test", 64, seed=1))
    for problem in problems:
        assert task.verify(problem, f"#{problem.answer}") == Verdict(1.0, True)
        assert task.verify(problem, "#no").correct is False


def test_mixture_errors():
    arithmetic = load_task("arithmetic")
    with pytest.raises(ValueError, match="distinct names"):
        Mixture("m", [arithmetic, arithmetic])
    with pytest.raises(ValueError, match="is not of mixture 'm'"):
        Mixture("m", [arithmetic]).verify(Problem("x", "p", "1"), "1")
    with pytest.raises(ValueError, match="takes no options"):
        load_task("reasoner", levels=[1])
    with pytest.raises(ValueError, match="no option 'level': did you mean 'levels'"):
        load_task("arithmetic", level=[1])
