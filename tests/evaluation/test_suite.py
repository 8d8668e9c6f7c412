"""Several sets together, and the two files."""

import json
from importlib.metadata import version

import pytest

from upside.evaluation import Evaluation, Suite, describe_paired, describe_suite
from upside.evaluation.fingerprint import differences, of_model, of_tokenizer, versions


@pytest.fixture
def suite(row):
    def make(right, names=("a", "b")):
        evaluations = {
            name: Evaluation([row(f"{name}{i}", j, j < right, response=f"{i}é") for i in range(3) for j in range(2)])
            for name in names
        }
        tree = {"model": {"name": f"m{right}"}, "seed": 0, "sets": {name: {"task": name} for name in names}}
        return Suite(evaluations, tree)

    return make


def test_saved_and_loaded(suite, tmp_path):
    made = suite(1)
    made.save(tmp_path / "out")
    found = Suite.load(tmp_path / "out")
    assert [e.rows for e in found.evaluations.values()] == [e.rows for e in made.evaluations.values()]
    assert found["b"].settings == {"model": "m1", "seed": 0, "task": "b"}
    written = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert written["sets"]["a"]["accuracy"]["value"] == 0.5
    assert written["average"]["accuracy"]["value"] == 0.5
    assert set(written["intervals"]) == {"shares", "tokens", "average over sets", "differences"}
    assert "levels" in written["sets"]["a"]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["evaluation.json", "responses.parquet"]
    again = tmp_path / "again"
    found.save(again)
    for name in ("evaluation.json", "responses.parquet"):
        assert (again / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


def test_against_a_baseline(suite, tmp_path):
    made = Suite(suite(2).evaluations, suite(2).settings, (1, 2), suite(1))
    paired = made.against()
    assert paired["a"].accuracy.difference == 0.5
    made.save(tmp_path)
    against = json.loads((tmp_path / "evaluation.json").read_text())["against"]
    assert against["model"] == {"name": "m1"}
    assert against["average"]["accuracy"]["difference"] == 0.5
    describe_suite(made)
    describe_paired(paired, "x")
    with pytest.raises(ValueError, match="the baseline has no set 'b', it has a"):
        suite(2).against(suite(1, ["a"]))
    with pytest.raises(ValueError, match="no baseline"):
        suite(2).against()
    with pytest.raises(ValueError, match="b: other problems"):
        suite(2).against(Suite({"a": suite(1)["a"], "b": suite(1)["a"]}))


def test_files_that_do_not_belong_together(suite, tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no finished evaluation"):
        Suite.load(tmp_path)
    suite(1).save(tmp_path)
    figures = tmp_path / "evaluation.json"
    figures.write_text(figures.read_text().replace('"problems": 3', '"problems": 4', 1))
    with pytest.raises(ValueError, match="disagree on set 'a'"):
        Suite.load(tmp_path)


def test_what_differs_is_named():
    there = {"model": {"name": "x", "weights": "1"}, "sampling": {"temperature": 1.0}, "versions": {"torch": "1"}}
    here = {"model": {"name": "y", "weights": "2"}, "sampling": {"temperature": 0.6}, "versions": {}, "seed": 1}
    assert differences(there, here) == [
        "model.weights is '1' there, '2' here",
        "sampling.temperature is 1.0 there, 0.6 here",
        "seed is here only",
    ]


def test_fingerprints(folders, tokenizer, tokenizer_with):
    assert of_model(folders[0]) == of_model(folders[0]) != of_model(folders[1])
    before = of_tokenizer(tokenizer)
    tokenizer(["a", "bcd"], padding=True)  # changes the padding it holds, which is none of its identity
    assert of_tokenizer(tokenizer) == before
    assert of_tokenizer(tokenizer_with(None)) != before
    assert versions()["torch"] == version("torch")


@pytest.mark.parametrize("text", ["{}", "null", "[1", '{"settings": 5, "sets": {"a": {"problems": 3}}}', "\udcff"])
def test_damaged_figures_name_their_file(suite, tmp_path, text):
    suite(1).save(tmp_path)
    (tmp_path / "evaluation.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=r"evaluation.json or responses.parquet is damaged.*; evaluate again into ano"):
        Suite.load(tmp_path)


def test_responses_cut_short_name_their_file(suite, tmp_path):
    suite(1).save(tmp_path)
    path = tmp_path / "responses.parquet"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(ValueError, match=r"evaluation.json or responses.parquet is damaged"):
        Suite.load(tmp_path)
