"""Records and groups in the console: produced, searched, followed, sent again, read anew."""

import json
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from playwright.sync_api import Browser, Page, expect

from kafscale.console.routes import ROUTES
from tests.e2e.console.test_journeys import assert_sound, log_in
from tests.support import browser as chromium
from tests.support import path_proxy
from tests.support.broker import KafscaleProcess
from tests.support.console import CREDENTIALS, PASSWORD, USERNAME, ConsoleProcess
from tests.support.console_api import Visit

ID = "9007199254740993"  # one more than JavaScript can count exactly


@pytest.fixture
def page(browser: Browser, console: ConsoleProcess) -> Iterator[Page]:
    visitor = chromium.visit(browser, accept_downloads=True)
    troubles: list[str] = []
    visitor.on("pageerror", lambda error: troubles.append(str(error)))
    visitor.on("dialog", lambda dialog: troubles.append(f"a script ran: {dialog.message}"))
    log_in(visitor, console)
    yield visitor
    visitor.context.close()
    assert troubles == []


@pytest.fixture
def topic() -> str:
    """A name of its own for every try of a test."""
    return f"journey-{uuid4().hex[:8]}"


def produce(broker: KafscaleProcess, topic: str, *records: Mapping[str, Any]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 3_000_000})
    for record in records:
        producer.produce(topic, **record)
    assert producer.flush(60) == 0


def test_records_of_all_kinds_are_shown_as_they_are(
    page: Page, console: ConsoleProcess, console_broker: KafscaleProcess, topic: str
) -> None:
    wide = NewTopic(topic, 1, config={"max.message.bytes": "4000000"})
    admin = AdminClient({"bootstrap.servers": console_broker.bootstrap})
    admin.create_topics([wide])[topic].result(60)
    produce(
        console_broker,
        topic,
        {"key": "exact", "value": f'{{"id":{ID}}}', "headers": {"trace": b"5f3a"}},
        {"key": "script", "value": "<script>alert(1)</script><img src=x onerror=alert(2)>"},
        {"key": "bytes", "value": b"\xff\xfe\x00\x01"},
        {"key": "large", "value": "x" * 2_000_000},
        {"key": "gone", "value": None},
    )
    page.goto(f"{console.url}/topics/{topic}")
    rows = page.get_by_role("table", name="Records").get_by_role("row")
    expect(rows).to_have_count(6)
    expect(page.get_by_text("tombstone", exact=True)).to_be_visible()
    assert_sound(page)

    page.get_by_role("button", name="0 of partition 0, open").click()
    detail = page.get_by_role("complementary")
    expect(detail).to_contain_text(f'"id": {ID}')
    expect(detail).to_contain_text("5f3a")
    assert_sound(page)
    page.reload()  # the open record is in the address
    expect(page.get_by_role("complementary")).to_contain_text(ID)

    page.get_by_role("button", name="1 of partition 0, open").click()
    expect(detail).to_contain_text("<script>alert(1)</script>")
    page.get_by_role("button", name="2 of partition 0, open").click()
    detail.get_by_role("radio", name="hex").check(force=True)
    expect(detail).to_contain_text("ff fe 00 01")
    page.get_by_role("button", name="3 of partition 0, open").click()
    with page.expect_download() as whole:
        detail.get_by_role("link", name="Whole").click()
    assert whole.value.path().stat().st_size == 2_000_000


def test_a_search_filters_stops_goes_on_and_is_exported(
    page: Page, console: ConsoleProcess, console_broker: KafscaleProcess, topic: str
) -> None:
    values = [{"value": json.dumps({"n": number})} for number in range(300)]
    produce(console_broker, topic, *values)
    page.goto(f"{console.url}/topics/{topic}?from=oldest&limit=10")
    expect(page.get_by_text(re.compile("^Looked at .* 10 found"))).to_be_visible()
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_text("Found as many as you asked for.")).to_be_visible()
    table = page.get_by_role("table", name="Records")
    expect(table).to_have_attribute("aria-rowcount", "21")

    page.get_by_label("Filter").fill("value.n > 297")
    page.get_by_role("button", name="Search").click()
    expect(table).to_have_attribute("aria-rowcount", "3")
    expect(page.get_by_text("That is all there is.")).to_be_visible()
    assert_sound(page)
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as export:
        page.get_by_role("button", name="as JSON lines").click()
    lines = export.value.path().read_text("utf-8").splitlines()
    assert [json.loads(line)["offset"] for line in lines] == ["298", "299"]

    middle_ms = json.loads(lines[0])["timestamp_ms"]
    page.get_by_label("Filter").fill("")
    page.get_by_label("From").select_option("time")
    since = page.evaluate("ms => new Date(ms).toISOString().slice(0, 19)", int(middle_ms) + 60_000)
    page.get_by_label("Since").fill(since)
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("No records here")).to_be_visible()
    page.get_by_label("Since").fill("2001-01-01T00:00:00")
    page.get_by_role("button", name="Search").click()
    expect(table).to_have_attribute("aria-rowcount", "11")
    page.get_by_label("Filter").fill("value.n >")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("alert")).to_be_visible()


def test_a_record_is_produced_followed_and_sent_again(
    page: Page, console: ConsoleProcess, console_broker: KafscaleProcess, topic: str
) -> None:
    produce(console_broker, topic, {"value": "first"})
    page.goto(f"{console.url}/topics/{topic}")
    expect(page.get_by_text("first", exact=True)).to_be_visible()
    page.get_by_role("button", name="Follow").click()
    expect(page.get_by_text("Waiting for the next record…")).to_be_visible()
    page.get_by_role("button", name="Produce").click()
    page.get_by_label("Value", exact=True).fill("second")
    assert_sound(page)
    page.get_by_role("dialog").get_by_role("button", name="Produce").click()
    expect(page.get_by_text("Written to partition 0 at offset 1.")).to_be_visible()
    page.get_by_role("button", name="Done").click()
    expect(page.get_by_role("cell", name="second")).to_be_visible()

    page.get_by_role("button", name="1 of partition 0, open").click()
    page.get_by_role("button", name="Send again").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Value", exact=True)).to_have_value("second")
    dialog.get_by_role("button", name="Send again").click()
    expect(page.get_by_text("Written to partition 0 at offset 2.")).to_be_visible()


def test_a_fast_topic_can_be_followed_and_what_is_left_out_is_said(
    page: Page, console: ConsoleProcess, console_broker: KafscaleProcess, topic: str
) -> None:
    produce(console_broker, topic, {"value": "first"})
    page.goto(f"{console.url}/topics/{topic}")
    expect(page.get_by_role("cell", name="first")).to_be_visible()
    page.get_by_role("button", name="Follow").click()
    expect(page.get_by_text("Waiting for the next record…")).to_be_visible()
    stop = threading.Event()
    flood = threading.Thread(target=_flood, args=(console_broker.bootstrap, topic, stop))
    flood.start()
    try:
        expect(
            page.get_by_text(re.compile("more came faster than they can be read"))
        ).to_be_visible()
        assert_sound(page)
        page.locator(".row-open").last.click()
        expect(page.get_by_role("complementary")).to_contain_text("flood")
        page.get_by_role("button", name="Stop").first.click()
    finally:
        stop.set()
        flood.join()
    expect(page.get_by_role("button", name="Search")).to_be_visible()


def _flood(bootstrap: str, topic: str, stop: threading.Event) -> None:
    """Thousands of records a second, as many as the machine can."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    while not stop.is_set():
        for _ in range(1000):
            try:
                producer.produce(topic, b"flood " * 5)
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.purge()
    producer.flush(10)


def test_offsets_are_reset_by_a_plan_that_is_seen_first(
    page: Page, console: ConsoleProcess, console_broker: KafscaleProcess, topic: str
) -> None:
    produce(console_broker, topic, *({"value": str(number)} for number in range(40)))
    group = f"{topic}/readers"  # a name with a slash
    consumer = Consumer(
        {
            "bootstrap.servers": console_broker.bootstrap,
            "group.id": group,
            "client.id": "reader-7",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    read: list[Message] = []
    while len(read) < 30:
        read += consumer.consume(30 - len(read), 10)
    consumer.commit(asynchronous=False)

    page.goto(f"{console.url}/groups/group?id={topic}%2Freaders")
    expect(page.get_by_role("row", name=re.compile(f"^{topic} 0 30 40 10"))).to_be_visible()
    page.get_by_role("button", name="Reset offsets").click()
    expect(page.get_by_role("dialog")).to_contain_text("1 member is in the group")
    expect(page.get_by_role("dialog")).to_contain_text("reader-7")
    page.get_by_role("button", name="Close").click()
    consumer.close()

    page.reload()
    page.get_by_role("button", name="Reset offsets").click()
    page.get_by_label("Go to").select_option("shift")
    page.get_by_label("Records", exact=True).fill("-10")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("row", name=re.compile(f"^{topic} 0 30 20 -10"))).to_be_visible()
    assert_sound(page)
    another = Consumer({"bootstrap.servers": console_broker.bootstrap, "group.id": group})
    another.commit(offsets=[TopicPartition(topic, 0, 25)], asynchronous=False)
    another.close()
    page.get_by_label(f"Type {group}").fill(group)
    execute = page.get_by_role("dialog").get_by_role("button", name="Reset offsets")
    execute.click()
    expect(page.get_by_role("alert")).to_contain_text("the group has committed since")
    assert_sound(page)
    page.get_by_role("button", name="Back").click()
    page.get_by_label("Go to").select_option("shift")
    page.get_by_label("Records", exact=True).fill("-10")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("row", name=re.compile(f"^{topic} 0 25 15 -10"))).to_be_visible()
    page.get_by_label(f"Type {group}").fill(group)
    execute.click()
    expect(page.get_by_role("row", name=re.compile(f"^{topic} 0 15 40 25"))).to_be_visible()


def test_a_read_only_console_shows_no_values_and_no_buttons_that_change(
    browser: Browser, console_broker: KafscaleProcess, static: Path, tmp_path: Path, topic: str
) -> None:
    produce(console_broker, topic, {"key": "a secret key", "value": "a secret value"})
    closed = {"KAFSCALE_CONSOLE_READ_ONLY": "true", "KAFSCALE_CONSOLE_SHOW_VALUES": "false"}
    console = ConsoleProcess(console_broker, tmp_path, {**CREDENTIALS, **closed})
    page = chromium.visit(browser, color_scheme="dark")
    try:
        log_in(page, console.start(), f"/topics/{topic}")
        expect(page.get_by_role("cell", name="hidden")).to_have_count(2)
        expect(page.get_by_text("This console is read-only")).to_be_visible()
        assert_sound(page)
        page.get_by_role("button", name="0 of partition 0, open").click()
        expect(page.get_by_role("complementary")).to_contain_text("Values are hidden")
        assert "secret" not in page.content()
        for path in (f"/topics/{topic}", "/topics", "/snapshots", f"/topics/{topic}/settings"):
            page.goto(console.url + path)
            expect(page.get_by_text("Loading…")).to_have_count(0)
            changing = re.compile("Produce|Create|Delete|Change|Take|Release|Send again|More for")
            expect(page.get_by_role("button", name=changing)).to_have_count(0)
        visit = Visit(console.port)
        visit.log_in()
        for route in ROUTES:
            if route.effect == "changes":  # by hand, whatever the page shows
                path = route.path.replace("{topic}", topic)
                refused = visit.api(route.method, path, {})[1]["error"]["code"]
                assert refused == "read_only", route.name
        looking = [("POST", f"topics/{topic}/records:search", {"find": "secret"}),
                   ("POST", f"topics/{topic}/records:tail", {"filter": "value.a == 1"}),
                   ("GET", f"topics/{topic}/records?partition=0&offset=0", None)]  # fmt: skip
        for method, path, body in looking:
            assert visit.api(method, path, body)[1]["error"]["code"] == "hidden", path
    finally:
        page.context.close()
        console.kill()


def test_the_console_works_below_a_path_behind_a_proxy(
    browser: Browser, console_broker: KafscaleProcess, static: Path, tmp_path: Path, topic: str
) -> None:
    produce(console_broker, topic, {"value": "below a path"})
    settings = {"KAFSCALE_CONSOLE_BASE_PATH": "/kafscale/"}
    console = ConsoleProcess(console_broker, tmp_path, {**CREDENTIALS, **settings})
    page = chromium.visit(browser)
    try:
        with path_proxy.below("/kafscale/", console.start().port) as url:
            page.goto(f"{url}topics")
            page.get_by_label("Username").fill(USERNAME)
            page.get_by_label("Password").fill(PASSWORD)
            page.keyboard.press("Enter")
            page.get_by_role("link", name=topic).click()
            expect(page.get_by_role("cell", name="below a path")).to_be_visible()
            assert page.url == f"{url}topics/{topic}"
            page.reload()
            expect(page.get_by_role("cell", name="below a path")).to_be_visible()
            page.get_by_role("link", name="Fleet").click()
            assert page.url == f"{url}fleet"
            page.context.close()
    finally:
        console.kill()
