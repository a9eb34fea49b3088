"""The console without a mouse: every step by keys, and the focus comes everywhere in its turn."""

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.console.test_journeys import assert_sound, log_in
from tests.support import browser as chromium
from tests.support.console import ConsoleProcess

MOST_STEPS = 80
FOCUSED = """() => {
  const one = document.activeElement;
  return (one.ariaLabel ?? one.labels?.[0]?.textContent ?? one.textContent ?? "").trim();
}"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    visitor = chromium.visit(browser)
    yield visitor
    visitor.context.close()


def tab_to(page: Page, name: str) -> None:
    """Press Tab until what has this name has the focus."""
    for _ in range(MOST_STEPS):
        if page.evaluate(FOCUSED) == name:
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the focus does not come to {name}")


def press(page: Page, name: str) -> None:
    tab_to(page, name)
    page.keyboard.press("Enter")


def test_keys_go_everywhere(page: Page, console: ConsoleProcess) -> None:
    log_in(page, console)
    page.clock.set_fixed_time(datetime.now(UTC))  # two keys belong together for about a second
    page.keyboard.press("g")
    page.keyboard.press("f")
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("stor")
    expect(page.get_by_role("option", name="Storage")).to_be_visible()
    assert_sound(page)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Storage")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_topic_is_created_written_read_and_deleted_by_keys_alone(
    page: Page, console: ConsoleProcess
) -> None:
    name = f"keys-{uuid4().hex[:8]}"
    log_in(page, console, "/topics")
    expect(page.get_by_role("heading", name="Topics", level=1)).to_be_visible()
    press(page, "Create topic")
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
    expect(page.get_by_text("No records here")).to_be_visible()

    press(page, "Produce")
    expect(page.get_by_role("dialog")).to_be_visible()
    tab_to(page, "Value")
    page.keyboard.type("written by keys")
    press(page, "Produce")
    expect(page.get_by_text("Written to partition")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    press(page, "Search")
    expect(page.get_by_role("cell", name="written by keys")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary")).to_contain_text("written by keys")
    assert_sound(page)

    press(page, "More for this topic")
    press(page, "Delete topic")
    expect(page.get_by_label(f"Type {name}")).to_be_focused()
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Topics", level=1)).to_be_visible()
