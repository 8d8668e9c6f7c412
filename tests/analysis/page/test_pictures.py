"""Pictures on a page: which files of a run are read, and that a reader sees them beside the prompt."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from page_examples import groups
from PIL import Image

from upside.analysis.blocks import Section
from upside.analysis.page.pictures import LARGEST, embedded
from upside.analysis.page.render import render

RED, BLUE = (f"pictures/{digit * 16}.png" for digit in "ab")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "pictures").mkdir()
    for file, colour, size in ((RED, "red", (64, 64)), (BLUE, "blue", (128, 40))):
        Image.new("RGB", size, colour).save(tmp_path / file)
    return tmp_path


def asked(*files: str) -> list[dict[str, Any]]:
    return [{"pictures": list(files)}]


def test_pictures_of_the_run_as_they_are(run: Path) -> None:
    found = embedded(run, [*asked(RED), {}, *asked(RED, BLUE)], 10_000)
    assert {file: base64.b64decode(text) for file, text in found.items()} == {
        file: (run / file).read_bytes() for file in (RED, BLUE)
    }


@pytest.mark.parametrize(
    "file",
    ["/etc/passwd", "../secret.png", "pictures/../secret.png", "secret.png", "pictures/A" + "a" * 15 + ".png", ""],
)
def test_no_other_file_is_read(run: Path, file: str) -> None:
    Image.new("RGB", (64, 64), "red").save(run / "secret.png")
    assert embedded(run, asked(file, RED), 10_000).keys() == {RED}


def test_what_is_no_small_picture_stays_out(run: Path) -> None:
    links, text, large, wide, cut = (f"pictures/{digit * 16}.png" for digit in "cde01")
    (run / links).symlink_to(run / RED)
    (run / text).write_text("<script>alert(1)</script>")
    (run / large).write_bytes((run / RED).read_bytes() + bytes(LARGEST))
    Image.new("1", (20_000, 20_000)).save(run / wide)  # in few bytes
    assert (run / wide).stat().st_size < LARGEST
    (run / cut).write_bytes((run / RED).read_bytes()[:20])
    assert embedded(run, asked(links, text, large, wide, cut, "pictures/" + "f" * 16 + ".png", BLUE), 10**6).keys() == {
        BLUE
    }


def test_the_budget_ends_them(run: Path) -> None:
    size = (run / RED).stat().st_size
    assert embedded(run, asked(RED, BLUE), size).keys() == {RED}
    assert embedded(run, asked(RED, BLUE), size - 1) == {}


def test_a_reader_sees_them(run: Path, visit: Callable[..., Any]) -> None:
    block = groups()
    first, second, third = block.groups
    made = [{**first, "pictures": [RED, BLUE]}, {**second, "pictures": [BLUE]}, third]
    kept = embedded(run, made[:1], (run / RED).stat().st_size)  # no room for the other
    page = visit(render("t", [Section("responses", "Responses", [replace(block, groups=made, pictures=kept)])]))
    card = page.locator(".group").first
    image = card.locator(".pictures img")
    assert image.get_attribute("alt") == "Picture 1 of 2 of the prompt 3+4"
    assert image.evaluate("one => [one.naturalWidth, one.naturalHeight, one.complete]") == [64, 64, True]
    assert card.locator(".pictures").inner_text() == BLUE  # its file, where the page has no room for it
    assert page.locator("summary img").count() == 1
    assert page.locator(".group").nth(1).locator("summary .snippet").count() == 1  # nothing stands in for the picture
    assert page.locator(".group").nth(2).locator("img").count() == 0


def test_a_wide_picture_and_a_long_name_stay_on_a_phone(run: Path, visit: Callable[..., Any]) -> None:
    Image.new("RGB", (256, 2), "red").save(run / RED)
    block = groups()
    made = [{**block.groups[0], "pictures": [RED, "x" * 300]}]
    kept = embedded(run, made, 10_000)
    page = visit(render("t", [Section("responses", "Responses", [replace(block, groups=made, pictures=kept)])]), 360)
    assert page.locator(".group img").count() == 2
    assert page.evaluate("document.documentElement.scrollWidth") == 360
