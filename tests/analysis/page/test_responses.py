"""The browser of responses in a real browser: search, filters, sorting, folding, pages; and text that means harm."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from page_examples import COLUMNS, group, groups, response, sections

from upside.analysis.blocks import Findings, Groups, Prose, Section, Table
from upside.analysis.page.render import render

Visit = Callable[..., Any]


def shown(page: Any) -> list[str]:
    return page.locator(".group .where").all_inner_texts()


def lengths(page: Any) -> list[str]:
    return page.locator(".group[open] tbody tr:first-child td:nth-child(5)").all_inner_texts()


def cpu_seconds(page: Any) -> float:
    """What the page's process has used, from its start until its responses were shown."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    found = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    return found["ProcessTime"]


@pytest.fixture
def page(visit: Visit) -> Any:
    return visit(render("t", sections()))


ALL = ["Step 1, group 0", "Step 1, group 1", "Step 2, group 0"]


def test_the_numbers_are_those_of_the_log(page: Any) -> None:
    assert shown(page) == ALL
    rows = page.locator(".group[open] tbody tr:first-child").all_inner_texts()
    assert [row.split("\t")[1:] for row in rows] == [
        ["0", "1.00", "✓ yes", "12", "+1.500", "seven apples"],
        ["1", "0.00", "✕ no", "30", "-0.500", "eight pears"],
        ["2", "0.00", "✕ no", "7", "-1.000", "nine plums"],
    ]
    assert page.locator(".strip").first.get_attribute("aria-label") == "1 of 3 correct"
    assert "sentence of 3+4" in page.locator(".group").first.inner_text()


def test_search_finds_prompts_and_responses_and_unfolds_what_it_found(page: Any) -> None:
    search = page.locator(".search")
    search.fill("PEARS")
    page.locator("mark").wait_for()
    assert shown(page) == ALL[:1]
    assert page.locator("mark").all_inner_texts() == ["pears"]
    assert "reward 0" in page.locator(".detail").inner_text()
    search.fill("6*7")
    page.locator(".where", has_text="Step 2").wait_for()
    assert shown(page) == ALL[2:]
    search.fill("nowhere")
    page.locator(".count", has_text="0 of 3 groups").wait_for()
    assert shown(page) == []


def test_filters_by_step_tag_outcome_and_sign(page: Any) -> None:
    page.get_by_label("Steps from step").fill("2")
    assert shown(page) == ALL[2:]
    page.get_by_label("Steps from step").fill("")
    dead = page.locator("button.tag", has_text="dead")
    assert dead.inner_text() == "dead 2"
    dead.click()
    assert shown(page) == ALL[1:]
    dead.click()
    page.get_by_label("Outcome").select_option("right")
    assert shown(page) == [ALL[0], ALL[2]]
    page.get_by_label("Advantage").select_option("negative")
    assert shown(page) == []
    page.get_by_label("Outcome").select_option("any")
    assert shown(page) == ALL[:1]
    assert page.locator("tr.other").count() == 1
    page.get_by_label("Advantage").select_option("zero")
    assert shown(page) == ALL[1:]


def test_groups_and_responses_sort_by_any_number(page: Any) -> None:
    page.get_by_label("Sort", exact=True).select_option(label="sort by mean length")
    assert shown(page) == [ALL[1], ALL[0], ALL[2]]
    page.get_by_label("Turn the order").click()
    assert shown(page) == [ALL[2], ALL[0], ALL[1]]
    heading = page.locator(".group[open] th button", has_text="length")
    heading.click()
    assert lengths(page) == ["40", "2"]
    heading.click()
    assert lengths(page) == ["2", "40"]


def test_responses_fold_in_and_out_and_stay_with_their_row(page: Any) -> None:
    unfold = page.locator(".unfold").nth(1)
    unfold.click()
    assert unfold.get_attribute("aria-expanded") == "true"
    assert page.locator(".detail pre").inner_text() == "eight pears"
    page.locator(".group[open] th button", has_text="length").click()
    assert page.locator(".group[open] tbody").first.inner_text().strip().endswith("eight pears")
    page.locator(".unfold").first.click()
    assert not page.locator(".detail").is_visible()
    page.locator(".group summary").first.click()
    assert page.locator(".group[open]").count() == 0


def test_the_browser_switches_between_runs(page: Any) -> None:
    page.locator(".search").fill("42")
    page.get_by_label("Run", exact=True).select_option("second")
    page.locator(".count", has_text="1 of 3 groups").wait_for()
    assert page.get_by_label("Run", exact=True).evaluate("(box) => box.selectedOptions[0].text") == "second"
    assert page.locator(".search").input_value() == "42"


HOSTILE = {
    "script": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "end of script": "</script><script>alert(1)</script><!--",
    "end of table": "</td></tr></table></div></main><h1>owned</h1>",
    "template": "{{7*7}} {% raw %} ${7*7}",
    "right to left": "\u202eevil\u2066 \u200fשלום",
    "control": "a\x00b\x1b[31mred\x07",
    "surrogate": "lone \ud83d and \udc00",
    "entities": "&lt;b&gt; &amp; \u2028\u2029 ]]>",
    "quotes": "\"' onmouseover=alert(1) x=\"'\\",
    "url": "javascript:alert(1)",
}
SEEN = {
    "control": "a␀b␛[31mred␇",
    "surrogate": "lone \N{REPLACEMENT CHARACTER} and \N{REPLACEMENT CHARACTER}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_text_everywhere(visit: Visit, name: str) -> None:
    text, seen = HOSTILE[name], SEEN.get(name, HOSTILE[name])
    finding = dict.fromkeys(("check", "title", "evidence", "threshold", "remedy"), text) | {
        "level": "fail",
        "steps": [],
    }
    made = Groups(text, COLUMNS, [group(1, 0, text, [text], [response(text, 1, True, 3, 0.5)])], note=text)
    table = Table(text, [type(COLUMNS[0])(text, help=text)], [[text]], note=text)
    section = Section("all", text, [Prose([text]), table, Findings([finding]), made], intro=text)
    page = visit(render(text, [section]))
    content = lambda selector: page.locator(selector).first.evaluate("(node) => node.textContent")  # noqa: E731
    page.locator(".unfold").click()
    places = ("h1", "nav a", ".intro", ".prose p", "#all td", ".finding strong", ".detail pre", ".group pre.prompt")
    assert {place: content(place).strip() for place in places} == dict.fromkeys(places, seen)
    assert page.locator("h1").count() == 1
    assert page.locator("script").count() == 3  # charts' data, groups' data, the page's own
    assert page.locator(".detail pre").evaluate("(node) => getComputedStyle(node).unicodeBidi") == "isolate"


def test_100_kb_on_one_line_wraps_and_is_not_slow(visit: Visit) -> None:
    text = "x<&" * 34_000
    page = visit(render("t", [Section("r", "R", [Groups("g", COLUMNS, [
        group(1, 0, "p", [], [response(text, 1, True, 9, 0.1), response("y" * 100_000, 0, False, 9, -0.1)])
    ])])]), width=360)  # fmt: skip
    assert page.locator("td.snippet").first.inner_text().startswith("x<&x<&")
    before = cpu_seconds(page)
    page.locator(".unfold").first.click()
    page.locator(".unfold").nth(1).click()
    assert page.locator(".detail pre").first.evaluate("(node) => node.textContent.length") == 102_000
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.locator(".detail pre").nth(1).evaluate("(node) => node.scrollWidth <= node.clientWidth")
    assert cpu_seconds(page) - before < 2


def test_many_groups_are_shown_a_page_at_a_time(visit: Visit) -> None:
    many = [group(step, 0, f"p{step}", [], groups().groups[0]["responses"]) for step in range(45)]
    page = visit(render("t", [Section("r", "R", [Groups("g", COLUMNS, many, total=90)])]))
    assert "45 of 45 groups; the page holds 45 of the log's 90" in page.locator(".count").inner_text()
    assert page.locator(".group").count() == 20
    page.locator(".pager button", has_text="Next").click()
    page.locator(".pager button", has_text="Next").click()
    assert shown(page) == [f"Step {step}, group 0" for step in range(40, 45)]
    assert page.locator(".pager button", has_text="Next").is_disabled()


def test_200_steps_of_128_responses_are_below_15_mb_and_open_in_3_s(visit: Visit) -> None:
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(3000)]
    made = [
        group(step, number, " ".join(draw.choices(words, k=30)), ["mixed"], [
            response(" ".join(draw.choices(words, k=100)), 1, True, 100, draw.gauss(0, 1)) for _ in range(8)
        ])
        for step in range(200) for number in range(16)
    ]  # fmt: skip
    html = render("t", [Section("r", "R", [Groups("g", COLUMNS, made)])])
    assert len(html.encode()) < 15e6
    page = visit(html)
    assert page.locator(".group").count() == 20
    assert cpu_seconds(page) < 3  # of CPU: the wall clock is other tests' too
