"""JSONL and Parquet tasks on real rows, and every way a file can be wrong."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from upside.tasks import Task, load_task
from upside.tasks.files import FileTask

DATA = Path(__file__).parent.parent / "data"
GSM8K = {"prompt": "question", "answer": "answer"}


def write(path: Path, *rows: object) -> str:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows))
    return str(path)


def good(n: int) -> list[dict[str, str]]:
    return [{"prompt": f"{i}+1", "answer": str(i + 1)} for i in range(n)]


def test_gsm8k_solutions_verify_against_themselves():
    task = load_task(str(DATA / "gsm8k_test.jsonl"), test_share=1, **GSM8K)
    assert isinstance(task, Task)
    problems = {p.prompt: p for p in task.problems("test")}
    assert len(problems) == 20
    for line in (DATA / "gsm8k_test.jsonl").read_text().splitlines():
        row = json.loads(line)
        problem = problems[row["question"]]
        assert problem.answer == row["answer"].rpartition("#### ")[2]
        assert task.verify(problem, row["answer"]).score == 1.0
        assert task.verify(problem, f"so it is {problem.answer}.").correct is True
        assert task.verify(problem, f"{problem.answer} and 1 more").correct is False
        assert task.verify(problem, "").score == 0.0


def test_knights_and_knaves_as_text():
    task = load_task(str(DATA / "kk_3people.jsonl"), test_share=1, prompt="quiz", answer="solution_text")
    problem = task.problems("test", 1)[0]
    assert task.verify(problem, "Let us see.\n" + problem.answer).correct is True
    assert task.verify(problem, problem.answer.replace("knave", "knight")).correct is False


def test_splits_are_disjoint_stable_and_seeded():
    task = load_task(str(DATA / "gsm8k_test.jsonl"), test_share=0.4, **GSM8K)
    train, test = task.problems("train"), task.problems("test", seed=5)
    assert {p.id for p in train}.isdisjoint(p.id for p in test)
    assert len(train) + len(test) == 20
    again = load_task(str(DATA / "gsm8k_test.jsonl"), test_share=0.4, **GSM8K)
    assert again.problems("train") == train
    assert task.problems("train", seed=1) != train
    assert task.problems("train", 3) == train[:3]


def test_two_files_and_a_leak_between_them(tmp_path):
    rows = (DATA / "gsm8k_train.jsonl").read_text()
    leak = (DATA / "gsm8k_test.jsonl").read_text().splitlines()[0]
    train = tmp_path / "train.jsonl"
    train.write_text(rows + leak + "\n")
    task = FileTask(train, test_path=DATA / "gsm8k_test.jsonl", **GSM8K)
    assert (len(task.problems("train")), len(task.problems("test"))) == (12, 20)
    assert task.dropped == {"repeated": 0, "in_test_file": 1}
    assert {p.id for p in task.problems("train")}.isdisjoint(p.id for p in task.problems("test"))


def test_parquet_gives_the_same_problems(tmp_path):
    rows = [json.loads(line) for line in (DATA / "gsm8k_test.jsonl").read_text().splitlines()]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "gsm8k_test.parquet")
    a = load_task(str(DATA / "gsm8k_test.jsonl"), **GSM8K).problems("train")
    b = load_task(str(tmp_path / "gsm8k_test.parquet"), **GSM8K).problems("train")
    assert [(p.id, p.prompt, p.answer) for p in a] == [(p.id, p.prompt, p.answer) for p in b]


def test_messages_dotted_fields_numbers_levels_and_template(tmp_path):
    row = {
        "prompt": [{"role": "user", "content": "1+1"}],
        "reward_model": {"ground_truth": 2},
        "difficulty": 3,
        "topic": "sums",
        "index": 7,
    }
    task = load_task(
        write(tmp_path / "a.jsonl", row),
        answer="reward_model.ground_truth",
        level="difficulty",
        family="topic",
        id="index",
        template="{prompt}=?",
        test_share=0,
    )
    problem = task.problems("train")[0]
    assert (problem.prompt, problem.answer, problem.level, problem.id) == ("1+1=?", "2", 3, "7")
    assert problem.metadata == {"file": "a.jsonl", "row": 1, "family": "sums"}


def test_decimals_keep_their_digits(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"prompt": "p", "answer": 0.10000000000000000000001}')
    assert load_task(path, test_share=0).problems("train")[0].answer == "0.10000000000000000000001"


def test_repeated_rows_count_once(tmp_path):
    task = load_task(write(tmp_path / "a.jsonl", *good(5), *good(2)), test_share=0)
    assert len(task.problems("train")) == 5
    assert task.dropped["repeated"] == 2


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([*good(2), "{oops"], {}, r"a\.jsonl, line 3: not valid JSON"),
        (['{"prompt": "p", "answer": NaN}'], {}, "line 1: .*NaN is not a JSON value"),
        (["[1, 2]"], {}, "line 1: expected one JSON object a line, got list"),
        (["[" * 100_000], {}, "line 1: not valid JSON"),
        (['{"answer": ' + "9" * 5_000 + "}"], {}, "line 1: not valid JSON"),
        ([{"prompt": "p"}], {}, "line 1: no field 'answer'.*fields present: 'prompt'.*option answer=FIELD"),
        ([{"promt": "p", "answer": "1"}], {}, "no field 'prompt'; did you mean 'promt'"),
        ([{"prompt": "p", "answer": None}], {}, r"field 'answer' is empty \(null\)"),
        ([{"prompt": "p", "answer": " "}], {}, "field 'answer' holds no answer"),
        ([{"prompt": "p", "answer": "work ####"}], {}, "field 'answer' holds no answer"),
        ([{"prompt": "p", "answer": True}], {}, "field 'answer' must be text or a number, got bool"),
        ([{"prompt": "", "answer": "1"}], {}, "field 'prompt' is empty"),
        ([{"prompt": 5, "answer": "1"}], {}, "field 'prompt' must be text, got int"),
        ([{"prompt": ["a"], "answer": "1"}], {}, "not exactly one user message"),
        (['{"prompt": "\\ud800", "answer": "1"}'], {}, "'prompt' holds a lone surrogate"),
        ([*good(1), {"prompt": "0+1", "answer": "2"}], {}, "line 2: the same prompt as line 1 with another"),
        (
            [{"prompt": "p", "answer": "1", "id": 1}, {"prompt": "q", "answer": "1", "id": 1}],
            {"id": "id"},
            "line 2: the same id as line 1",
        ),
        (
            [{"prompt": "p", "answer": "1", "level": "x"}],
            {"level": "level"},
            "'level' must be a whole number",
        ),
        ([], {}, "empty data set"),
        (["", "  "], {}, "empty data set"),
    ],
)
def test_a_bad_row_is_named(tmp_path, rows, options, message):
    with pytest.raises(ValueError, match=message):
        load_task(write(tmp_path / "a.jsonl", *rows), **options)


def test_invalid_utf8_names_the_line(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"prompt": "p", "answer": "1"}\n{"prompt": "\xff", "answer": "1"}\n')
    with pytest.raises(ValueError, match="line 2: not valid JSON"):
        load_task(str(tmp_path / "a.jsonl"))


def test_missing_file_names_its_nearest_sibling(tmp_path):
    write(tmp_path / "train.jsonl", *good(1))
    with pytest.raises(FileNotFoundError, match=r"trian\.jsonl; the nearest there is 'train\.jsonl'"):
        load_task(str(tmp_path / "trian.jsonl"))
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        load_task(str(tmp_path / "no" / "train.jsonl"))


def test_broken_parquet_and_row_number(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"not parquet")
    with pytest.raises(ValueError, match="not a readable Parquet file"):
        load_task(str(tmp_path / "a.parquet"))
    pq.write_table(pa.table({"prompt": ["p", "q"], "answer": ["1", None]}), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"b\.parquet, row 2: field 'answer' is empty"):
        load_task(str(tmp_path / "b.parquet"))


def test_asking_for_too_many_and_bad_options(tmp_path):
    path = write(tmp_path / "a.jsonl", *good(10))
    with pytest.raises(ValueError, match=r"999 train problems asked for.*test_share"):
        load_task(path).problems("train", 999)
    with pytest.raises(ValueError, match="has 0"):
        load_task(path, test_share=0).problems("test")
    with pytest.raises(ValueError, match="test_share must be between 0 and 1"):
        load_task(path, test_share=2)
    with pytest.raises(ValueError, match="template must contain"):
        load_task(path, template="x")
    with pytest.raises(ValueError, match=r"no option 'promt': did you mean 'prompt'"):
        load_task(path, promt="question")
