"""docs/rewards.md against the code: names, options, defaults, metrics."""

import inspect
import re
from pathlib import Path
from typing import get_args

import pytest

from upside import rewards
from upside.rewards.user import ARGUMENTS
from upside.training.outcomes import shares
from upside.verifiers import VERIFIERS, Outcome
from upside.verifiers.kk import SCORES, KkVerifier

TEXT = (Path(__file__).parents[2] / "docs" / "rewards.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^###? (.*)\n((?:(?!^##).*\n)*)", TEXT, flags=re.M))


def section(name):
    return next(body for heading, body in SECTIONS.items() if f"`{name}`" in heading)


def table(text):
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in rows[2:]}


NAMES = table(SECTIONS["The rewards by name"])


def options(make):
    return {n: p for n, p in inspect.signature(make).parameters.items() if p.kind is not p.VAR_KEYWORD}


def test_the_table_has_every_reward_and_no_other():
    listed = [name for cell in NAMES for name in re.findall(r"`([^`]+)`", cell)]
    assert sorted(listed) == sorted([*rewards.JUDGES, *rewards.SHAPES, "python:module:function"])
    judging = [name for cell, row in NAMES.items() for name in re.findall(r"`([^`]+)`", cell) if "judges" in row[0]]
    assert sorted(judging) == sorted(rewards.JUDGES) == sorted(["verdict", *VERIFIERS])


@pytest.mark.parametrize("name", sorted(rewards.SHAPES))
def test_options_and_defaults(name):
    known = options(rewards.SHAPES[name])
    assert re.findall(r"`(\w+)`", NAMES[f"`{name}`"][1]) == list(known)
    documented = table(section(name))
    assert [key.strip("`") for key in documented] == list(known)
    for option, parameter in known.items():
        shown = documented[f"`{option}`"][0].strip("`")
        assert shown == ("needed" if parameter.default is parameter.empty else str(parameter.default).lower())


def test_options_of_kk():
    documented = table(section("kk"))
    assert {key.strip("`"): cells[0].strip("`") for key, cells in documented.items()} == {
        name: str(p.default).lower() for name, p in options(KkVerifier).items()
    }
    right, wrong, unparsed, bad_format = (f"{score:g}" for score in SCORES["adora"])
    assert f"`adora`: {right} right, {wrong} wrong, {unparsed} unparsed, {bad_format} bad format" in section("kk")


def test_arguments_of_user_functions():
    first = section("python:module:function").split("(lists of N)")[0]
    assert re.findall(r"`(\w+)`", first) == list(ARGUMENTS)


def test_what_a_run_records():
    metrics = table(SECTIONS["What a run records"])["metrics.jsonl"][0]
    assert re.findall(r"`(verify/\w+)`", metrics) == list(shares([]))
    listed = re.search(r"\*\*outcome\*\*(.*?)\n\n", TEXT, flags=re.S).group(1)
    assert re.findall(r"`(\w+)`", listed) == list(get_args(Outcome))


def test_the_module_lists_the_same_names():
    for name in NAMES:
        assert name in rewards.__doc__


def test_the_example_function(tmp_path, monkeypatch):
    code = re.search(r"```python\n(.*?)```", section("python:module:function"), flags=re.S).group(1)
    (tmp_path / "documented_reward.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    reward = rewards.load_reward("python:documented_reward:brief", limit=2)
    batch = rewards.Completions([], [], [], [])
    assert reward.needs_correct
    fields = {"problems": [None] * 3, "responses": ["a", "abc", "a"], "lengths": [1] * 3, "truncated": [False] * 3}
    assert reward(type(batch)(**fields, correct=[True, True, None])).values == [1.0, 0.0, None]
