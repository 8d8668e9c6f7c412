"""Figures of an evaluation, by hand."""

import io

import pytest
from rich.console import Console

from upside.evaluation import Evaluation, compare, describe, figures
from upside.evaluation.judging import vote
from upside.evaluation.table import differences, verdict


@pytest.fixture
def rows(row):
    return [
        row("a", 0, True, tokens=2),
        row("a", 1, True, tokens=4, style="short"),
        row("a", 2, False, response="<script>[bold]", final="2"),
        row("a", 3, False, response="", final=None, truncated=True, outcome="unparsed"),
        row("b", 0, False, level=2, family="g", final="7"),
        row("b", 1, False, level=2, family="g", final="7"),
        row("b", 2, False, level=2, family="g", final="1"),
        row("b", 3, None, level=2, family="g", final=None, outcome="timeout", tokens=8),
    ]


def test_figures_by_hand(rows):
    found = Evaluation(rows, {"task": "t"})
    assert found.accuracy.value == pytest.approx(0.25)
    assert found.pass_at(2).value == pytest.approx((5 / 6 + 0) / 2)
    assert found.pass_at(4).value == 1.0
    assert found.pass_at(4).problems == 1
    assert found.majority_at(3).value == pytest.approx(0.5)
    assert found.mixed(3).value == pytest.approx(0.5)
    assert found.tokens.value == pytest.approx((2 + 4 + 4 + 4 + 4 + 4 + 4 + 8) / 8)
    assert found.tokens_right.value == 3.0
    assert found.tokens_right.problems == 1
    assert found.tokens_wrong.value == 4.0
    assert found.truncated.value == pytest.approx(0.125)
    assert {k: v.value for k, v in found.by_level().items()} == {1: 0.5, 2: 0.0}
    assert {k: v.value for k, v in found.by_family().items()} == {"f": 0.5, "g": 0.0}
    assert found.styles() == {"short": (1.0, 1.0)}
    with pytest.raises(ValueError, match=r"pass@5 needs 1\.\.4"):
        found.pass_at(5)
    with pytest.raises(ValueError, match=r"groups of 8 needs 1\.\.4"):
        found.mixed(8)


def test_ways_to_fail_are_counted_apart(rows):
    # limit-of-RLVR#8: timeouts, unparsed and wrong in one number confuse
    found = Evaluation(rows)
    shares = {name: found.outcome(name).value for name in ("correct", "wrong", "unparsed", "timeout", "error")}
    assert shares == {"correct": 0.25, "wrong": 0.5, "unparsed": 0.125, "timeout": 0.125, "error": 0.0}
    assert found.summary()["outcomes"]["timeout"]["value"] == 0.125


def test_a_response_without_a_verdict_is_left_out_or_wrong_and_the_table_says_which(rows):
    # RL#2207, trl#5902: a verifier's crash is no answer of the model, and never silently a wrong one
    excluded, counted = Evaluation(rows), Evaluation(rows, on_failure="wrong")
    assert excluded.by_level()[2].value == counted.by_level()[2].value == 0.0
    assert excluded.pass_at(4).problems == 1
    assert counted.pass_at(4).problems == 2
    assert counted.pass_at(4).value == 0.5
    assert excluded.unjudged == counted.unjudged == 0.125
    assert excluded.tokens_wrong.value == counted.tokens_wrong.value == 4.0
    assert ("no verdict: left out", "12.5%", "") in figures(excluded)
    assert ("no verdict: counted as wrong", "12.5%", "") in figures(counted)
    assert counted.summary()["on_failure"] == "wrong"


def test_the_table(rows):
    found = Evaluation(rows)
    names = [name for name, _, _ in figures(found)]
    assert names[:5] == ["accuracy (pass@1, avg@4)", "pass@2", "pass@4", "maj@4", "tokens a response"]
    assert "strategy short" in names
    assert "timeout" in names
    assert "error" not in names  # 0%, and it never happened
    assert [name for name, _, _ in figures(found, [1, 3])][1:3] == ["pass@1", "pass@3"]
    assert "strategy short" not in [name for name, _, _ in figures(found, detail=False)]
    assert list(found.summary()["pass"]) == ["1", "2", "4"]
    assert list(found.summary([3])["pass"]) == ["3"]
    describe(found, "model [/red] on [x]")


def test_what_has_no_figure_is_a_dash(row):
    one = Evaluation([row("a", i, None, outcome="timeout") for i in range(2)])
    table = {name: rest for name, *rest in figures(one)}
    assert table["accuracy (pass@1, avg@2)"] == ["–", "–"]
    assert table["tokens a response"] == ["4.0", "–"]
    assert table["timeout"] == ["100.0%", "20.7% – 100.0%"]  # Wilson's interval of one problem: 1 / (1 + 1.96²)
    assert not any("nan" in text for line in table.values() for text in line)
    paired = compare(one, one)
    assert differences(paired)[0] == ("accuracy", "–", "–", "–", "–")
    assert verdict(paired.accuracy) == "0 problems to compare: no interval, so nothing can be said"
    alone = compare(Evaluation([row("a", 0, True)]), Evaluation([row("a", 0, False)])).accuracy
    assert verdict(alone) == "1 problem to compare: no interval, so nothing can be said"


def test_names_from_a_data_file_cannot_steer_the_terminal(row):
    names = ["a\x1b[2J\x1b]0;title\x07b", "c\nd\re", "[bold]f"]
    rows = [row(str(i), 0, True, family=name) for i, name in enumerate(names)]
    out = io.StringIO()
    Console(file=out, width=80, force_terminal=True, color_system=None, no_color=True).print(describe(Evaluation(rows)))
    shown = out.getvalue()
    assert "family a\ufffd[2J\ufffd]0;title\ufffdb" in shown
    assert "family c\ufffdd\ufffde" in shown
    assert "family [bold]f" in shown
    assert "\x1b[2J" not in shown


def test_the_ks_are_powers_of_two_and_the_number_of_samples(row):
    def of(n):
        return Evaluation([row("a", i, True) for i in range(n)]).ks()

    assert of(1) == [1]
    assert of(6) == [1, 2, 4, 6]
    assert of(16) == [1, 2, 4, 8, 16]
    assert of(256) == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert Evaluation([]).ks() == []


def test_votes_are_numbers_by_value_and_text_by_spelling():
    assert vote("1/2") == vote("0.50") == vote("\\frac{2}{4}") == "1/2"
    assert vote("1,000") == vote("1000.0") == "1000"
    assert vote("\\text{Yes}") == vote("yes")
    assert vote("2x") != vote("3x")


def test_no_rows_at_all():
    found = Evaluation([])
    assert found.summary()["problems"] == 0
    assert found.unjudged == 0.0
