"""The web console's server with a real broker: what a page does, without the page."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from confluent_kafka import Consumer, Producer, TopicPartition
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from kafscale.console import openapi
from kafscale.console.routes import ROUTES
from tests.support.broker import KafscaleProcess
from tests.support.console import PASSWORD, ConsoleProcess
from tests.support.console_api import Visit
from tests.support.ports import free_port

BIG = 73314510714175488


@pytest.fixture(scope="module")
def broker() -> Iterator[KafscaleProcess]:
    with KafscaleProcess() as started:
        yield started


@pytest.fixture(scope="module")
def console(
    broker: KafscaleProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    folder = tmp_path_factory.mktemp("console")
    process = ConsoleProcess(broker, folder)
    try:
        yield process.start()
    finally:
        process.kill()


@pytest.fixture
def visit(console: ConsoleProcess) -> Visit:
    found = Visit(console.port)
    assert found.log_in() == 204
    return found


def wait_for(look: Any, seconds: float = 60.0) -> Any:
    """What `look` gives once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.5)
    return found


def search(visit: Visit, topic: str, **body: Any) -> tuple[list[Any], Any]:
    records: list[Any] = []
    end = None
    for name, event in visit.events(f"topics/{topic}/records:search", body):
        assert name != "error", event
        if name == "records":
            records += event["records"]
        elif name == "end":
            end = event
    assert end is not None
    return records, end


def test_a_topic_is_created_filled_searched_and_deleted(
    broker: KafscaleProcess, visit: Visit
) -> None:
    assert visit.api("POST", "topics", {"name": "orders", "partitions": 2, "check_only": True}) == (
        201,
        {"name": "orders", "created": False},
    )
    assert visit.api("POST", "topics", {"name": "orders", "partitions": 2})[0] == 201
    assert visit.api("POST", "topics", {"name": "orders"})[1]["error"]["code"] == "exists"
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{broker.port}"})
    for number in range(500):
        producer.produce("orders", json.dumps({"n": number}).encode(), str(number).encode())
    producer.flush(30)
    sent = [
        {"key": "k", "value": json.dumps({"id": BIG}), "headers": [
            {"key": "trace", "value": "t1", "encoding": "text"}]},
        {"key": "gone", "value": None, "partition": 1},
        {"value": "/w==", "value_encoding": "base64"},
        {"value": "<script>alert(1)</script>"},
    ]  # fmt: skip
    status, answer = visit.api("POST", "topics/orders/records", sent)
    assert status == 200
    assert all(row["error"] is None for row in answer["items"])

    found, end = search(visit, "orders", filter=f'value.id == {BIG} && headers.trace == "t1"')
    assert [row["value"]["text"] for row in found] == [json.dumps({"id": BIG})]
    assert (end["reason"], end["progress"]["looked_at"]) == ("end", 504)
    assert end["progress"]["not_evaluated"] > 0
    found, _ = search(visit, "orders", find="<script>")
    assert found[0]["value"]["text"] == "<script>alert(1)</script>"
    seen: list[Any] = []
    after: str | None = None
    while True:
        found, end = search(visit, "orders", limit=200, after=after)
        seen += [(row["partition"], row["offset"]) for row in found]
        after = end["after"]
        if after is None:
            break
    assert len(seen) == len(set(seen)) == 504
    price = visit.api("POST", "topics/orders/records:price", {})[1]
    assert price["records"] == 504
    assert price["objects"] > 0
    assert price["bytes"] > 0

    place = answer["items"][0]
    path = f"topics/orders/records?partition={place['partition']}&offset={place['offset']}"
    assert json.loads(visit.request("GET", f"/api/v1/{path}")[1]) == {"id": BIG}

    rows = visit.get("topics?find=ord")["items"]
    assert [(row["name"], row["partitions"], row["layout"]) for row in rows] == [
        ("orders", 2, "ordinary")
    ]
    visit.api("POST", "topics", {"name": "empty", "partitions": 3})
    empty = visit.get("topics/empty")
    assert (empty["records"], empty["bytes"]) == (0, 0)
    listed = visit.get("topics/orders/objects")
    view = visit.get(f"objects?key={listed['items'][0]['key']}")
    assert view["kind"] == "segment"
    assert all(row["crc_ok"] for row in view["batches"])
    assert visit.api("GET", "objects?key=default/../../x")[0] == 404

    assert visit.api("DELETE", "topics/orders", {"confirm": "order"})[0] == 400
    assert visit.api("DELETE", "topics/orders", {"confirm": "orders"})[0] == 204
    assert visit.api("GET", "topics/orders")[1]["error"]["code"] == "unknown_topic"


def test_offsets_are_reset_by_a_plan_and_not_while_a_member_is_there(
    broker: KafscaleProcess, visit: Visit
) -> None:
    visit.api("POST", "topics", {"name": "events", "partitions": 1})
    rows = [{"value": str(number)} for number in range(10)]
    assert visit.api("POST", "topics/events/records", rows)[0] == 200
    group = "bill/ing"
    path = "group/offsets:plan?id=bill%2Fing"
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{broker.port}",
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["events"])
    wait_for(lambda: consumer.poll(1))
    consumer.commit(offsets=[TopicPartition("events", 0, 7)], asynchronous=False)
    plan = visit.api("POST", path, {"to": "earliest"})[1]
    assert [(row["committed"], row["new"], row["lag"]) for row in plan["rows"]] == [("7", "0", 10)]
    assert len(plan["members"]) == 1
    order = {"plan": plan["plan"], "confirm": group}
    status, refused = visit.api("POST", "group/offsets?id=bill%2Fing", order)
    assert (status, refused["error"]["code"]) == (409, "not_empty")
    assert "127.0.0.1" in refused["error"]["message"]
    consumer.close()

    page = wait_for(lambda: (one := visit.get("group?id=bill%2Fing"))["state"] == "Empty" and one)
    assert page["lag"] == 3
    late = visit.api("POST", path, {"to": "shift", "value": "-2"})[1]
    assert visit.api("POST", "group/offsets?id=bill%2Fing", order)[0] == 204
    assert visit.get("group?id=bill%2Fing")["partitions"][0]["committed"] == "0"
    order = {"plan": late["plan"], "confirm": group}
    assert visit.api("POST", "group/offsets?id=bill%2Fing", order)[0] == 409
    listed = wait_for(lambda: [r for r in visit.get("groups")["items"] if r["lag"] == 10])
    assert listed[0]["id"] == group
    assert visit.api("DELETE", "group?id=bill%2Fing", {"confirm": group})[0] == 204
    assert visit.api("GET", "group?id=bill%2Fing")[0] == 404


def test_numbers_come_from_the_broker(broker: KafscaleProcess, visit: Visit) -> None:
    def looked() -> Any:
        found = visit.get("overview")
        return found if found["rates"]["puts_per_s"] is not None else None

    overview = wait_for(looked)
    assert (overview["store"], overview["brokers"], overview["brokers_ready"]) == ("healthy", 1, 1)
    fleet = visit.get("fleet")
    assert fleet["brokers"][0]["address"] == f"127.0.0.1:{broker.port}"
    assert fleet["brokers"][0]["version"]
    number = fleet["brokers"][0]["id"]
    names = {row["name"] for row in visit.get(f"brokers/{number}")["configs"]}
    assert "kafscale.features" in names
    assert visit.get("store")["namespace"] == "default"
    assert visit.get("cost")["total"]["month"] >= 0
    series = visit.get("series?names=store_state&span=15m")
    assert any(value == 0 for value in series["lines"][0]["v"])
    what = visit.api("POST", "cost:what-if", {"flush_interval_ms": 5000})[1]
    assert what["what_if_month"] <= what["month"]


def test_a_snapshot_is_taken_listed_and_released(visit: Visit) -> None:
    visit.api("POST", "topics", {"name": "kept", "partitions": 1})
    visit.api("POST", "topics/kept/records", [{"value": "x"}])
    assert visit.api("POST", "snapshots", {"name": "one", "topics": ["kept"]})[0] == 201
    rows = visit.get("snapshots")["items"]
    assert [(row["name"], row["topics"], row["records"]) for row in rows] == [("one", ["kept"], 1)]
    assert visit.api("POST", "snapshots", {"name": "one", "topics": ["kept"]})[0] == 409
    assert visit.api("DELETE", "snapshots?name=one", {"confirm": "one"})[0] == 204
    assert visit.get("snapshots")["items"] == []


def test_no_answer_and_no_log_line_shows_a_secret(console: ConsoleProcess, visit: Visit) -> None:
    topic = {"topic": "kept", "broker": "0", "run": "x"}
    queries = {"get_group": "?id=x", "get_series": "?names=store_state", "get_object": "?key=x/y"}
    queries["get_record"] = "?partition=0&offset=0"
    for route in ROUTES:
        if route.method != "GET":
            continue
        path = route.path.format(**topic) + queries.get(route.name, "")
        status, raw = visit.request("GET", f"/api/v1/{path}")
        assert status in (200, 404, 422), (path, raw)
        assert PASSWORD.encode() not in raw
    visit.log_in("wrong")
    assert PASSWORD not in console.output.read_text()
    environment = Path(f"/proc/{console.pid}/cmdline").read_bytes()
    assert PASSWORD.encode() not in environment


STREAMS = {route.name for route in ROUTES if route.events}


def test_every_answer_has_the_documented_status_and_shape(
    console: ConsoleProcess, visit: Visit
) -> None:
    document = openapi.document("test")
    schema = schemathesis.openapi.from_dict(document)
    left_out = STREAMS | {"log_in", "log_out", "get_record"}
    checked = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        name = operation.definition.raw["operationId"]
        if name in left_out:
            continue
        checked += 1

        @settings(
            max_examples=3,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def check(case: Any) -> None:
            response = case.call(
                base_url=f"http://127.0.0.1:{console.port}", headers=visit.headers(), timeout=60
            )
            case.validate_response(
                response,
                checks=[
                    not_a_server_error,
                    status_code_conformance,
                    content_type_conformance,
                    response_schema_conformance,
                ],
            )

        check()
    assert checked == len(ROUTES) - len(left_out)


def test_a_broker_starts_a_console_and_takes_it_along() -> None:
    port = free_port()
    settings_of_console = {
        "KAFSCALE_CONSOLE_ENABLED": "true",
        "KAFSCALE_CONSOLE_PORT": str(port),
    }
    broker = KafscaleProcess(env=settings_of_console)
    with broker:
        wait_for(lambda: Visit(port).request("GET", "/health")[0] == 200)
        assert f"http://127.0.0.1:{port} (disabled: set KAFSCALE_UI_USERNAME" in broker.tail(200)
        said = Visit(port).get("session")
        assert (said["enabled"], said["requires"]) == (
            False,
            ["KAFSCALE_UI_USERNAME", "KAFSCALE_UI_PASSWORD"],
        )
        assert Visit(port).log_in() == 403
    wait_for(lambda: Visit(port).request("GET", "/health")[0] == 0)


def test_a_taken_port_is_one_line(console: ConsoleProcess) -> None:
    command = [sys.executable, "-m", "kafscale.cli.main", "console", "--port", str(console.port)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"kafscale: console: port {console.port}")
