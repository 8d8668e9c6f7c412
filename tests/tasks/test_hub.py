"""`hf:` through `datasets`, on local folders laid out as owner/name."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from upside.tasks import load_task

DATA = Path(__file__).parent.parent / "data"


def write(path, *answers):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"prompt": f"{path.stem}{a}+0", "answer": str(a)}) + "\n" for a in answers))


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A working folder with data sets acme/sums (train, test), acme/levels (configurations), acme/one (one split)."""
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "acme/sums/train.jsonl", 1, 2, 3)
    write(tmp_path / "acme/sums/test.jsonl", 4, 5)
    write(tmp_path / "acme/levels/easy_train.jsonl", 1, 2)
    write(tmp_path / "acme/levels/hard_train.jsonl", 3)
    write(tmp_path / "acme/levels/hard_test.jsonl", 9, 8)
    (tmp_path / "acme/levels/README.md").write_text(
        "---\nconfigs:\n- config_name: easy\n  data_files:\n  - split: train\n    path: easy_train.jsonl\n"
        "- config_name: hard\n  data_files:\n  - split: train\n    path: hard_train.jsonl\n"
        "  - split: test\n    path: hard_test.jsonl\n---\n"
    )
    write(tmp_path / "acme/one/train.jsonl", *range(50))
    return tmp_path


def answers(task, split):
    return sorted(int(p.answer) for p in task.problems(split))


def test_train_and_test_splits(hub):
    task = load_task("hf:acme/sums")
    assert (answers(task, "train"), answers(task, "test")) == ([1, 2, 3], [4, 5])
    assert task.remote == "acme/sums on the hub"
    problem = task.problems("train")[0]
    assert problem.metadata["file"] == "hf:acme/sums (train)"
    assert task.verify(problem, problem.answer).correct is True


@pytest.mark.parametrize(
    ("spec", "train", "test"),
    [
        ("hf:acme/levels:easy", [1, 2], None),
        ("hf:acme/levels:hard", [3], [8, 9]),
        ("hf:acme/levels:hard:test", [], [8, 9]),
        ("hf:acme/sums:test", [], [4, 5]),
        ("hf:acme/sums::test", [], [4, 5]),
        ("hf:acme/sums:train", [1, 2, 3], None),
    ],
)
def test_configuration_and_split(hub, spec, train, test):
    task = load_task(spec, test_share=0)
    splits = {name: sorted(int(p.answer) for p in part) for name, part in task.load().items()}
    assert splits == {"train": train, "test": test or []}


def test_one_split_is_cut_by_hash(hub):
    task = load_task("hf:acme/one", test_share=0.4)
    train, test = answers(task, "train"), answers(task, "test")
    assert sorted(train + test) == list(range(50))
    assert 10 <= len(test) <= 30


def test_pictures_are_left_out_undecoded(hub):
    schema = pa.schema(
        [
            ("prompt", pa.string()),
            ("answer", pa.string()),
            ("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
        ],
        metadata={
            "huggingface": json.dumps(
                {
                    "info": {
                        "features": {
                            "prompt": {"dtype": "string", "_type": "Value"},
                            "answer": {"dtype": "string", "_type": "Value"},
                            "image": {"_type": "Image"},
                        }
                    }
                }
            )
        },
    )
    (hub / "acme/pictures").mkdir()
    row = {"prompt": "What?", "answer": "7", "image": {"bytes": b"no picture", "path": None}}
    pq.write_table(pa.Table.from_pylist([row], schema=schema), hub / "acme/pictures/train.parquet")
    assert answers(load_task("hf:acme/pictures", test_share=0), "train") == [7]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("hf:acme/none", "hf:acme/none cannot be loaded .*Are name, configuration and split right.*path=FOLDER"),
        ("hf:acme/sums::dev", r"hf:acme/sums cannot be loaded .*dev"),
        ("hf:acme/levels", r"hf:acme/levels cannot be loaded .*easy.*hard"),
        ("hf:acme/levels:medium", r"hf:acme/levels cannot be loaded"),
    ],
)
def test_what_is_not_there_is_said(hub, spec, message):
    with pytest.raises(ValueError, match=message):
        load_task(spec).problems("train")


@pytest.mark.parametrize("spec", ["hf:", "hf:sums", "hf:acme/sums:a:b:c", "hf:acme/su ms", "hf:../acme"])
def test_a_name_of_another_form(spec):
    with pytest.raises(ValueError, match="write hf:owner/name"):
        load_task(spec)


def test_nothing_is_fetched_before_it_is_needed_and_no_script_runs(hub):
    (hub / "acme/code").mkdir()
    flag = hub / "flag"
    (hub / "acme/code/code.py").write_text(f"open({str(flag)!r}, 'w')\n")
    task = load_task("hf:acme/code")
    with pytest.raises(ValueError, match="hf:acme/code cannot be loaded"):
        task.problems("train")
    assert not flag.exists()


def test_options_are_checked_at_once():
    with pytest.raises(ValueError, match="has no option 'test_path'"):
        load_task("hf:acme/sums", test_path="x")
    with pytest.raises(ValueError, match="did you mean 'revision'"):
        load_task("hf:acme/sums", revison="x")


def test_a_preset_reads_its_configuration_and_splits(hub):
    folder = hub / "openai/gsm8k"
    (folder / "main").mkdir(parents=True)
    for split in ("train", "test"):
        (folder / "main" / f"{split}.jsonl").write_text((DATA / f"gsm8k_{split}.jsonl").read_text())
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: main\n  data_files:\n  - split: train\n    path: main/train.jsonl\n"
        "  - split: test\n    path: main/test.jsonl\n- config_name: other\n  data_files: main/test.jsonl\n---\n"
    )
    task = load_task("gsm8k")
    assert (len(task.problems("train")), len(task.problems("test"))) == (12, 20)
    assert task.problems("test")[0].metadata["file"] == "hf:openai/gsm8k:main:test"


def test_a_preset_of_one_folder_among_several(hub):
    for folder, answer in (("simplelr_qwen_level3to5", "3"), ("simplelr_abel_level3to5", "4")):
        (hub / "hkust-nlp/SimpleRL-Zoo-Data" / folder).mkdir(parents=True)
        for split in ("train", "test"):
            row = {
                "question": f"{split}?",
                "gt_answer": answer,
                "level": 3,
                "prompt": [{"role": "user", "content": "…"}],
            }
            pq.write_table(
                pa.Table.from_pylist([row]), hub / "hkust-nlp/SimpleRL-Zoo-Data" / folder / f"{split}.parquet"
            )
    task = load_task("simplelr")
    assert (answers(task, "train"), answers(task, "test")) == ([3], [3])
    assert task.problems("train")[0].prompt.startswith("train?\nPlease reason")


def test_the_puzzles_of_the_people_asked_for(hub):
    row = json.loads((DATA / "kk_3people.jsonl").read_text().splitlines()[0])
    folder = hub / "K-and-K/knights-and-knaves"
    text = "---\nconfigs:\n"
    for kind in ("train", "test"):
        (folder / kind).mkdir(parents=True)
        text += f"- config_name: {kind}\n  data_files:\n"
        for people in (2, 3):
            text += f"  - split: {people}ppl\n    path: {kind}/people{people}.jsonl\n"
            puzzle = {**row, "quiz": f"{kind} {people}", "names": row["names"][:people]}
            (folder / kind / f"people{people}.jsonl").write_text(json.dumps(puzzle) + "\n")
    (folder / "README.md").write_text(text + "---\n")
    task = load_task("kk", people=[3])
    assert [p.prompt for p in task.problems("train") + task.problems("test")] == ["train 3", "test 3"]
    assert sorted(p.level for p in load_task("kk", people="2-3").problems("train")) == [2, 3]
