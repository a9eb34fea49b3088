"""Every tab, dialog and menu of the console, with something in it: axe looks, and nothing is wide.

Next door: what people do there (test_journeys.py, test_records.py, test_store.py).
"""

import re
from collections.abc import Iterator
from uuid import uuid4

import pulsar
import pytest
from confluent_kafka import Consumer, Producer
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.e2e.console.test_journeys import assert_sound, log_in
from tests.e2e.console.test_records import produce
from tests.support import browser as chromium
from tests.support import pulsar_client
from tests.support.broker import KafscaleProcess
from tests.support.console import ConsoleProcess
from tests.support.console_api import Visit

DESK: ViewportSize = {"width": 1280, "height": 800}
NARROW: ViewportSize = {"width": 320, "height": 640}


@pytest.fixture
def page(browser: Browser, console: ConsoleProcess) -> Iterator[Page]:
    visitor = chromium.visit(browser)
    troubles: list[str] = []
    visitor.on("pageerror", lambda error: troubles.append(str(error)))
    log_in(visitor, console)
    yield visitor
    visitor.context.close()
    assert troubles == []


@pytest.fixture
def topic(console_broker: KafscaleProcess) -> str:
    """With three records."""
    name = f"stops-{uuid4().hex[:8]}"
    produce(console_broker, name, *({"key": str(one), "value": f"v{one}"} for one in range(3)))
    return name


@pytest.fixture
def group(console_broker: KafscaleProcess, topic: str) -> Iterator[str]:
    """With a member, which has committed the first record of the topic."""
    name = f"{topic}-readers"
    settings = {"bootstrap.servers": console_broker.bootstrap, "auto.offset.reset": "earliest"}
    reader = Consumer({**settings, "group.id": name, "enable.auto.commit": False})
    reader.subscribe([topic])
    while not (read := reader.consume(1, 10)):
        pass
    reader.commit(message=read[0], asynchronous=False)
    yield name
    reader.close()


def look(page: Page, url: str, shows: str | re.Pattern[str]) -> None:
    """Go there, wait for what is there, and judge it at a desk and on a narrow screen."""
    page.goto(url)
    expect(page.locator("main").get_by_text(shows).first).to_be_visible()
    expect(page.get_by_text("Loading…")).to_have_count(0)
    assert_sound(page)
    page.set_viewport_size(NARROW)
    assert page.evaluate("document.documentElement.scrollWidth") == NARROW["width"], url
    assert_sound(page)
    page.set_viewport_size(DESK)


def test_every_tab_of_a_topic(page: Page, console: ConsoleProcess, topic: str, group: str) -> None:
    tabs = {
        "": "v2",
        "/partitions": "Leader",
        "/objects": "flush",
        "/groups": group,
        "/settings": "retention.ms",
        "/cost": "PUT",
        "/nothing": "A topic has no such part",
    }
    for tab, shows in tabs.items():
        look(page, f"{console.url}/topics/{topic}{tab}", re.compile(re.escape(shows), re.I))


def test_every_tab_of_a_group_and_a_broker(
    page: Page, console: ConsoleProcess, topic: str, group: str
) -> None:
    look(page, f"{console.url}/groups/group?id={group}", topic)
    look(page, f"{console.url}/groups/group/members?id={group}", "127.0.0.1")
    look(page, f"{console.url}/groups", group)
    look(page, f"{console.url}/fleet/0", "kafscale.version")


def test_what_is_not_there_is_told(page: Page, console: ConsoleProcess) -> None:
    look(page, f"{console.url}/topics/no-such-topic", "There is no topic no-such-topic")
    look(page, f"{console.url}/groups/group?id=no-such-group", "There is no group no-such-group")
    look(page, f"{console.url}/no-such-page", "There is no such page")
    look(page, f"{console.url}/pipeline/no-such-run", "there is no such run")
    look(page, f"{console.url}/object?key=no-such-object", "there is no such object")
    look(page, f"{console.url}/fleet/99", "there is no broker 99")


def test_transactions_and_subscriptions_that_are_there(
    page: Page, console: ConsoleProcess, console_broker: KafscaleProcess, topic: str
) -> None:
    settings = {"bootstrap.servers": console_broker.bootstrap}
    producer = Producer({**settings, "transactional.id": f"{topic}-writer"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"in a transaction")
    assert producer.flush(60) == 0
    look(page, f"{console.url}/transactions", f"{topic}-writer")
    expect(page.get_by_role("row", name=re.compile(f"{topic}-writer Ongoing"))).to_be_visible()
    producer.abort_transaction(60)

    client = pulsar_client.connect(console_broker)
    reader = client.subscribe(
        topic, f"{topic}-sub", initial_position=pulsar.InitialPosition.Earliest
    )
    pulsar_client.receive_all(reader, 3)  # what was aborted is passed over, its marker too
    look(page, f"{console.url}/subscriptions", f"{topic}-sub")
    row = page.get_by_role("row", name=re.compile(f"{topic}-sub pulsar {topic} 0 5 5 0"))
    expect(row).to_be_visible()
    client.close()


def judge(page: Page, name: str) -> None:
    """Judge the open dialog and close it."""
    expect(page.get_by_role("dialog")).to_contain_text(name)
    assert_sound(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_every_dialog(page: Page, console: ConsoleProcess, topic: str, group: str) -> None:
    page.goto(f"{console.url}/topics/{topic}")
    expect(page.get_by_role("cell", name="v2")).to_be_visible()
    for name in ("Add partitions", "Delete records", "Delete topic"):
        page.get_by_role("button", name="More for this topic").click()
        assert_sound(page)
        page.get_by_role("button", name=name).click()
        judge(page, topic)
    page.goto(f"{console.url}/topics/{topic}/settings")
    page.get_by_role("button", name="Change retention.ms").click()
    judge(page, "retention.ms")
    page.goto(f"{console.url}/groups/group?id={group}")
    page.get_by_role("button", name="Reset offsets").click()
    judge(page, group)
    page.get_by_role("button", name="More for this group").click()
    page.get_by_role("button", name="Delete group").click()
    judge(page, group)
    page.goto(f"{console.url}/pipeline")
    page.get_by_role("button", name="Run a job").click()
    judge(page, "audit")
    page.keyboard.press("?")
    judge(page, "Keyboard")


def test_every_menu(page: Page, console: ConsoleProcess, topic: str) -> None:
    for path, menu, shows in (
        ("/topics", "Columns", "worst lag"),
        (f"/topics/{topic}", "Export", "as CSV"),
        ("/activity", "You and this browser", "Log out"),
    ):
        page.goto(console.url + path)
        page.get_by_role("button", name=menu).click()
        expect(page.get_by_text(re.compile(shows)).last).to_be_visible()
        assert_sound(page)


def test_a_snapshot_is_released_and_a_link_to_it_says_so(
    page: Page, console: ConsoleProcess, topic: str
) -> None:
    visit = Visit(console.port)
    visit.log_in()
    name = f"of-{topic}"
    assert visit.api("POST", "snapshots", {"name": name, "topics": [topic]})[0] == 201
    look(page, f"{console.url}/snapshots", name)
    page.get_by_role("button", name=f"Release {name}").click()
    dialog = page.get_by_role("dialog")
    assert_sound(page)
    dialog.get_by_label(f"Type {name}").fill(name)
    dialog.get_by_role("button", name="Release snapshot").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.goto(f"{console.url}/topics/{topic}?snapshot={name}")
    expect(page.get_by_role("alert")).to_contain_text(name)
    assert_sound(page)


def test_a_topic_that_was_just_made_can_be_opened(
    page: Page, console: ConsoleProcess, console_broker: KafscaleProcess
) -> None:
    """The console looks at brokers every few seconds; a visitor may be quicker."""
    failed: list[str] = []
    page.on("response", lambda one: failed.append(one.url) if one.status >= 400 else None)
    for number in range(3):
        name = f"just-made-{number}-{uuid4().hex[:8]}"
        produce(console_broker, name, {"value": f"new {number}"})
        page.goto(f"{console.url}/topics/{name}")
        expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
        expect(page.get_by_role("cell", name=f"new {number}")).to_be_visible()
    assert failed == []
