"""The page in a real browser: right numbers, sorting, charts, colours, narrow and printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from page_examples import sections

from upside.analysis.blocks import Column, Facts, Section, Table
from upside.analysis.page.render import render

Visit = Callable[..., Any]

CONTRAST = """() => {
  const channels = (text) => text.match(/[\\d.]+/g).map(Number);
  const luminance = (rgb) => rgb.slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const found = channels(getComputedStyle(node).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const seen = {};
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || !node.checkVisibility() || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(node.tagName)) continue;
    const [a, b] = [luminance(channels(getComputedStyle(node).color)), luminance(behind(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) seen[`${node.tagName}.${node.className}: ${node.textContent.slice(0, 30)}`] = ratio;
  }
  return seen;
}"""


def first_column(page: Any) -> list[str]:
    return page.locator("#overview tbody td:first-child").all_inner_texts()


def test_page_shows_every_block(visit: Visit) -> None:
    page = visit(render("A title", sections()))
    assert page.title() == "A title"
    assert page.locator("nav a").all_inner_texts() == ["Overview", "Curves", "Diagnosis", "Responses"]
    assert page.locator(".headline").inner_text().split("\n") == ["Estimator", "grpo"]
    cells = page.locator("#overview tbody tr").first.locator("td").all_inner_texts()
    assert cells == ["first", "50.0% (40.0 to 60.0)", "1,200"]
    assert page.locator(".findings .finding").count() == 2
    assert page.locator(".finding").first.inner_text().startswith("✕ fail")
    assert "Steps 3, 4." in page.locator(".finding.warn").inner_text()
    assert page.locator(".quiet tbody tr").count() == 2


def test_a_click_on_a_heading_sorts_by_number_and_leaves_gaps_last(visit: Visit) -> None:
    page = visit(render("t", sections()))
    accuracy = page.locator("#overview th button", has_text="accuracy")
    accuracy.click()
    assert first_column(page) == ["second", "first", "third"]
    accuracy.click()
    assert first_column(page) == ["first", "second", "third"]
    page.locator("#overview th button", has_text="tokens").click()
    assert first_column(page) == ["first", "third", "second"]


def test_charts_show_the_values_at_the_cursor_and_hide_lines(visit: Visit) -> None:
    page = visit(render("t", sections()))
    chart = page.locator(".chart").first
    over = chart.locator(".u-over")
    box = over.bounding_box()
    over.hover(position={"x": box["width"] - 1, "y": 20})
    assert chart.locator(".legend").inner_text().split() == ["first", "62.5%", "second", "12.5%", "step", "20"]
    over.hover(position={"x": box["width"] / 2, "y": 20})
    assert chart.locator(".legend").inner_text().split() == ["first", "50.0%", "second", "step", "10"]
    inked = lambda: page.evaluate(INK, "--s1")  # noqa: E731
    assert inked() > 50
    chart.locator(".legend button", has_text="second").click()
    assert inked() == 0
    chart.locator("summary").click()
    rows = chart.locator("details table tbody tr").all_inner_texts()
    assert [row.split("\t") for row in rows] == [
        ["first", "0 to 20", "25.0%", "62.5%", "25.0%", "62.5%"],
        ["second", "0 to 20", "25.0%", "12.5%", "12.5%", "25.0%"],
    ]


INK = """(name) => {
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = `var(${name})`;
  const wanted = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
  const canvas = document.querySelector(".chart canvas");
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let i = 0; i < data.length; i += 4)
    if (data[i + 3] > 200 && wanted.every((value, k) => Math.abs(data[i + k] - value) < 6)) found += 1;
  return found;
}"""


def test_a_drag_zooms_and_the_button_shows_the_whole_range_again(visit: Visit) -> None:
    page = visit(render("t", sections()))
    chart = page.locator(".chart").first
    chart.scroll_into_view_if_needed()
    box = chart.locator(".u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.95, box["y"] + 50, steps=4)
    page.mouse.up()
    reset = chart.locator(".reset")
    assert reset.is_visible()
    assert not page.locator(".chart").nth(1).locator(".reset").is_visible()
    reset.click()
    assert not reset.is_visible()


def test_colours_follow_the_system_and_the_button(visit: Visit) -> None:
    page = visit(render("t", sections()), dark=True)
    background = lambda: page.evaluate("getComputedStyle(document.body).backgroundColor")  # noqa: E731
    dark, ink = background(), page.evaluate(INK, "--s0")
    assert ink > 50
    page.locator("#theme").click()
    assert page.locator("#theme").inner_text() == "Colours: light"
    assert background() != dark
    assert page.evaluate(INK, "--s0") > 50
    page.reload()
    assert page.locator("#theme").inner_text() == "Colours: light"


@pytest.mark.parametrize("dark", [False, True])
def test_all_text_has_contrast(visit: Visit, dark: bool) -> None:
    page = visit(render("t", sections()), dark=dark)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.locator(".responses").first.wait_for()
    assert page.evaluate(CONTRAST) == {}


def test_a_phone_scrolls_wide_tables_and_not_the_page(visit: Visit) -> None:
    columns = [Column(f"a column of a long name {i}") for i in range(12)]
    facts = Facts([("Estimator", "canon:metric=length,mu=0.5>" * 6)], headline=1)
    wide = Section("wide", "W" * 90, [facts, Table("T" * 80, columns, [["x" * 50] * 12])])
    page = visit(render("title_without_any_space_" * 6, [*sections(), wide]), width=360)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.locator(".unfold").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.evaluate("document.querySelector('#wide .wide').scrollWidth") > 1000


def test_print_unfolds_drops_controls_and_is_light(visit: Visit) -> None:
    folded = Section("folded", "Folded", [Facts([("Task", "sums")])], folded=True)
    page = visit(render("t", [*sections(), folded]), dark=True)
    assert page.locator("#folded").bounding_box()["height"] < 40
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.emulate_media(media="print", color_scheme="dark")
    assert not page.locator("nav").is_visible()
    assert not page.locator("#theme").is_visible()
    assert not page.locator(".bar").first.is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("#folded").bounding_box()["height"] > 60
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert max(map(int, ink[4:-1].split(","))) < 80


def test_without_scripts_tables_and_findings_are_there(visit: Visit) -> None:
    page = visit(render("t", sections()), script=False)
    assert page.locator("noscript").count() == 1
    assert "Scripts are off" in page.locator("body").inner_text()
    assert page.locator("#overview tbody tr").count() == 3
    assert page.locator(".finding").count() == 2
