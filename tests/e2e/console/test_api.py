"""What the pages ask beyond topics and groups: the past, transactions, quotas, schemas, logins."""

import io
import json
import time
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kafscale.admin.brokers.wire_requests import ask_broker
from kafscale.wire.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from tests.e2e.console.conftest import AVRO, SCHEMA_NUMBER
from tests.e2e.test_console import search, wait_for
from tests.support.broker import KafscaleProcess
from tests.support.console import CREDENTIALS, ConsoleProcess
from tests.support.console_api import Visit
from tests.support.secured import (
    ADMIN,
    ADMIN_PASSWORD,
    PLAIN_PASSWORD,
    PLAIN_USER,
    SecuredProcess,
    with_password,
)


@pytest.fixture
def visit(console: ConsoleProcess) -> Visit:
    found = Visit(console.port)
    assert found.log_in() == 204
    return found


def test_a_search_as_of_a_snapshot_finds_what_was_deleted_since(
    visit: Visit, console_broker: KafscaleProcess
) -> None:
    visit.api("POST", "topics", {"name": "past", "partitions": 2})
    rows = [{"key": f"k{number}", "value": f"v{number}", "partition": number % 2,
             "headers": [{"key": "h", "value": "x", "encoding": "text"}]}
            for number in range(20)]  # fmt: skip
    assert visit.api("POST", "topics/past/records", rows)[0] == 200
    before_ms = int(time.time() * 1000)
    assert visit.api("POST", "topics/past/records", [{"value": "late", "partition": 0}])[0] == 200
    assert visit.api("POST", "snapshots", {"name": "then", "topics": ["past"]})[0] == 201
    status, deleted = visit.api("DELETE", "topics/past/records", {"confirm": "past"})
    assert (status, sum(row["deleted"] for row in deleted["items"])) == (200, 21)
    assert search(visit, "past")[0] == []

    found, end = search(visit, "past", snapshot="then")
    assert len(found) == end["progress"]["looked_at"] == 21
    assert found[0]["value"]["text"] == "late"
    oldest, end = search(visit, "past", snapshot="then", from_kind="oldest", limit=3)
    assert {row["value"]["text"] for row in oldest} <= {f"v{number}" for number in range(20)}
    assert end["reason"] == "limit"
    assert oldest[0]["headers"] == [{"key": "h", "value": "x", "encoding": "text"}]
    more, _ = search(visit, "past", snapshot="then", from_kind="oldest", after=end["after"])
    assert len(more) == 18
    since, _ = search(
        visit, "past", snapshot="then", from_kind="time", from_value=str(before_ms), filter="true"
    )
    assert [row["value"]["text"] for row in since] == ["late"]
    price = visit.api("POST", "topics/past/records:price", {"snapshot": "then"})[1]
    assert (price["records"], price["objects"] > 0) == (21, True)
    whole = "/api/v1/topics/past/records?partition=0&offset=10"
    assert visit.request("GET", whole)[0] == 404
    assert visit.request("GET", f"{whole}&snapshot=then") == (200, b"late")

    for name, code in (("other", "unknown_snapshot"), ("../x", "refused")):
        refused = visit.api("POST", "topics/past/records:search", {"snapshot": name})
        assert refused[1]["error"]["code"] == code
    row = next(one for one in visit.get("snapshots")["items"] if one["name"] == "then")
    assert row["bytes"] > 0
    assert visit.api("DELETE", "snapshots?name=then", {"confirm": "then"})[0] == 204


def test_a_transaction_that_runs_says_since_when_and_where(
    visit: Visit, console_broker: KafscaleProcess
) -> None:
    visit.api("POST", "topics", {"name": "paid", "partitions": 3})
    producer = Producer(
        {"bootstrap.servers": console_broker.bootstrap, "transactional.id": "payments-1"}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    for partition in (0, 2):
        producer.produce("paid", b"x", partition=partition)
    assert producer.flush(60) == 0

    def row() -> Any:
        items = visit.get("transactions")["items"]
        return next(one for one in items if one["transactional_id"] == "payments-1")

    running = wait_for(lambda: (one := row())["partitions"] == 2 and one)
    assert (running["state"], running["topics"]) == ("Ongoing", ["paid"])
    assert running["timeout_ms"] == 60_000
    assert running["started_ms"] > 0
    producer.commit_transaction(60)
    assert wait_for(lambda: (one := row())["started_ms"] is None and one)["partitions"] == 0


def test_quotas_are_told(visit: Visit, console_broker: KafscaleProcess) -> None:
    entity = [EntityData("user", "app"), EntityData("client-id", None)]
    wanted = EntryData(entity, [OpData("producer_byte_rate", 1048576.0)])
    host, _, port = console_broker.bootstrap.partition(":")
    answer = ask_broker(
        (host, int(port)),
        {},
        AlterClientQuotasRequest([wanted]),
        AlterClientQuotasResponse,
        1,
    )
    assert [entry.error_code for entry in answer.entries] == [0]
    assert visit.get("quotas")["items"] == [
        {
            "entity": {"user": "app", "client-id": None},
            "values": {"producer_byte_rate": 1048576.0},
        }
    ]


def test_a_framed_value_is_shown_and_filtered_by_the_registrys_schema(
    visit: Visit, console_broker: KafscaleProcess
) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO, {"id": 2**63 - 1, "city": "Graz"})
    producer = Producer({"bootstrap.servers": console_broker.bootstrap})
    for number in (SCHEMA_NUMBER, SCHEMA_NUMBER + 1):  # the registry does not have the second
        producer.produce("avro", b"\0" + number.to_bytes(4, "big") + out.getvalue())
    assert producer.flush(60) == 0
    found, _ = search(visit, "avro", filter='value.city == "Graz"')
    assert [(row["value"]["decoder"], row["value"]["text"]) for row in found] == [
        ("avro", '{"id":9223372036854775807,"city":"Graz"}')
    ]
    found, _ = search(visit, "avro", value_as="avro")
    assert "404" in found[0]["value"]["note"]


def test_jobs_are_started_and_refused(visit: Visit) -> None:
    visit.api("POST", "topics", {"name": "audited", "partitions": 1})
    visit.api("POST", "topics/audited/records", [{"value": "x"}])
    status, answer = visit.api("POST", "jobs", {"job": "audit", "topics": ["nope"]})
    assert (status, answer["error"]["code"]) == (404, "unknown_topic")
    assert visit.api("POST", "jobs", {"job": "convert"})[0] == 400
    assert visit.api("POST", "jobs", {"job": "audit", "topics": ["audited"]})[0] == 201
    assert visit.api("POST", "jobs", {"job": "audit"})[1]["error"]["code"] == "slow_down"

    def ended() -> Any:
        runs = visit.get("jobs?job=audit")["items"]
        return runs[0] if runs and runs[0]["ended_ms"] else None

    run = wait_for(ended, 240)
    assert (run["state"], run["facts"]["errors"], run["facts"]["topics"]) == ("done", 0, 1)
    assert visit.get("pipeline/tables")["items"] == []


def test_the_console_logs_in_to_brokers_that_ask_for_it(tmp_path: Path) -> None:
    with SecuredProcess(tmp_path / "broker") as broker:
        for name, mechanism, user, password in (
            ("scram", "SCRAM-SHA-256", ADMIN, ADMIN_PASSWORD),
            ("plain", "PLAIN", PLAIN_USER, PLAIN_PASSWORD),
        ):
            settings = with_password(broker, mechanism, user, password)
            file = tmp_path / f"{name}.properties"
            file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            env = {
                "KAFSCALE_CONSOLE_BOOTSTRAP": broker.at("SASL_SSL"),
                "KAFSCALE_PROPERTIES": str(file),
            }
            console = ConsoleProcess(broker, tmp_path / name, {**CREDENTIALS, **env})
            try:
                visit = Visit(console.start().port)
                assert visit.log_in() == 204
                _use_secured(visit, settings, broker, f"of-{name}")
                assert password not in console.output.read_text()
            finally:
                console.kill()


def _use_secured(visit: Visit, settings: Any, broker: SecuredProcess, topic: str) -> None:
    wait_for(lambda: visit.get("overview")["brokers_ready"] == 1)
    assert {"acls", "users"} <= set(visit.get("session")["features"])
    (admin,) = visit.get("users")["items"]
    assert admin == {"name": "admin", "mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512"]}
    assert visit.get("acls")["items"] == []
    assert visit.get("quotas")["items"] == []
    assert visit.get("transactions")["items"] == []
    assert visit.api("POST", "topics", {"name": topic, "partitions": 1})[0] == 201
    assert visit.api("POST", f"topics/{topic}/records", [{"value": "x"}])[0] == 200
    assert [row["value"]["text"] for row in search(visit, topic)[0]] == ["x"]
    reader = Consumer(settings | {"bootstrap.servers": broker.at("SASL_SSL"), "group.id": topic})
    reader.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    reader.close()
    forget = f"group/offsets?id={topic}&topic={topic}"
    assert visit.api("DELETE", forget, {"confirm": topic})[0] == 204
    admin = AdminClient(settings | {"bootstrap.servers": broker.at("SASL_SSL")})
    assert json.dumps(list(admin.list_topics(timeout=30).topics)).count(topic) == 1
