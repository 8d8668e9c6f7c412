"""`python:module:function`: tasks and rows of the user's own."""

import itertools

import pytest

from upside.tasks import load_task

SOURCE = """
from upside.tasks import load_task

def rows(count=3):
    return [{"prompt": f"{i}+1", "answer": i + 1} for i in range(count)]

def stream(count):
    for i in range(count):
        yield {"prompt": f"{i}+1", "answer": str(i + 1)}

def whole(levels):
    return load_task("arithmetic", levels=levels)

def anything(**options):
    return [{"q": str(sorted(options)), "answer": "1"}]

def text():
    return "1+1"

def bad_row():
    yield {"prompt": "1", "answer": "1"}
    yield ["2", "2"]

def breaks():
    yield {"prompt": "1", "answer": "1"}
    raise RuntimeError("no more")

def raises():
    raise KeyError("gone")

number = 3
"""
_numbers = itertools.count()


@pytest.fixture
def module(tmp_path, monkeypatch):
    name = f"own_tasks_{next(_numbers)}"  # modules are cached by name
    (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return name


def test_rows_with_options_for_both(module):
    task = load_task(f"python:{module}:rows", count=5, test_share=0, template="{prompt}=?")
    assert sorted(p.prompt for p in task.problems("train")) == [f"{i}+1=?" for i in range(5)]
    assert len(load_task(f"python:{module}:stream", count=4, test_share=0).problems("train")) == 4
    problem = load_task(f"python:{module}:rows", test_share=0).problems("train")[0]
    assert problem.metadata["file"] == f"python:{module}:rows"


def test_a_task_of_its_own(module):
    task = load_task(f"python:{module}:whole", levels=[2])
    assert {p.level for p in task.problems("train", 5)} == {2}
    with pytest.raises(ValueError, match="returned a Task, which takes no row option"):
        load_task(f"python:{module}:whole", levels=[2], template="{prompt}?")


def test_free_options_go_to_the_function_and_columns_to_the_rows(module):
    task = load_task(f"python:{module}:anything", a=1, b=2, prompt="q", test_share=0)
    assert task.problems("train")[0].prompt == "['a', 'b']"


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        ("rows", {"cuont": 3}, "has no option 'cuont'; did you mean 'count'"),
        ("stream", {}, "needs the option count"),
        ("text", {}, "returned str; return an upside.tasks.Task, or rows"),
        ("bad_row", {}, "row 2 is list, not a mapping"),
        ("breaks", {}, "RuntimeError: no more"),
        ("raises", {}, "raised KeyError: 'gone'"),
        ("number", {}, "has no function 'number'"),
        ("row", {}, "did you mean 'rows'"),
        ("rows", {"count": 0}, "empty data set"),
        ("rows", {"prompt": "question"}, "row 1: no field 'question'"),
    ],
)
def test_what_is_wrong_is_said(module, function, options, message):
    with pytest.raises(ValueError, match=message):
        load_task(f"python:{module}:{function}", **options)


@pytest.mark.parametrize("spec", ["python:", "python:module", "python::rows"])
def test_a_path_of_another_form(spec):
    with pytest.raises(ValueError, match=r"write python:module:function, e\.g\. python:my_tasks:puzzles"):
        load_task(spec)


def test_a_module_that_is_not_there():
    with pytest.raises(ValueError, match=r"task 'python:no_such_module_x:f': importing .*must be installed or lie in"):
        load_task("python:no_such_module_x:f")
