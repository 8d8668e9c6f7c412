"""Tables of any kind: what is read, what is assumed, and what is an error that names file, row and remedy."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from upside.analysis import read_log
from upside.analysis.explaining import explain_groups
from upside.analysis.logs import Log, LogError


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def _read(name: str, data: str | bytes, **options: Any) -> Log:
        (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
        return read_log(tmp_path / name, **options)

    return _read


CSV = 'uid,iteration,score,output\n01,1,1,x\n1,1,0,"two\nlines"\n01,2,,z\n1,2,0.5,w\n'


def test_csv_under_other_names(read: Any) -> None:
    log = read("log.csv", CSV)
    assert log.kind == "table"
    assert log.steps == [1, 2]
    np.testing.assert_array_equal(log.numbers("reward"), [1, 0, np.nan, 0.5])  # an empty cell is no 0
    assert log.codes("group").tolist() == [0, 1, 2, 3]  # ids 01 and 1 are two
    assert log.codes("prompt").tolist() == [0, 1, 0, 1]
    assert log.texts("response", [1]) == ["two\nlines"]
    assert any("uid as group" in note and "score as reward" in note for note in log.notes)
    assert not log.has("correct")  # 0.5 is no verdict


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("log.csv.gz", gzip.compress(CSV.encode(), mtime=0)),
        ("log.tsv", CSV.replace(",", "\t")),
        ("log.csv", "\ufeff" + CSV.replace(",", ";")),
        ("log.csv", CSV.encode("utf-16")),
    ],
)
def test_same_table_in_other_clothes(read: Any, name: str, data: str | bytes) -> None:
    assert read(name, data).table.to_pydict() == read("plain.csv", CSV).table.to_pydict()


@pytest.mark.parametrize("name", ["problem_id", "uid", "question", "prompt_text"])
def test_rows_of_responses_are_no_rows_of_steps(read: Any, name: str) -> None:
    assert len(read("log.csv", f"step,{name},reward,length\n1,a,1,10\n1,a,0,20\n")) == 2


def test_ids_beyond_a_double_stay_apart(read: Any) -> None:
    rows = [{"group": 2**64 - 1 - i // 2, "reward": i % 2} for i in range(4)]
    log = read("log.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert log.codes("group").tolist() == [0, 0, 1, 1]


def test_rewards_that_are_flags(read: Any) -> None:
    assert read("log.csv", "group,reward\na,True\na,false\na,1.0\n").numbers("reward").tolist() == [1, 0, 1]


def test_lines_that_end_as_on_an_old_mac(read: Any) -> None:
    assert read("log.csv", "group,reward\ra,1\ra,0\r").numbers("reward").tolist() == [1, 0]


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    table = pa.table([["a"], [1.0], [2.0]], names=["group", "reward", "reward"])
    pyarrow.parquet.write_table(table, tmp_path / "log.parquet")
    with pytest.raises(LogError, match="'reward' stands twice; rename one"):
        read_log(tmp_path / "log.parquet")


def test_map(read: Any) -> None:
    data = "id,a,b,n\np,1,2,10\np,,0,20\np,,,30\n"
    log = read("log.csv", data, mapping={"reward": "2*a+b", "group": "id", "length": "n"})
    np.testing.assert_array_equal(log.numbers("reward"), [4, 0, np.nan])  # unscored only where no term is there
    assert log.numbers("length").tolist() == [10, 20, 30]
    assert log.rollouts().lengths.tolist() == [10, 20, 30]


def test_0_and_1_are_verdicts_and_it_says_so(read: Any) -> None:
    log = read("log.jsonl", '{"prompt":"p","reward":1}\n{"prompt":"p","reward":0}\n{"prompt":"p","reward":null}\n')
    np.testing.assert_array_equal(log.numbers("correct"), [1, 0, np.nan])
    assert any("1 counts as correct" in note for note in log.notes)
    assert any("one step" in note for note in log.notes)


def test_rows_that_are_not_valid_have_no_reward(read: Any) -> None:
    """As in the Parquet files of a run, read without its folder."""
    log = read("log.csv", "group,reward,valid\n0,1,true\n0,0,false\n0,0.5,true\n")
    np.testing.assert_array_equal(log.numbers("reward"), [1, np.nan, 0.5])


@pytest.mark.parametrize("lengths", ["chars", "words"])
def test_lengths_that_stand_in(read: Any, lengths: str) -> None:
    log = read("log.jsonl", '{"prompt":"p","reward":1,"response":"ab  cd e"}\n', lengths=lengths)
    assert log.numbers("length").tolist() == [{"chars": 8, "words": 3}[lengths]]
    assert any(lengths in note for note in log.notes)


def test_json_of_every_sort(read: Any) -> None:
    rows = '{"prompt":"2020-01-01","reward":1,"response":"\\ud800 x"}\n\n{"prompt":"q","reward":"0.5","gold":[1]}\n'
    log = read("log.jsonl", rows)
    assert log.texts("prompt_text", [0]) == ["2020-01-01"]  # no date
    assert log.texts("response", [0, 1]) == ["\ufffd x", None]
    assert log.numbers("reward").tolist() == [1, 0.5]
    assert any("surrogate" in note for note in log.notes)
    assert len(read("log.json", json.dumps({"prompt": ["p", "p"], "reward": [1, 2]}))) == 2
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    parts = [{"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image"}]}]
    data = "".join(json.dumps({"prompt": prompt, "reward": 1}) + "\n" for prompt in (messages, messages[1:], parts))
    assert read("chat.jsonl", data).texts("prompt_text", [0, 1, 2]) == ["system: s\nuser: u", "u", "see [image]"]


def test_a_line_longer_than_a_block(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upside.analysis.logs.files.BLOCK", 1 << 10)
    row = {"prompt": "p", "reward": 1, "response": "y" * 100_000}
    log = read("log.jsonl", (json.dumps(row) + "\n") * 3)
    assert [len(text or "") for text in log.texts("response", [0, 1, 2])] == [100_000] * 3


def test_bytes_that_are_no_text(read: Any, tmp_path: Path) -> None:
    assert read("log.jsonl", b'{"prompt":"\xff","reward":1}\n').texts("prompt_text", [0]) == ["\ufffd"]
    broken = pa.array([b"\xff"]).cast(pa.binary()).view(pa.string())
    kinds = pa.array(["a"]).dictionary_encode()
    pyarrow.parquet.write_table(pa.table({"prompt": broken, "reward": [1.0], "group": kinds}), tmp_path / "l.parquet")
    assert read_log(tmp_path / "l.parquet").texts("prompt_text", [0]) == ["\ufffd"]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.csv", "uid,rewrad\np,1\n", "no column of rewards among uid, rewrad"),
        ("a.csv", "uid,reward\np,1\nq,good\n", "row 2: reward 'good' is no number"),
        ("a.jsonl", '{"uid":1,"reward":1}\n{"uid":1,"reward":Infinity}\n', "row 2: reward 'inf' is infinite"),
        ("a.csv", "uid,reward,step\np,1,1\np,1,1.5\n", "row 2: step 1.5 is no step"),
        ("a.csv", "uid,reward,step\np,1,1\np,1,1e300\n", "row 2: step 1e.300 is no step"),
        ("a.csv", "uid,reward,length\np,1,1\np,1,-2\n", "row 2: length '-2' is negative"),
        ("a.csv", "prompt,reward\np,0\n,1\n", "row 2: prompt is missing; without group ids"),
        ("a.jsonl", '{"prompt":"p","reward":0}\n{"reward":1}\n', "row 2: prompt is missing; without group ids"),
        ("a.jsonl", '{"x":' + "[" * 100_000 + "\n", "line 1: no JSON"),
        ("a.csv", "uid,reward\np,0\n,1\n", "row 2: uid is missing"),
        ("a.jsonl", '{"uid":1.5,"reward":1}\n{"uid":NaN,"reward":1}\n', "row 2: uid is missing"),
        ("a.csv", "response,reward\nx,1\n", "neither group ids nor prompts"),
        ("a.csv", "uid,reward,correct\np,1,perhaps\n", "correct 'perhaps' is neither true nor false"),
        ("a.csv", "uid,reward,reward\np,1,2\n", "'reward' stands twice"),
        ("a.csv", "uid,reward\np,1,2\n", "quote texts"),
        ("a.csv", "uid,reward\n", "no rows"),
        ("a.jsonl", "\n", "empty"),
        ("a.jsonl", '{"prompt":"p","reward":1}\n{"prompt":"p","rew', "line 2: no JSON .* delete this last line"),
        ("a.jsonl", '{"prompt":"p","reward":1}\n7\n', "line 2: expected an object"),
        ("a.json", '{"prompt":["p"],"reward":[1, 2]}', "equally long"),
        ("a.parquet", b"PAR1 and no more", "cut short or no Parquet"),
        ("a.csv.gz", gzip.compress(CSV.encode(), mtime=0)[:-20], "cannot be read"),
        ("a.xlsx", b"PK", "unknown kind of file"),
    ],
)
def test_what_is_wrong_is_said(read: Any, name: str, data: str | bytes, said: str) -> None:
    with pytest.raises(LogError, match=said):
        read(name, data)


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        ({"reward": "scor"}, "no column 'scor'. Did you mean 'score'"),
        ({"rewrad": "score"}, "'rewrad' is nothing a log holds. Did you mean 'reward'"),
        ({"reward": "score+frmat"}, "no column 'frmat'"),
        ({"reward": "1.2.3*score"}, "no column '1.2.3.score'"),
    ],
)
def test_a_wrong_map_is_said(read: Any, mapping: dict[str, str], said: str) -> None:
    with pytest.raises(LogError, match=said):
        read("log.csv", CSV, mapping=mapping)


def test_steps_from_files_and_out_of_order(tmp_path: Path) -> None:
    for step in (10, 2):
        (tmp_path / f"part{step}.csv").write_text(f"uid,reward\np,{step}\np,0\n")
    log = read_log([tmp_path / "part10.csv", tmp_path / "part2.csv"])
    assert log.codes("step").tolist() == [2, 2, 10, 10]
    assert log.numbers("reward").tolist() == [2, 0, 10, 0]
    (tmp_path / "mixed.csv").write_text("uid,reward,step\np,1,2\np,2,1\np,3,2\n")
    log = read_log(tmp_path / "mixed.csv")
    assert log.codes("step").tolist() == [1, 2, 2]
    assert log.numbers("reward").tolist() == [2, 1, 3]
    assert any("sorted by step" in note for note in log.notes)
    (tmp_path / "other.csv").write_text("uid,reward\np,1\n")
    with pytest.raises(LogError, match="no column says the step"):
        read_log([tmp_path / "other.csv", tmp_path / "part2.csv"])


def test_a_folder_without_a_log(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"holds no log\. Known are run folders"):
        read_log(tmp_path)
    with pytest.raises(LogError, match="no such file"):
        read_log(tmp_path / "nowhere")


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
@pytest.mark.parametrize("name", ["image", "images"])
@pytest.mark.parametrize(
    ("red", "blue"),
    [
        ("a.png", "b.png"),
        (["a.png"], ["b.png", "c.png"]),
        ({"bytes": "a", "path": None}, {"bytes": "b", "path": None}),
        ([["a"]], [["b"]]),
        (3, None),
    ],
)
def test_one_question_about_two_pictures(tmp_path: Path, ending: str, name: str, red: Any, blue: Any) -> None:
    rows = [{"prompt": "area?", "completion": "4", "reward": i % 2, name: (red, blue)[i // 2]} for i in range(4)]
    file = tmp_path / f"a.{ending}"
    if ending == "parquet":
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows), file)
    else:
        file.write_text("\n".join(map(json.dumps, rows)))
    log = read_log(file)
    assert log.codes("group").tolist() == log.codes("prompt").tolist() == [0, 0, 1, 1]
    assert log.pictures([0, 3]) == [[], []]  # only a run folder's files are known to be there
    assert [group["pictures"] for group in explain_groups(log).groups] == [[], []]


def test_a_copy_of_the_picture_for_each_response_tells_no_prompts_apart(tmp_path: Path) -> None:
    rows = [{"prompt": "area?", "completion": "4", "reward": i % 2, "image": f"{i}.png"} for i in range(4)]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    assert read_log(tmp_path / "a.json").codes("group").tolist() == [0] * 4


def test_pictures_that_are_not_logged(tmp_path: Path) -> None:
    prompt = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "area?"}]}]
    rows = [{"prompt": prompt, "completion": "4", "reward": i % 2} for i in range(4)]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    assert "as one group. (map group=COLUMN)" in " ".join(read_log(tmp_path / "a.json").notes)
