"""`python -m tests.e2e.console.pictures`: takes the pictures of the documents anew.

A broker with some topics, a producer that writes for a while and a group that falls behind; then
the console, in a real browser. `--all FOLDER` takes every page, in both themes, for a desk and for
a phone, to be looked at before a release.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from random import Random

import pulsar
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.e2e.console.test_journeys import log_in
from tests.support import browser as chromium
from tests.support import pulsar_client, ui
from tests.support.broker import KafscaleProcess
from tests.support.console import CREDENTIALS, ConsoleProcess
from tests.support.console_api import Visit
from tests.support.maven import ROOT

IMAGES = ROOT / "docs/images"
TOPICS = {"orders": 6, "payments": 3, "clicks.v2": 12, "invoices": 1, "audit-trail": 1}
LOAD_S = 60
DESK: ViewportSize = {"width": 1280, "height": 800}
SMALL: ViewportSize = {"width": 860, "height": 540}
PHONE: ViewportSize = {"width": 390, "height": 844}
PAGES = {
    "overview": "/?span=15m",
    "topics": "/topics",
    "messages": "/topics/orders?filter=value.amount+%3E+100",
    "partitions": "/topics/orders/partitions",
    "objects": "/topics/orders/objects",
    "groups-of-topic": "/topics/orders/groups",
    "settings": "/topics/orders/settings",
    "cost-of-topic": "/topics/orders/cost",
    "groups": "/groups",
    "group": "/groups/group?id=billing&span=15m",
    "members": "/groups/group/members?id=billing",
    "fleet": "/fleet",
    "broker": "/fleet/0",
    "storage": "/storage",
    "transactions": "/transactions",
    "sql": "/sql",
    "missing": "/topics/no-such-topic",
    "cost": "/cost",
    "snapshots": "/snapshots",
    "pipeline": "/pipeline",
    "subscriptions": "/subscriptions",
    "access": "/access",
    "activity": "/activity",
}


def write_some(broker: KafscaleProcess) -> None:
    """Write for a while; `billing` reads a little of it and commits."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for made in admin.create_topics([NewTopic(*topic) for topic in TOPICS.items()]).values():
        made.result(60)
    reader = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "billing",
            "client.id": "billing-1",
            "auto.offset.reset": "earliest",
        }
    )
    reader.subscribe(["orders"])
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 50})
    chance = Random(7)
    until = time.monotonic() + LOAD_S
    number = 73_314_510_714_175_000
    while time.monotonic() < until:
        for topic in TOPICS:
            for _ in range(chance.randrange(1, 30)):
                number += 1
                customer = f"c-{chance.randrange(90)}"
                order = {
                    "id": number,
                    "amount": chance.randrange(5, 500) / 2,
                    "customer": customer,
                    "lines": [{"sku": f"A-{chance.randrange(99)}", "count": 2}],
                }
                headers: list[tuple[str, str | bytes | None]] = [
                    ("trace", f"{chance.randrange(1 << 24):06x}")
                ]
                producer.produce(topic, json.dumps(order), customer, headers=headers)
        producer.flush(60)
        for record in reader.consume(5, 0.3):
            reader.commit(message=record, asynchronous=False)
    reader.close()


def use_more(broker: KafscaleProcess, console: ConsoleProcess) -> Producer:
    """Something for the pages that are empty otherwise; gives a producer inside a transaction."""
    visit = Visit(console.port)
    visit.log_in()
    shared = {"storage.placement": "shared"}
    visit.api("POST", "topics", {"name": "small-things", "partitions": 4, "configs": shared})
    visit.api("POST", "topics/small-things/records", [{"key": "a", "value": "little"}] * 20)
    visit.api("POST", "snapshots", {"name": "before-the-move", "topics": ["orders", "invoices"]})
    visit.api("POST", "topics/none/records", [{"value": "refused"}])
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "payments-1"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("payments", b"not yet")
    producer.flush(60)
    reader = pulsar_client.connect(broker).subscribe(
        "orders", "mailing", initial_position=pulsar.InitialPosition.Earliest
    )
    pulsar_client.receive_all(reader, 5)
    return producer


def settled(page: Page, console: ConsoleProcess, path: str) -> None:
    """Go there and wait until the numbers are."""
    page.goto(console.url + path)
    expect(page.get_by_role("heading", level=1)).to_be_attached()
    expect(page.get_by_text("Loading…")).to_have_count(0)
    expect(page.get_by_text("Reading…")).to_have_count(0)
    page.wait_for_timeout(500)  # charts draw themselves


def for_documents(browser: Browser, console: ConsoleProcess) -> None:
    IMAGES.mkdir(exist_ok=True)
    page = chromium.visit(browser, viewport=SMALL)  # its scene takes many bytes
    page.goto(console.url)
    page.get_by_label("Username").wait_for()
    page.screenshot(path=IMAGES / "console-login.png")
    page.set_viewport_size(DESK)
    log_in(page, console)
    for name in ("overview", "messages", "group", "cost"):
        settled(page, console, PAGES[name])
        if name == "messages":
            page.locator(".row-open").first.click()
            page.wait_for_timeout(300)
        page.screenshot(path=IMAGES / f"console-{name}.png")


def every_page(browser: Browser, console: ConsoleProcess, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for theme in ("light", "dark"):
        for size, viewport in (("desk", DESK), ("phone", PHONE)):
            page = chromium.visit(browser, viewport=viewport, color_scheme=theme)
            log_in(page, console)
            for name, path in PAGES.items():
                settled(page, console, path)
                page.screenshot(path=folder / f"{name}-{theme}-{size}.png", full_page=True)
            page.context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, metavar="FOLDER")
    chosen = parser.parse_args()
    ui.built()
    without = {"KAFSCALE_CONSOLE_ENABLED": "false"}
    with tempfile.TemporaryDirectory() as folder, KafscaleProcess(env=without) as broker:
        settings = {"KAFSCALE_CONSOLE_SQL": "true"} if chosen.all is not None else {}
        console = ConsoleProcess(broker, Path(folder), {**CREDENTIALS, **settings})
        try:
            console.start()
            write_some(broker)
            with chromium.started() as browser:
                if chosen.all is not None:
                    writing = use_more(broker, console)
                    every_page(browser, console, chosen.all)
                    writing.abort_transaction(60)
                else:
                    for_documents(browser, console)
        finally:
            console.kill()


if __name__ == "__main__":
    main()
