"""A real browser, and axe to judge what it shows.

Next door: the console it looks at (console.py), Debian's programs (debian.py).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.support import debian, ui

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
PATIENCE_MS = 60_000  # on a busy machine; no test asserts how long something takes


@contextmanager
def started() -> Iterator[Browser]:
    """Chromium from Debian. Raises Unavailable."""
    chromium = debian.program("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def visit(browser: Browser, **settings: Any) -> Page:
    """A page of a visitor of its own, where nothing moves: what is seen is there to stay."""
    settings = {"bypass_csp": True, "reduced_motion": "reduce", **settings}
    context: BrowserContext = browser.new_context(**settings)
    context.set_default_timeout(PATIENCE_MS)
    return context.new_page()


@cache
def _axe() -> str:
    return Path(ui.checked_out() / "node_modules/axe-core/axe.min.js").read_text("utf-8")


def violations(page: Page) -> list[str]:
    """What axe finds wrong with the page as it is, in words."""
    page.evaluate(_axe())
    found = page.evaluate("rules => axe.run(document, {runOnly: rules})", RULES)
    return [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for one in found["violations"]
        for node in one["nodes"]
    ]
