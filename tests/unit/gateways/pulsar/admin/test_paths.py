"""Pulsar's admin API over real HTTP, as curl and pulsar-admin ask it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from kafscale.engine.subscriptions.ports import EARLIEST, SubscriptionName, Wish
from kafscale.gateways.http import MOST_BODY_BYTES, MOST_HEAD_BYTES
from kafscale.gateways.pulsar.context import GROUP_PREFIX
from kafscale.log.catalog.schemas import TopicSchema
from kafscale.model.security.access import ResourceType
from kafscale.settings.sections import PulsarSection
from kafscale.subscriptions.events import Mode
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from tests.support.authorizers import Denies
from tests.unit.engine.subscriptions.consumer import Singles, Taker
from tests.unit.gateways.kafka.caller import NOW_MS, make_batch

pytestmark = pytest.mark.real_time

CONFIG = replace(FOR_TESTS, pulsar=PulsarSection(port=0, http_port=0))
TOPIC = "/admin/v2/persistent/public/default/t"


class Admin:
    """One broker and a client of its admin API."""

    def __init__(self, broker: InProcessBroker) -> None:
        self.broker = broker
        self.port = broker.endpoints["PULSAR-HTTP"].port

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        url = f"http://127.0.0.1:{self.port}{path}"
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, json=body) as answer,
        ):
            is_json = answer.content_type == "application/json" and answer.status != 204
            return answer.status, await (answer.json() if is_json else answer.text())

    async def append(self, count: int, partition: int = 0) -> None:
        engine = self.broker.engine
        topic = engine.topics.get("t")
        await engine.partitions.open(topic, partition)
        batch = memoryview(bytearray(make_batch(*(b"v" for _ in range(count)))))
        stored = engine.partitions.append(topic, partition, batch, acknowledged=False)
        assert stored.appended.committed is not None
        assert await stored.appended.committed is None

    async def backlog(self) -> int:
        _, stats = await self.ask("GET", f"{TOPIC}/stats")
        found: int = stats["subscriptions"]["s"]["msgBacklog"]
        return found


@pytest.fixture
async def admin() -> AsyncIterator[Admin]:
    async with InProcessBroker(config=CONFIG) as broker:
        yield Admin(broker)


async def test_topics_are_created_listed_grown_and_deleted(admin: Admin) -> None:
    assert (await admin.ask("PUT", TOPIC))[0] == 204
    assert (await admin.ask("PUT", TOPIC))[0] == 409
    assert (await admin.ask("PUT", f"{TOPIC}2/partitions", 3))[0] == 204
    full = "persistent://public/default/t"
    parts = [f"{full}2-partition-{number}" for number in range(3)]
    assert await admin.ask("GET", "/admin/v2/persistent/public/default") == (200, [full, *parts])
    assert await admin.ask("GET", "/admin/v2/namespaces/public/default/topics") == (
        200,
        [full, *parts],
    )
    listed = await admin.ask("GET", "/admin/v2/persistent/public/default/partitioned")
    assert listed == (200, [f"{full}2"])
    assert await admin.ask("GET", f"{TOPIC}2/partitions") == (200, {"partitions": 3})
    assert await admin.ask("GET", f"{TOPIC}/partitions") == (200, {"partitions": 0})
    assert (await admin.ask("POST", f"{TOPIC}2/partitions", 5))[0] == 204
    assert await admin.ask("GET", f"{TOPIC}2/partitions") == (200, {"partitions": 5})
    assert (await admin.ask("POST", f"{TOPIC}2/partitions", "many"))[0] == 412
    assert (await admin.ask("DELETE", f"{TOPIC}2-partition-1"))[0] == 412
    assert (await admin.ask("DELETE", f"{TOPIC}2/partitions"))[0] == 204
    status, words = await admin.ask("GET", f"{TOPIC}2/partitions")
    assert status == 404
    assert "no topic" in words["reason"]


async def test_a_topic_is_told_to_store_no_message_twice(admin: Admin) -> None:
    await admin.ask("PUT", TOPIC)
    path, topic = f"{TOPIC}/deduplicationEnabled", admin.broker.engine.topics.get("t")
    assert await admin.ask("GET", path) == (200, None)
    for wish in (True, False):
        assert (await admin.ask("POST", path, wish))[0] == 204
        assert await admin.ask("GET", path) == (200, wish)
        assert topic.settings.deduplication == wish
    assert (await admin.ask("POST", path, "maybe"))[0] == 412
    assert (await admin.ask("DELETE", path))[0] == 204
    assert await admin.ask("GET", path) == (200, None)
    assert (await admin.ask("PUT", path, True))[0] == 501


async def test_tenants_namespaces_brokers_and_health(admin: Admin) -> None:
    assert await admin.ask("GET", "/admin/v2/tenants") == (200, ["public"])
    assert await admin.ask("GET", "/admin/v2/namespaces/public") == (200, ["public/default"])
    assert await admin.ask("GET", "/admin/v2/brokers/health") == (200, "ok")
    status, clusters = await admin.ask("GET", "/admin/v2/clusters")
    assert (status, clusters) == (200, [admin.broker.engine.identity.cluster_id])
    status, brokers = await admin.ask("GET", f"/admin/v2/brokers/{clusters[0]}")
    assert brokers == [f"127.0.0.1:{admin.port}"]


async def test_lookup_names_the_broker(admin: Admin) -> None:
    await admin.ask("PUT", TOPIC)
    path = "/lookup/v2/topic/persistent/public/default/t"
    status, said = await admin.ask("GET", path)
    url = f"pulsar://{admin.broker.endpoints['PULSAR']}"
    assert (status, said) == (
        200,
        {
            "nativeUrl": url,
            "brokerUrl": url,
            "brokerUrlTls": "",  # C++ clients take an answer without it for a broken one
            "httpUrl": f"http://127.0.0.1:{admin.port}",
            "httpUrlTls": "",
        },
    )


async def test_a_client_that_looks_up_by_http_creates_what_it_uses(admin: Admin) -> None:
    assert (await admin.ask("GET", f"{TOPIC}/partitions"))[0] == 404
    assert (await admin.ask("GET", f"{TOPIC}/partitions?checkAllowAutoCreation=false"))[0] == 404
    asked = await admin.ask("GET", f"{TOPIC}/partitions?checkAllowAutoCreation=true")
    assert asked == (200, {"partitions": 0})
    assert (await admin.ask("GET", "/lookup/v2/topic/persistent/public/default/t"))[0] == 200


async def test_schemas_are_read_by_version(admin: Admin) -> None:
    await admin.ask("PUT", TOPIC)
    schemas = "/admin/v2/schemas/public/default/t/schema"
    assert (await admin.ask("GET", schemas))[0] == 404
    topics = admin.broker.engine.topics
    for kept in (
        TopicSchema("t", 4, b'{"type":"string"}', {"a": "1"}),
        TopicSchema("t", 1, b"", {}),
        TopicSchema("t", 15, b"\x00\x00", {}),
    ):
        await topics.schemas.add(topics.get("t").descriptor.topic_id, kept)
    avro = {"version": 0, "type": "AVRO", "timestamp": 0, "data": '{"type":"string"}'}
    assert await admin.ask("GET", f"{schemas}/0") == (200, {**avro, "properties": {"a": "1"}})
    assert (await admin.ask("GET", f"{schemas}/1"))[1]["type"] == "STRING"
    assert (await admin.ask("GET", schemas))[0] == 501  # two schemas in one
    assert (await admin.ask("GET", f"{schemas}/3"))[0] == 404
    assert (await admin.ask("GET", f"{schemas}/-1"))[0] == 412
    assert (await admin.ask("GET", f"{schemas}/0/0"))[0] == 501


async def test_subscriptions_are_created_read_skipped_reset_and_deleted(admin: Admin) -> None:
    await admin.ask("PUT", TOPIC)
    await admin.append(5)
    sub = f"{TOPIC}/subscription/s"
    assert (await admin.ask("PUT", sub, "earliest"))[0] == 204
    assert (await admin.ask("PUT", sub, "earliest"))[0] == 409
    assert await admin.ask("GET", f"{TOPIC}/subscriptions") == (200, ["s"])
    assert await admin.backlog() == 5
    assert (await admin.ask("POST", f"{sub}/skip/2"))[0] == 204
    assert await admin.backlog() == 3
    assert (await admin.ask("POST", f"{sub}/skip_all"))[0] == 204
    assert await admin.backlog() == 0
    assert (await admin.ask("POST", f"{sub}/resetcursor/{NOW_MS + 1}"))[0] == 204
    assert await admin.backlog() == 4
    taker = Taker()
    engine = admin.broker.engine
    name = SubscriptionName(f"{GROUP_PREFIX}s", engine.topics.get("t"), 0)
    wish = Wish(name="c", mode=Mode.SHARED, start=EARLIEST)
    attached = await engine.subscriptions.attach(name, wish, Singles(), taker)
    attached.permit(10)
    while len(taker.offsets) < 4:
        await asyncio.sleep(0.01)
    _, stats = await admin.ask("GET", f"{TOPIC}/stats")
    assert stats["subscriptions"]["s"]["type"] == "Shared"
    assert stats["subscriptions"]["s"]["consumers"][0]["unackedMessages"] == 4
    assert (await admin.ask("DELETE", sub))[0] == 412
    assert (await admin.ask("DELETE", f"{sub}?force=true"))[0] == 204
    assert (await admin.ask("DELETE", sub))[0] == 404


def message_id(entry: int, ledger: int = 1, **more: object) -> dict[str, object]:
    """An id as the official client writes it."""
    return {"ledgerId": ledger, "entryId": entry, "partitionIndex": -1, "batchIndex": -1, **more}


@pytest.mark.parametrize(
    ("wanted", "backlog"),
    [
        (message_id(2), 3),
        (message_id(2, isExcluded=True), 2),
        (message_id(1, batchIndex=2), 2),
        (message_id(1, batchIndex=2, isExcluded=True), 1),
        (message_id(-1, -1), 5),
        (message_id(2**63 - 1, 2**63 - 1), 0),
        (message_id(3, 0), 5),  # of a topic of this name that was deleted
        (message_id(3, 2), 0),
        ("earliest", 5),
    ],
    ids=str,
)
async def test_a_subscription_is_reset_to_a_message(
    admin: Admin, wanted: object, backlog: int
) -> None:
    await admin.ask("PUT", TOPIC)
    await admin.append(5)
    sub = f"{TOPIC}/subscription/s"
    assert (await admin.ask("PUT", sub, message_id(4)))[0] == 204
    assert await admin.backlog() == 1
    assert (await admin.ask("POST", f"{sub}/resetcursor", wanted))[0] == 204
    assert await admin.backlog() == backlog


@pytest.mark.parametrize(
    "wanted",
    [
        *(None, "3", 3, [], {}),
        *({"entryId": 3}, message_id(1.5), message_id(1, batchIndex=True), message_id(2**63)),
    ],
    ids=str,
)
async def test_a_reset_to_no_message_is_refused(admin: Admin, wanted: object) -> None:
    await admin.ask("PUT", TOPIC)
    sub = f"{TOPIC}/subscription/s"
    assert (await admin.ask("PUT", sub, "earliest"))[0] == 204
    status, answer = await admin.ask("POST", f"{sub}/resetcursor", wanted)
    assert (status, answer) == (412, {"reason": "the body is no message id"})


async def test_a_partitioned_topic_has_subscriptions_on_every_partition(admin: Admin) -> None:
    await admin.ask("PUT", f"{TOPIC}/partitions", 2)
    await admin.append(3, partition=1)
    assert (await admin.ask("PUT", f"{TOPIC}/subscription/s", "earliest"))[0] == 204
    _, stats = await admin.ask("GET", f"{TOPIC}/partitioned-stats")
    assert stats["subscriptions"]["s"]["msgBacklog"] == 3
    _, stats = await admin.ask("GET", f"{TOPIC}-partition-1/stats")
    assert stats["subscriptions"]["s"]["msgBacklog"] == 3
    assert (await admin.ask("DELETE", f"{TOPIC}/subscription/s"))[0] == 204


async def test_tenants_and_namespaces_are_made_listed_and_removed(admin: Admin) -> None:
    tenant, space = "/admin/v2/tenants/acme", "/admin/v2/namespaces/acme/billing"
    topic = "/admin/v2/persistent/acme/billing/orders"
    steps = [
        ("GET", tenant, 404),
        ("PUT", space, 404),
        ("PUT", tenant, 204),
        ("PUT", tenant, 409),
        ("GET", tenant, 200),
        ("PUT", space, 204),
        ("GET", space, 200),
        ("PUT", topic, 204),
        ("DELETE", space, 409),
        ("DELETE", topic, 204),
        ("DELETE", tenant, 409),
        ("DELETE", space, 204),
        ("GET", space, 404),
        ("DELETE", tenant, 204),
    ]
    told = [(method, path, (await admin.ask(method, path))[0]) for method, path, _ in steps]
    assert told == steps


async def test_what_is_not_there_says_so(admin: Admin) -> None:
    await admin.ask("PUT", TOPIC)
    for method, path in (
        ("PATCH", "/admin/v2/tenants/mine"),
        ("GET", "/admin/v2/namespaces/public/default/retention"),
        ("POST", f"{TOPIC}/subscription/s/expireMessages/3"),
        ("GET", f"{TOPIC}/internalStats"),
        ("GET", "/admin/v3/functions"),
        ("GET", "/"),
    ):
        status, words = await admin.ask(method, path)
        assert (status, "is not part of this broker" in words["reason"]) == (501, True), path


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * MOST_HEAD_BYTES, 431),
        (b"PUT / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (MOST_BODY_BYTES + 1), 413),
        (b"PUT / HTTP/1.1\r\nContent-Length: " + b"9" * 400 + b"\r\n\r\n", 413),
        (b"PUT / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"POST %s/subscription/s/skip/1e9 HTTP/1.1\r\n\r\n" % TOPIC.encode(), 404),
        (b"GET /admin/v2/persistent/a%2Fb/c/d/stats HTTP/1.1\r\n\r\n", 412),
    ],
)
async def test_bad_requests_are_refused(admin: Admin, request_bytes: bytes, status: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", admin.port)
    writer.write(request_bytes)
    async with asyncio.timeout(20):
        line = await reader.readline()
    assert line.split()[1] == str(status).encode()
    writer.close()


async def test_a_client_that_may_do_nothing_sees_and_changes_nothing() -> None:
    async with InProcessBroker(config=CONFIG, authorizer=Denies()) as broker:
        admin = Admin(broker)
        await broker.engine.topics.create("t", 1, {})
        for method, path in (
            ("PUT", f"{TOPIC}2"),
            ("DELETE", TOPIC),
            ("GET", f"{TOPIC}/stats"),
            ("GET", f"{TOPIC}/partitions"),
            ("POST", f"{TOPIC}/subscription/s/skip_all"),
            ("GET", "/lookup/v2/topic/persistent/public/default/t"),
        ):
            assert (await admin.ask(method, path))[0] == 403, path
        assert await admin.ask("GET", "/admin/v2/persistent/public/default") == (200, [])


async def test_a_subscription_is_changed_by_those_who_may_use_its_group() -> None:
    authorizer = Denies(lambda kind, name: kind is ResourceType.GROUP and name == "pulsar:s")
    async with InProcessBroker(config=CONFIG, authorizer=authorizer) as broker:
        admin = Admin(broker)
        await broker.engine.topics.create("t", 1, {})
        assert (await admin.ask("PUT", f"{TOPIC}/subscription/other", "earliest"))[0] == 204
        for method, path in (
            ("PUT", f"{TOPIC}/subscription/s"),
            ("DELETE", f"{TOPIC}/subscription/s"),
            ("POST", f"{TOPIC}/subscription/s/skip_all"),
            ("POST", f"{TOPIC}/subscription/s/resetcursor/0"),
        ):
            assert (await admin.ask(method, path))[0] == 403, path
        assert (await admin.ask("GET", f"{TOPIC}/subscriptions"))[1] == ["other"]
