"""The console in trouble: it begins anew, a broker dies, the store is away, there is no bucket."""

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser, Page, Route, expect

from tests.e2e.console.test_journeys import assert_sound, log_in
from tests.e2e.console.test_records import produce
from tests.support import browser as chromium
from tests.support.broker import KafscaleProcess
from tests.support.console import CREDENTIALS, PASSWORD, USERNAME, ConsoleProcess


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    visitor = chromium.visit(browser)
    yield visitor
    visitor.context.close()


def attempt(page: Page, password: str) -> int:
    """Log in with the form; the status of the answer."""
    page.get_by_label("Username").fill(USERNAME)
    page.get_by_label("Password").fill(password)
    with page.expect_response("**/api/v1/session") as answer:
        page.get_by_role("button", name="Log in").click()
    return answer.value.status


def _hold_the_pause(route: Route) -> None:
    """The server's answer; a pause in it is longer, so that the page can be looked at."""
    answer = route.fetch()
    headers = answer.headers | ({"retry-after": "600"} if answer.status == 429 else {})
    route.fulfill(response=answer, headers=headers)


def test_guessing_is_slowed_down_and_a_restart_asks_for_the_login_again(
    page: Page, console_broker: KafscaleProcess, static: Path, tmp_path: Path
) -> None:
    console = ConsoleProcess(console_broker, tmp_path)
    try:
        page.goto(f"{console.start().url}/storage")
        page.route("**/api/v1/session", _hold_the_pause)
        while attempt(page, "a guess") != 429:  # pauses double: one is longer than an attempt
            expect(page.get_by_role("alert")).to_contain_text("wrong")
        throttled = page.get_by_text(re.compile(r"Too many attempts. Try again in \d+ s"))
        expect(throttled).to_be_visible()
        expect(page.get_by_role("button", name="Log in")).to_be_disabled()
        assert_sound(page)
        page.unroute("**/api/v1/session")
        page.reload()
        while attempt(page, PASSWORD) == 429:
            expect(page.get_by_role("button", name="Log in")).to_be_enabled()  # it counts down
        expect(page.get_by_role("heading", name="Storage")).to_be_visible()
        expect(page.get_by_text("what a recovery begins from")).to_be_visible()

        console.kill()
        expect(page.get_by_text("Server does not answer").first).to_be_visible()
        expect(page.get_by_text("What you see was read").first).to_be_visible()
        assert_sound(page)
        console.start()
        expect(page.get_by_text("Your session has ended")).to_be_visible()
        page.get_by_label("Username").fill(USERNAME)
        page.get_by_label("Password").fill(PASSWORD)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Storage")).to_be_visible()
        assert page.url == f"{console.url}/storage"
    finally:
        console.kill()


def test_a_store_that_fails_and_a_broker_that_dies_are_told_and_come_back(
    page: Page, static: Path, tmp_path: Path
) -> None:
    broker = KafscaleProcess(tmp_path / "broker")
    console = ConsoleProcess(broker, tmp_path / "console")
    objects, away = broker.data / "objects", broker.data / "away"
    with broker:
        produce(broker, "kept", {"value": "before"})
        try:
            log_in(page, console.start(), "/fleet")
            expect(page.get_by_text("Store healthy")).to_be_visible()
            expect(page.get_by_text("1 ready")).to_be_visible()

            objects.rename(away)
            objects.write_text("in the way")
            producer = Producer({"bootstrap.servers": broker.bootstrap})
            producer.produce("kept", b"during")  # an idle broker asks nothing of its store
            expect(page.get_by_text(re.compile("Store (degraded|unavailable)"))).to_be_visible()
            page.goto(f"{console.url}/storage")
            expect(page.get_by_text(re.compile("^(degraded|unavailable)$")).first).to_be_visible()
            assert_sound(page)
            objects.unlink()
            away.rename(objects)
            assert producer.flush(60) == 0
            expect(page.get_by_text("Store healthy")).to_be_visible()

            page.goto(f"{console.url}/fleet")
            broker.kill()
            expect(page.get_by_text("Store not known")).to_be_visible()
            assert_sound(page)
            broker.start()
            expect(page.get_by_text("Store healthy")).to_be_visible()
            page.goto(f"{console.url}/topics/kept")
            expect(page.get_by_role("cell", name="before")).to_be_visible()
        finally:
            console.kill()


def test_without_a_bucket_all_else_works(page: Page, static: Path, tmp_path: Path) -> None:
    memory = {"KAFSCALE_USE_MEMORY_S3": "true"}
    with KafscaleProcess(tmp_path / "broker", memory) as broker:
        console = ConsoleProcess(broker, tmp_path / "console", {**CREDENTIALS, **memory})
        produce(broker, "fleeting", {"value": "in memory"})
        try:
            log_in(page, console.start(), "/topics/fleeting")
            expect(page.get_by_role("cell", name="in memory")).to_be_visible()
            for path in ("/topics/fleeting/objects", "/snapshots", "/pipeline"):
                page.goto(console.url + path)
                expect(page.get_by_text("The bucket is out of reach")).to_be_visible()
            assert_sound(page)
            page.goto(f"{console.url}/cost")
            expect(page.get_by_role("table", name="Cost by topic")).to_be_visible()
        finally:
            console.kill()


def test_seven_tabs_at_once(
    page: Page, console: ConsoleProcess, console_broker: KafscaleProcess
) -> None:
    topic = f"tabs-{uuid4().hex[:8]}"
    produce(console_broker, topic, {"value": "first"})
    log_in(page, console, f"/topics/{topic}")
    tabs = [page, *(page.context.new_page() for _ in range(6))]
    for tab in tabs:
        tab.goto(f"{console.url}/topics/{topic}")
        expect(tab.get_by_role("cell", name="first")).to_be_visible()
        expect(tab.get_by_text("That is all there is.")).to_be_visible()  # no search runs
    for tab in tabs[:2]:
        tab.get_by_role("button", name="Follow").click()
        expect(tab.get_by_text("Waiting for the next record…")).to_be_visible()
    tabs[2].get_by_role("button", name="Follow").click()  # a session has two
    expect(tabs[2].get_by_role("alert")).to_contain_text("two searches of yours run already")
    produce(console_broker, topic, {"value": "second"})
    for tab in tabs[:2]:
        expect(tab.get_by_role("cell", name="second")).to_be_visible()
    tabs[6].goto(f"{console.url}/groups")
    expect(tabs[6].get_by_role("heading", name="Groups", level=1)).to_be_visible()
    tabs[6].reload()
    expect(tabs[6].get_by_text("Loading…")).to_have_count(0)
