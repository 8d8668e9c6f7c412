"""A real browser, and a page that fails a test on any console error or request."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # page_examples.py, which the tests share

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
MISSING = (
    "these tests need a browser and found none: `apt-get install chromium`, or "
    "`playwright install --with-deps chromium`"
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium of the system, else the one playwright installed."""
    from playwright.sync_api import Error, sync_playwright

    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        except Error as error:
            pytest.fail(f"{MISSING} ({error})")
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """visit(html or path, width, dark, script): the page opened from a file, charts and responses drawn."""
    contexts: list[Any] = []
    problems: list[str] = []

    def open_page(source: str | Path, width: int = 1280, dark: bool = False, script: bool = True) -> Any:
        path = source if isinstance(source, Path) else tmp_path / "page.html"
        if isinstance(source, str):
            path.write_text(source, encoding="utf-8")
        scheme = "dark" if dark else "light"
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=script
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("console", lambda message: problems.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (problems.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: problems.append(f"request: {request.url}") if _outside(request, path) else 0)
        page.goto(path.as_uri())
        if script:
            for browser_box in page.locator(".browser").all():
                browser_box.scroll_into_view_if_needed()
                browser_box.locator(".count:has-text('groups')").wait_for()
            for chart in page.locator(".chart").all():
                chart.scroll_into_view_if_needed()
                chart.locator("canvas").wait_for()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


def _outside(request: Any, path: Path) -> bool:
    return request.url.split("#")[0] != path.as_uri() and not request.url.startswith("data:")
