"""What only this platform can show: objects, layouts, cost, snapshots; and SQL over topics."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from playwright.sync_api import Browser, Page, expect

from tests.e2e.console.test_journeys import assert_sound, log_in
from tests.e2e.console.test_records import produce
from tests.support import browser as chromium
from tests.support.broker import KafscaleProcess
from tests.support.console import CREDENTIALS, ConsoleProcess
from tests.support.console_api import Visit


@pytest.fixture
def page(browser: Browser, console: ConsoleProcess) -> Iterator[Page]:
    visitor = chromium.visit(browser)
    troubles: list[str] = []
    visitor.on("pageerror", lambda error: troubles.append(str(error)))
    log_in(visitor, console)
    yield visitor
    visitor.context.close()
    assert troubles == []


LAYOUTS = {
    "ordinary": {},
    "virtual": {"physical.partitions": "1"},
    "shared": {"storage.placement": "shared"},
}


def test_objects_of_every_layout_are_shown_down_to_a_batch(
    page: Page, console: ConsoleProcess, console_broker: KafscaleProcess
) -> None:
    admin = AdminClient({"bootstrap.servers": console_broker.bootstrap})
    prefix = f"laid-{uuid4().hex[:8]}"
    topics = [NewTopic(f"{prefix}.{name}", 2, config=config) for name, config in LAYOUTS.items()]
    for made in admin.create_topics(topics).values():
        made.result(60)
    for layout in LAYOUTS:
        produce(console_broker, f"{prefix}.{layout}", {"value": "one", "partition": 1, "key": "k"})
        page.goto(f"{console.url}/topics/{prefix}.{layout}/objects")
        if layout == "ordinary":
            page.get_by_role("combobox", name="log").select_option("1")
        expect(page.get_by_text(layout, exact=True).first).to_be_visible()
        assert_sound(page)
        page.get_by_role("table", name="Objects").get_by_role("link").first.click()
        expect(page.get_by_role("heading", name=re.compile("segment-"))).to_be_visible()
        expect(page.get_by_role("table", name="Batches").get_by_role("row")).not_to_have_count(1)
        assert_sound(page)


def test_a_topic_moves_to_shared_logs_and_arrives(
    page: Page, console: ConsoleProcess, console_broker: KafscaleProcess
) -> None:
    produce(console_broker, "mover", {"value": "carried"})
    page.goto(f"{console.url}/topics/mover/settings")
    page.get_by_role("button", name="Change storage.placement").click()
    page.get_by_label(re.compile("^Value")).fill("shared")
    page.get_by_role("button", name="Save").click()
    on_its_way = page.get_by_text("The topic is on its way to shared")
    arrived = page.get_by_text("shared layout")  # a small topic may be there before the answer
    expect(on_its_way.or_(arrived).first).to_be_visible()
    assert_sound(page)
    page.goto(f"{console.url}/topics/mover")
    expect(arrived).to_be_visible()
    expect(page.get_by_role("cell", name="carried").first).to_be_visible()


def test_cost_and_its_what_if_are_those_of_the_command(
    page: Page, console: ConsoleProcess, console_broker: KafscaleProcess
) -> None:
    produce(console_broker, "priced", {"value": "x"})
    page.goto(f"{console.url}/cost")
    row = page.get_by_role("table", name="Cost by topic").get_by_role("row")
    expect(row.filter(has=page.get_by_role("link", name="priced", exact=True))).to_be_visible()
    visit = Visit(console.port)
    visit.log_in()
    command = [sys.executable, "-m", "kafscale.cli.main", "cost", "--json"]
    command += ["--metrics", f"http://127.0.0.1:{console_broker.metrics_port}/metrics"]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    said = json.loads(printed.stdout)

    # The pace falls while time passes; what was counted in all is the same.
    answer = visit.get("cost")
    (row,) = [one for one in answer["items"] if one["topic"] == "priced"]
    by_page = row["requests"]["put"] * answer["window_s"]
    by_command = said["topics"]["priced"]["requests_per_day"]["put"] * said["window"]["longest_s"]
    assert round(by_page / 86_400) == round(by_command / 86_400) >= 1

    page.get_by_role("slider").press("End")
    expect(page.get_by_text(re.compile("→"))).to_be_visible()
    page.get_by_label("all small topics in shared logs").check()
    assert_sound(page)
    answer = visit.api("POST", "cost:what-if", {"flush_interval_ms": 10_000})[1]
    assert answer["what_if_month"] < answer["month"]


def test_a_snapshot_is_taken_and_searched_after_records_were_deleted(
    page: Page, console: ConsoleProcess, console_broker: KafscaleProcess
) -> None:
    topic = f"risky-{uuid4().hex[:8]}"
    produce(console_broker, topic, {"value": "precious"})
    page.goto(f"{console.url}/snapshots")
    page.get_by_role("button", name="Take snapshot").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill(f"before-{topic}")
    dialog.get_by_label("Topics").select_option(topic)
    assert_sound(page)
    dialog.get_by_role("button", name="Take snapshot").click()
    past = page.get_by_role("link", name=f"{topic} as of before-{topic}")
    expect(past).to_be_visible()

    page.goto(f"{console.url}/topics/{topic}")
    page.get_by_role("button", name="More for this topic").click()
    page.get_by_role("button", name="Delete records").click()
    page.get_by_label(f"Type {topic}").fill(topic)
    page.get_by_role("dialog").get_by_role("button", name="Delete records").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.reload()
    expect(page.get_by_text("No records here")).to_be_visible()

    page.goto(f"{console.url}/snapshots")
    past.click()
    expect(page.get_by_role("cell", name="precious")).to_be_visible()
    expect(page.get_by_role("button", name="Follow")).to_have_count(0)
    assert_sound(page)
    page.get_by_role("button", name=f"As of before-{topic}").click()
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("No records here")).to_be_visible()


@pytest.mark.timeout(900)  # Spark starts twice, for minutes where many other programs run
def test_sql_runs_where_it_is_allowed_and_reads_nothing_but_topics(
    browser: Browser, console_broker: KafscaleProcess, static: Path, tmp_path: Path
) -> None:
    produce(console_broker, "queried", *({"value": f"v{number}"} for number in range(3)))
    settings = {"KAFSCALE_CONSOLE_SQL": "true"}
    console = ConsoleProcess(console_broker, tmp_path, {**CREDENTIALS, **settings})
    page = chromium.visit(browser)
    try:
        log_in(page, console.start(), "/sql")
        query = page.get_by_label("Query")
        query.fill("select offset, upper(value) from topic.queried order by offset")
        assert_sound(page)
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_text("Waiting for Spark")).to_be_visible()
        patience = 5 * chromium.PATIENCE_MS + 30_000  # the console stops a query after five minutes
        ended = page.get_by_role("cell", name="V2").or_(page.get_by_role("alert"))
        expect(ended.first).to_be_visible(timeout=patience)
        expect(page.get_by_role("cell", name="V2")).to_be_visible()
        assert_sound(page)
        query.fill("select * from csv.`/etc/passwd`")
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_role("alert")).to_contain_text("only topics", timeout=patience)
    finally:
        page.context.close()
        console.kill()
