"""From `--data` and `--option` to problems with prompts."""

import json

import pytest

from upside.evaluation.sampling import Sampling
from upside.evaluation.sets import load_sets, named, options_of, prompted


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "sums.jsonl"
    rows = [{"question": f"{i}+1", "answer": str(i + 1)} for i in range(5)]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, rows[0]]))
    return path


def test_names(file):
    assert named("arithmetic") == {"arithmetic": "arithmetic"}
    assert named(file) == {"sums": str(file)}
    assert named(["knights", f"mine={file}"]) == {"knights": "knights", "mine": str(file)}
    assert named("reasoning_gym:chain_sum") == {"reasoning_gym:chain_sum": "reasoning_gym:chain_sum"}
    assert named([f"größe_2={file}", f"24={file}"]) == {"größe_2": str(file), "24": str(file)}
    odd = file.with_name("a=b.jsonl")
    file.rename(odd)
    assert named(odd) == {"a=b": str(odd)}  # a path is no NAME=SPEC
    with pytest.raises(ValueError, match="two sets are called 'knights'; tell them apart as knights_2=knights"):
        named(["knights", "knights"])
    with pytest.raises(ValueError, match="no data"):
        named([])


def test_options_for_all_and_for_one():
    assert options_of(["a", "b"], {"a.x": 1, "x": 2, "y": 3}) == {"a": {"x": 1, "y": 3}, "b": {"x": 2, "y": 3}}
    assert options_of(["gym:sum"], {"gym:sum.x": 1}) == {"gym:sum": {"x": 1}}
    with pytest.raises(ValueError, match=r"option 'math5.x': there is no set 'math5'; did you mean 'math500'\?"):
        options_of(["math500"], {"math5.x": 1})


def test_problems_options_and_what_is_left_out(file, tokenizer):
    (found,) = load_sets(f"mine={file}", {"prompt": "question", "mine.test_share": 1.0}, "test", None, 0)
    assert len(found.problems) == 5
    assert sum(found.dropped.values()) == 1
    assert len(load_sets("arithmetic", {}, "test", 7, 0)[0].problems) == 7
    assert len(load_sets("arithmetic", {}, "test", None, 0)[0].problems) == 512
    with pytest.raises(ValueError, match=r"9 .*asked for"):
        load_sets(file, {"prompt": "question", "test_share": 1.0}, "test", 9, 0)
    longest = prompted(found, tokenizer, Sampling(max_new_tokens=90), 100)
    assert longest.settings()["token_limit"] == 100 - max(map(len, longest.prompts))


def test_long_prompts_are_left_out_and_counted(tokenizer, file):
    # trl#4358, trl#3569: over-long prompts are found before anything runs
    file.write_text('{"prompt": "1+1", "answer": "2"}\n{"prompt": "1+1+1+1+1+1+1+1", "answer": "8"}\n')
    (found,) = load_sets(file, {"test_share": 1.0}, "test", None, 0)
    kept = prompted(found, tokenizer, Sampling(), None, 25)
    assert [p.prompt for p in kept.of.problems] == ["1+1"]
    assert kept.of.dropped == {"too_long": 1}
    with pytest.raises(ValueError, match="sums: every prompt is over max_prompt_tokens=3; the shortest has"):
        prompted(found, tokenizer, Sampling(), None, 3)
    with pytest.raises(ValueError, match=r"sums: the longest prompt has .* positions for 20"):
        prompted(found, tokenizer, Sampling(), 20)
