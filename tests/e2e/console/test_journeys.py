"""What people do in the console, in a real browser, on a real console and broker.

At every stop axe looks at the page, in light and in dark.
"""

import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support import browser as chromium
from tests.support.broker import KafscaleProcess
from tests.support.console import PASSWORD, USERNAME, ConsoleProcess
from tests.support.console_api import Visit

expect.set_options(timeout=chromium.PATIENCE_MS)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    visitor = chromium.visit(browser)
    troubles: list[str] = []
    visitor.on("pageerror", lambda error: troubles.append(str(error)))
    yield visitor
    visitor.context.close()
    assert troubles == []


def log_in(page: Page, console: ConsoleProcess, path: str = "/") -> None:
    """By keyboard alone."""
    page.goto(console.url + path)
    expect(page.get_by_label("Username")).to_be_focused()
    page.keyboard.type(USERNAME)
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Find")).to_be_visible()


def assert_sound(page: Page) -> None:
    """Ask axe, in light and in dark."""
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        assert page.evaluate("document.getAnimations().length") == 0
        assert chromium.violations(page) == [], theme


NAMES = ("KAFSCALE_UI_USERNAME", "KAFSCALE_UI_PASSWORD")


@pytest.mark.parametrize("left_out", [NAMES[:1], NAMES[1:], NAMES])
def test_without_both_variables_the_form_is_disabled_and_the_server_refuses(
    browser: Browser,
    console_broker: KafscaleProcess,
    static: Path,
    tmp_path: Path,
    left_out: tuple[str, ...],
) -> None:
    both = dict(zip(NAMES, (USERNAME, PASSWORD), strict=True))
    console = ConsoleProcess(console_broker, tmp_path, both | dict.fromkeys(left_out, " "))
    page = chromium.visit(browser)
    try:
        page.goto(console.start().url)
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("UI access is disabled until both")
        expect(alert).to_contain_text("KAFSCALE_UI_USERNAME and KAFSCALE_UI_PASSWORD")
        expect(page.get_by_label("Username")).to_be_disabled()
        expect(page.get_by_label("Password")).to_be_disabled()
        expect(page.get_by_role("button", name="Log in")).to_be_disabled()
        assert_sound(page)
        assert by_hand(console, USERNAME, PASSWORD) == (403, "disabled")
    finally:
        page.context.close()
        console.kill()


def by_hand(console: ConsoleProcess, username: str, password: str) -> tuple[int, str]:
    """Log in without the page: status and code of the refusal."""
    connection = http.client.HTTPConnection("127.0.0.1", console.port, timeout=30)
    body = json.dumps({"username": username, "password": password})
    headers = {"X-Kafscale": "1", "Content-Type": "application/json", "Origin": console.url}
    connection.request("POST", "/api/v1/session", body, headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text)["error"]["code"] if text else ""


def test_a_wrong_password_is_said_and_a_deep_link_is_kept(
    page: Page, console: ConsoleProcess
) -> None:
    page.goto(f"{console.url}/topics?sort=-bytes")
    page.get_by_label("Username").fill(USERNAME)
    page.get_by_label("Password").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("wrong")
    assert_sound(page)
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Topics", level=1)).to_be_visible()
    assert page.url == f"{console.url}/topics?sort=-bytes"


def test_after_logging_out_the_back_button_shows_nothing(
    page: Page, console: ConsoleProcess
) -> None:
    log_in(page, console, "/fleet")
    page.goto(f"{console.url}/activity")
    expect(page.get_by_role("heading", name="Activity")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile(f"{USERNAME}.*log_in"))).not_to_have_count(0)
    (kept,) = page.context.cookies()
    assert (kept["httpOnly"], kept["sameSite"]) == (True, "Strict")
    page.get_by_role("button", name="You and this browser").click()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Password")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Password")).to_be_visible()
    expect(page.get_by_role("navigation", name="Pages")).to_have_count(0)
    old = Visit(console.port)
    old.cookie = f"{kept['name']}={kept['value']}"
    assert old.api("GET", "topics")[0] == 401


PLACES = {
    "/": "Overview",
    "/topics": "Topics",
    "/groups": "Groups",
    "/fleet": "Fleet",
    "/storage": "Storage",
    "/cost": "Cost",
    "/activity": "Activity",
    "/snapshots": "Snapshots",
    "/pipeline": "Pipeline",
    "/transactions": "Transactions",
    "/subscriptions": "Subscriptions",
    "/access": "Access",
}


def test_every_page_is_sound_and_no_request_fails(page: Page, console: ConsoleProcess) -> None:
    log_in(page, console)
    failed: list[str] = []
    page.on("response", lambda one: failed.append(one.url) if one.status >= 400 else None)
    for path, title in PLACES.items():
        page.goto(console.url + path)
        expect(page.get_by_role("heading", name=title, level=1)).to_be_attached()
        expect(page.get_by_text("Loading…")).to_have_count(0)
        assert_sound(page)
    assert failed == []


def test_a_topic_is_created_changed_and_deleted(page: Page, console: ConsoleProcess) -> None:
    log_in(page, console, "/topics")
    name = f"journeys.{uuid4().hex[:8]}"
    page.get_by_role("button", name="Create topic").first.click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("textbox", name="Partitions").fill("3")
    assert_sound(page)
    page.get_by_role("dialog").get_by_role("button", name="Create topic").click()
    expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
    expect(page.get_by_text("3 partitions").first).to_be_visible()

    page.get_by_role("link", name="Settings").click()
    page.get_by_role("button", name="Change retention.ms").click()
    page.get_by_label("Value (").fill("3600000")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("row", name=re.compile(r"^retention\.ms 3600000"))).to_be_visible()
    assert_sound(page)

    page.reload()  # a name with a dot is no file
    expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()

    page.get_by_role("button", name="More for this topic").click()
    page.get_by_role("button", name="Delete topic").click()
    confirm = page.get_by_role("dialog").get_by_role("button", name="Delete topic")
    page.get_by_label(f"Type {name}").fill("another")
    expect(confirm).to_be_disabled()
    assert_sound(page)
    page.get_by_label(f"Type {name}").fill(name)
    confirm.click()
    expect(page.get_by_role("heading", name="Topics", level=1)).to_be_visible()
    expect(page.get_by_role("link", name=name)).to_have_count(0)

    page.goto(f"{console.url}/activity")
    expect(
        page.get_by_role("row", name=re.compile(f"delete_topic {re.escape(name)}"))
    ).to_be_visible()


def test_nothing_is_wider_than_a_narrow_screen(browser: Browser, console: ConsoleProcess) -> None:
    page = chromium.visit(browser, viewport={"width": 320, "height": 640})
    log_in(page, console)
    for path in PLACES:
        page.goto(console.url + path)
        expect(page.get_by_role("button", name="Navigation")).to_be_visible()
        expect(page.get_by_text("Loading…")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") == 320, path
    page.get_by_role("button", name="Navigation").click()
    expect(page.get_by_role("link", name="Groups", exact=True)).to_be_visible()
    page.context.close()
