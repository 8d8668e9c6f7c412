"""Files as rows: nothing is guessed, and what is wrong names file and line."""

import json
import math
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upside.tasks import load_task
from upside.tasks.readers import file_source


def rows(path):
    return list(file_source(path).read())


def test_csv_fields_stay_the_text_they_are(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(
        b'\xef\xbb\xbfprompt,answer,note\r\n"Which, and\r\nwhy?",007,\r\n\r\n1+1,1e5,"say ""so"""\r\nx,TRUE,NaN\r\n'
    )
    assert rows(path) == [
        (3, {"prompt": "Which, and\r\nwhy?", "answer": "007", "note": ""}),
        (5, {"prompt": "1+1", "answer": "1e5", "note": 'say "so"'}),
        (6, {"prompt": "x", "answer": "TRUE", "note": "NaN"}),
    ]
    task = load_task(path, test_share=0)
    assert sorted(p.answer for p in task.problems("train")) == ["007", "1e5", "TRUE"]
    assert load_task(path, test_share=0).problems("train")[0].metadata["file"] == "a.csv"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prompt,answer\na,b,c\n", "line 2: 3 fields under a header of 2; quote"),
        ("prompt,answer\na\n", "line 2: 1 fields under a header of 2"),
        ("prompt,answer,prompt\n1,2,3\n", "line 1: the column 'prompt' stands twice"),
        ('prompt,answer\n"a"b,1\n', "line 2: not valid CSV"),
        ('prompt,answer\n"a,1\n', r"line \d: not valid CSV"),
        ("question,answer\na,1\n", "line 2: no field 'prompt'.*'question', 'answer'.*prompt=FIELD"),
        ("prompt,answer\n", "empty data set"),
        ("", "empty data set"),
    ],
)
def test_a_broken_csv_names_the_line(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=rf"a\.csv.*{message}"):
        load_task(tmp_path / "a.csv", test_share=0)


def test_a_csv_that_is_not_utf8(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"prompt,answer\n\xff,1\n")
    with pytest.raises(ValueError, match=r"a\.csv: not UTF-8 text"):
        load_task(tmp_path / "a.csv")


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=20), min_size=2, max_size=2))
def test_whatever_csv_writes_is_read_back(tmp_path_factory, fields):
    import csv

    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["x", "y"], fields])
    assert [row for _, row in rows(path)] == [{"x": fields[0], "y": fields[1]}]


def test_the_three_kinds_of_file_give_the_same_problems(tmp_path):
    table = [{"prompt": "a, b", "answer": "007"}, {"prompt": "c\nd", "answer": "1e5"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    pq.write_table(pa.Table.from_pylist(table), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text('prompt,answer\n"a, b",007\n"c\nd",1e5\n')
    made = [load_task(tmp_path / f"a.{end}", test_share=0).problems("train") for end in ("jsonl", "parquet", "csv")]
    ids = [[(p.id, p.prompt, p.answer) for p in problems] for problems in made]
    assert ids[0] == ids[1] == ids[2]


def test_json_numbers_keep_their_digits(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"x": 0.10, "y": 12345678901234567890}\n')
    assert rows(tmp_path / "a.jsonl") == [(1, {"x": Decimal("0.10"), "y": 12345678901234567890})]


def test_numbers_that_are_none(tmp_path):
    """NaN is what pandas writes for nothing; infinity is no answer and no level. Huge ones are numbers."""
    pq.write_table(pa.table({"prompt": ["a", "b"], "answer": [math.nan, 2.0]}), tmp_path / "a.parquet")
    task = load_task(tmp_path / "a.parquet", test_share=0)
    assert ([p.answer for p in task.problems("train")], task.dropped) == (["2.0"], {"no_answer": 1})
    pq.write_table(pa.table({"prompt": ["a"], "answer": [math.inf]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="row 1: field 'answer' is inf, no finite number"):
        load_task(tmp_path / "a.parquet")
    for level in (math.nan, math.inf):
        pq.write_table(pa.table({"prompt": ["a"], "answer": [1], "level": [level]}), tmp_path / "a.parquet")
        with pytest.raises(ValueError, match="row 1: field 'level' must be a whole number"):
            load_task(tmp_path / "a.parquet", level="level")
    (tmp_path / "a.jsonl").write_text(
        '{"prompt": "a", "answer": 1e999}\n{"prompt": "b", "answer": 1' + "0" * 400 + "}\n"
    )
    answers = [p.answer for p in load_task(tmp_path / "a.jsonl", test_share=0).problems("train")]
    assert sorted(map(len, answers)) == [6, 401]


def test_a_long_csv_field(tmp_path):
    (tmp_path / "a.csv").write_text("prompt,answer\n" + "x" * 300_000 + ",1\n")
    assert len(load_task(tmp_path / "a.csv", test_share=0).problems("train")[0].prompt) == 300_000


def test_a_folder_named_like_a_file_is_not_its_own_nearest(tmp_path):
    (tmp_path / "a.jsonl").mkdir()
    with pytest.raises(FileNotFoundError, match=r"holds no other"):
        file_source(tmp_path / "a.jsonl")


def test_another_ending_names_the_known_ones(tmp_path):
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(ValueError, match=r"cannot read \.json; use \.jsonl, \.parquet, \.csv"):
        file_source(tmp_path / "a.json")
