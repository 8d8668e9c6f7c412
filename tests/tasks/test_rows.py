"""Rows as problems: real rows, every reason to leave one out, and every way a file can be wrong."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from upside.tasks import Task, load_task
from upside.tasks.base import judge
from upside.tasks.rows import RowTask, gold_answer

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
    task = load_task(train, test_path=DATA / "gsm8k_test.jsonl", **GSM8K)
    assert isinstance(task, RowTask)
    assert (len(task.problems("train")), len(task.problems("test"))) == (12, 20)
    assert task.dropped == {"in_test_split": 1}
    assert task.examples == {"in_test_split": f"{train}, line 13"}
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
        (
            [{"prompt": "p", "answer": None}],
            {},
            r"none of its 1 rows can be used: 1 no_answer \(first: .*a\.jsonl, line 1",
        ),
        ([{"prompt": "p", "answer": ["1", None]}], {}, r"field 'answer' is empty \(null\)"),
        ([{"prompt": "p", "answer": True}], {}, "field 'answer' must be text or a number, got bool"),
        ([{"prompt": "", "answer": "1"}], {}, "field 'prompt' is empty"),
        ([{"prompt": 5, "answer": "1"}], {}, "field 'prompt' must be text, got int"),
        ([{"prompt": ["a"], "answer": "1"}], {}, "not exactly one user message"),
        ([{"prompt": [{"role": "assistant", "content": "a"}], "answer": "1"}], {}, "not exactly one user message"),
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
    pq.write_table(pa.table({"prompt": ["p", ""], "answer": ["1", "2"]}), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"b\.parquet, row 2: field 'prompt' is empty"):
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


def test_useless_rows_are_left_out_and_counted_by_reason(tmp_path):
    # cookbook#335
    rows = [
        {"prompt": "a", "answer": "1"},
        {"prompt": "b", "answer": None},
        {"prompt": "c", "answer": "  "},
        {"prompt": "d", "answer": "much work ####"},
        {"prompt": "e", "answer": "$"},
        {"prompt": " a ", "answer": "1.0"},
        {"prompt": "f", "answer": "1"},
        {"prompt": "f", "answer": "2"},
        {"prompt": "f", "answer": "1"},
    ]
    path = write(tmp_path / "a.jsonl", *rows)
    task = load_task(path, test_share=0, conflicts="drop")
    assert isinstance(task, RowTask)
    assert [p.prompt for p in task.problems("train")] == ["a"]
    assert task.dropped == {"no_answer": 3, "unusable_answer": 1, "repeated": 1, "conflicting_answers": 3}
    assert task.examples == {
        "no_answer": f"{path}, line 2",
        "unusable_answer": f"{path}, line 5",
        "repeated": f"{path}, line 6",
        "conflicting_answers": f"{path}, line 7",
    }
    assert task.drop_lines()[1] == f"1 unusable_answer (first: {path}, line 5)"


@pytest.mark.parametrize(
    ("field", "gold"),
    [
        ("18", "18"),
        ("She has 2 - 1 = 1.\n#### 1,234", "1234"),
        ("so it costs\n#### -12,500.50", "-12500.50"),
        ("1,2", "1,2"),
        ("(1,234)", "(1,234)"),
        ("Thus \\boxed{3} or rather $\\boxed{\\frac{1}{2}}$.", "\\frac{1}{2}"),
        ("<think>5</think><answer> 7 </answer>", "7"),
        (" (1) Zoey is a knave\n(2) Ann is a knight ", "(1) Zoey is a knave\n(2) Ann is a knight"),
        ("####", ""),
        ("\\boxed{}", ""),
    ],
)
def test_the_gold_answer_is_normalised_once(field, gold):
    assert gold_answer(field) == gold


def test_an_id_is_the_hash_of_the_problem_on_every_machine(tmp_path):
    path = write(tmp_path / "a.jsonl", {"prompt": "What is 1+1?", "answer": "2"})
    problem = load_task(path, test_share=0).problems("train")[0]
    assert problem.id == "31adf3e245f99d7b"  # sha256 of the text, 16 hex digits
    other = load_task(path, test_share=0, template="boxed").problems("train")[0]
    assert (other.id, other.prompt == problem.prompt) == (problem.id, False)  # the template is not the problem


def test_own_ids_of_two_files_do_not_meet(tmp_path):
    train = write(tmp_path / "a.jsonl", {"prompt": "p", "answer": "1", "n": 0})
    test = write(tmp_path / "b.jsonl", {"prompt": "q", "answer": "1", "n": 0})
    task = load_task(train, test_path=test, id="n")
    assert (task.problems("train")[0].id, task.problems("test")[0].id) == ("train:0", "test:0")


@pytest.mark.parametrize("level", [3, 3.0, "3", "Level 3", " level 3"])
def test_levels_as_numbers_and_as_maths_text(tmp_path, level):
    rows = [{"prompt": "p", "answer": "1", "level": level}, {"prompt": "q", "answer": "1", "level": "Level ?"}]
    path = write(tmp_path / "a.jsonl", *rows)
    assert [p.level for p in load_task(path, test_share=0, level="level").problems("train")] in ([3, 0], [0, 3])
    task = load_task(path, test_share=0, level="level", levels=[3, 5])
    assert ([p.level for p in task.problems("train")], task.dropped) == ([3], {"other_level": 1})
    assert len(load_task(path, test_share=0, level="level", levels="1-5").problems("train")) == 1


def test_the_first_column_that_a_row_has(tmp_path):
    path = write(tmp_path / "a.jsonl", {"question": "p", "final": ["1", "2"]})
    problem = load_task(path, test_share=0, prompt=["problem", "question"], answer=["final"]).problems("train")[0]
    assert (problem.prompt, problem.answer) == ("p", "1, 2")


def test_system_prompts_of_option_template_and_row(tmp_path):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "p"}]
    path = write(tmp_path / "a.jsonl", {"prompt": messages, "answer": "1"})

    def system(**options):
        problem = load_task(path, test_share=0, **options).problems("train")[0]
        assert problem.prompt == "p"
        return problem.system

    assert system() == "Be brief."
    assert system(template="qwen_math").startswith("Please reason step by step")
    assert system(template="qwen_math", system="Hello.") == "Hello."
    assert system(system="") is None
    assert system(system="", chat=False) is None
    with pytest.raises(ValueError, match="line 1: the row has a system prompt, but chat is false"):
        system(chat=False)


def test_plain_text_for_a_base_model(tmp_path):
    path = write(tmp_path / "a.jsonl", {"prompt": "1+1", "answer": "2"})
    problem = load_task(path, test_share=0, template="question_answer").problems("train")[0]
    assert (problem.prompt, problem.chat) == ("Question: 1+1\nAnswer:", False)


def test_the_verifier_is_chosen_by_name_or_with_options(tmp_path):
    path = write(tmp_path / "a.jsonl", {"prompt": "p", "answer": "(1) Zoey is a knave\n(2) Ann is a knight"})
    for verifier in ("kk", {"name": "kk"}):
        task = load_task(path, test_share=0, verifier=verifier)
        problem = task.problems("train")[0]
        good = f"<think>Hm.</think>\n<answer>{problem.answer}</answer>"
        verdicts = judge(task, [problem, problem], [good, good.replace("knave", "knight")])
        assert [v.correct for v in verdicts] == [True, False]
        assert task.verify(problem, good).correct is True
    with pytest.raises(ValueError, match="unknown verifier 'exakt': did you mean 'exact'"):
        load_task(path, verifier="exakt")
    with pytest.raises(ValueError, match="verifier 'exact' has no option 'timeout'"):
        load_task(path, verifier={"name": "exact", "timeout": 3})
    with pytest.raises(ValueError, match="verifier has no name"):
        load_task(path, verifier={"timeout": 3})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"conflicts": "ignore"}, "conflicts must be error or drop"),
        ({"chat": "no"}, "chat must be true or false"),
        ({"system": 3}, "system must be text"),
        ({"system": "x", "chat": False}, r"system: a plain-text prompt \(chat: false\) has no system prompt"),
        ({"levels": [3, 5]}, "levels: which column holds the level"),
        ({"level": "level", "levels": [5, 3]}, r"levels must be \[lowest, highest\]"),
        ({"level": "level", "levels": [3]}, r"levels must be \[lowest, highest\]"),
        ({"level": "level", "levels": "high"}, "levels: 'high' must be whole numbers"),
        ({"prompt": 3}, "prompt must be the name of a column"),
        ({"answer": []}, "answer must be the name of a column"),
        ({"template": "boxd"}, "template must contain .*did you mean 'boxed'"),
        ({"test_share": "half"}, "test_share must be between 0 and 1"),
        ({"test_share": None}, "test_share must be between 0 and 1"),
        ({"test_path": 3}, "test_path must be a file"),
        ({"verifier": None}, "verifier must be a name"),
        ({"verifier": ["math"]}, "verifier must be a name"),
        ({"verifier": {"name": "math", "timeout": "1"}}, "timeout='1' must be a number of seconds"),
        ({"verifier": {"name": "kk", "scale": ["adora"]}}, "scale must be adora or binary"),
    ],
)
def test_options_that_cannot_be_meant(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        load_task(write(tmp_path / "a.jsonl", *good(3)), **options)
