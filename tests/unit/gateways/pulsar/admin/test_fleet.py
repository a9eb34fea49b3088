"""What is asked about a topic whose partitions three brokers have."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from kafscale.gateways.client_log import ClientLog
from kafscale.gateways.http import HttpAnswer, HttpRequest, HttpServer, as_json
from kafscale.gateways.pulsar.admin import fleet as admin_fleet
from kafscale.gateways.pulsar.admin.paths import PulsarAdmin
from kafscale.gateways.pulsar.context import PulsarContext
from kafscale.gateways.pulsar.producer_names import ProducerNames
from kafscale.gateways.tls import Tls, TlsFiles
from kafscale.model.endpoints import Endpoint
from kafscale.model.security.access import ANONYMOUS, AllowAll
from kafscale.model.tenancy import Tenancy
from kafscale.settings.sections import PulsarSection
from kafscale.tasks import Tasks
from kafscale.testing.in_process import FOR_TESTS
from kafscale.wire.pulsar.messages.commands import (
    CloseConsumer,
    CloseProducer,
    Subscribe,
    Success,
)
from tests.support.certificates import Authority
from tests.support.pulsar_wire import RawClient
from tests.unit.engine.fleet_harness import FleetHarness, Member, eventually
from tests.unit.gateways.kafka.caller import make_batch

pytestmark = pytest.mark.real_time

CONFIG = replace(FOR_TESTS, pulsar=PulsarSection(port=0, http_port=0))
PARTITIONS = 9
TOPIC = "/admin/v2/persistent/public/default/t"
SUBSCRIPTION = f"{TOPIC}/subscription/s"


class Fleet:
    """Three brokers, each of which leads a part of a topic."""

    def __init__(self, members: list[Member]) -> None:
        self.members = members

    async def ask(
        self, method: str, path: str, body: object = None, *, at: int = 0
    ) -> tuple[int, Any]:
        port = self.members[at].broker.endpoints["PULSAR-HTTP"].port
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, f"http://127.0.0.1:{port}{path}", json=body) as answer,
        ):
            is_json = answer.content_type == "application/json" and answer.status != 204
            return answer.status, await (answer.json() if is_json else answer.text())

    def leaders(self, member: Member) -> list[int]:
        topic = member.engine.topics.find("t")
        if topic is None:
            return []
        leader_of = member.engine.cluster.leader_of
        return [leader_of(topic.folder(number)) for number in range(PARTITIONS)]

    async def append_to_all(self, count: int) -> None:
        """So many records to every partition, at its leader."""
        for number, leader in enumerate(self.leaders(self.members[0])):
            engine = self.members[leader - 1].engine
            topic = engine.topics.get("t")
            await engine.partitions.open(topic, number)
            batch = memoryview(bytearray(make_batch(*(b"v" for _ in range(count)))))
            stored = engine.partitions.append(topic, number, batch, acknowledged=False)
            assert stored.appended.committed is not None
            assert await stored.appended.committed is None

    async def backlog(self) -> int:
        """Of all partitions, as the last broker says it."""
        status, stats = await self.ask("GET", f"{TOPIC}/partitioned-stats", at=2)
        assert (status, stats["metadata"]) == (200, {"partitions": PARTITIONS})
        assert stats["msgInCounter"] == 2 * PARTITIONS
        found: int = stats["subscriptions"]["s"]["msgBacklog"]
        return found


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    async with FleetHarness(gather_s=0.05) as harness:
        made = Fleet([await harness.start(number, CONFIG) for number in (1, 2, 3)])
        await made.members[0].engine.topics.create("t", PARTITIONS, {})
        await eventually(lambda: all(set(made.leaders(one)) == {1, 2, 3} for one in made.members))
        yield made


async def test_a_subscription_is_changed_on_all_partitions_whichever_broker_is_asked(
    fleet: Fleet,
) -> None:
    await fleet.append_to_all(2)
    assert (await fleet.ask("PUT", SUBSCRIPTION, "earliest", at=0))[0] == 204
    assert await fleet.backlog() == 2 * PARTITIONS
    assert (await fleet.ask("POST", f"{SUBSCRIPTION}/skip_all", at=1))[0] == 204
    assert await fleet.backlog() == 0
    assert (await fleet.ask("POST", f"{SUBSCRIPTION}/resetcursor/1", at=2))[0] == 204
    assert await fleet.backlog() == 2 * PARTITIONS
    for path in ("skip/1", "resetcursor"):  # refused by Pulsar as well
        status, words = await fleet.ask("POST", f"{SUBSCRIPTION}/{path}", "earliest")
        assert (status, "name one of them" in words["reason"]) == (405, True)
    assert (await fleet.ask("DELETE", SUBSCRIPTION, at=1))[0] == 204
    assert await fleet.ask("GET", f"{TOPIC}/subscriptions") == (200, [])


async def test_a_change_that_was_made_in_part_can_be_sent_again(fleet: Fleet) -> None:
    for number in (0, 5):
        part = f"{TOPIC}-partition-{number}/subscription/s"
        assert (await fleet.ask("PUT", part, "latest"))[0] == 204
    assert (await fleet.ask("PUT", SUBSCRIPTION, "latest"))[0] == 204
    status, words = await fleet.ask("PUT", SUBSCRIPTION, "latest")
    assert (status, words["reason"].startswith(f"{PARTITIONS} of {PARTITIONS}")) == (409, True)
    for number in (1, 7):
        assert (await fleet.ask("DELETE", f"{TOPIC}-partition-{number}/subscription/s"))[0] == 204
    assert (await fleet.ask("POST", f"{SUBSCRIPTION}/skip_all"))[0] == 404
    assert (await fleet.ask("DELETE", SUBSCRIPTION))[0] == 204
    assert (await fleet.ask("DELETE", SUBSCRIPTION))[0] == 404


async def test_clients_of_an_unloaded_topic_are_told_to_look_it_up_again(fleet: Fleet) -> None:
    number = fleet.leaders(fleet.members[0]).index(2)
    topic = f"persistent://public/default/t-partition-{number}"
    wish = Subscribe(topic=topic, subscription="s", sub_type=1, consumer_id=1, request_id=2)

    def attach() -> RawClient:
        client = RawClient.to(fleet.members[1].broker.endpoints["PULSAR"].port)
        client.connect()
        client.produce(topic)
        assert isinstance(client.ask(wish), Success)
        return client

    client = await asyncio.to_thread(attach)
    assert (await fleet.ask("PUT", f"{TOPIC}/unload", at=0))[0] == 204
    told = [await asyncio.to_thread(client.hear) for _ in range(2)]
    assert {type(one) for one in told} == {CloseProducer, CloseConsumer}
    await asyncio.to_thread(client.produce, topic, 2)
    assert isinstance(await asyncio.to_thread(client.ask, wish), Success)
    client.sock.close()


async def test_a_broker_that_does_not_answer_is_named(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> HttpAnswer:
        raise ConnectionRefusedError

    monkeypatch.setattr(admin_fleet, "ask", fail)
    monkeypatch.setattr("kafscale.gateways.pulsar.admin.paths._PAUSE_S", 0.0)
    status, words = await fleet.ask("PUT", SUBSCRIPTION, "earliest")
    assert status == 503
    assert "partition" in words["reason"]


async def test_who_is_known_by_a_certificate_is_not_taken_for_the_broker(fleet: Fleet) -> None:
    engine, tasks = fleet.members[0].engine, Tasks()
    context = PulsarContext(
        engine,
        tasks,
        ClientLog(engine.clock),
        AllowAll(),
        Tenancy("public", "default"),
        1 << 20,
        ProducerNames(),
        knows_by_certificate=True,
    )
    parts = tuple(SUBSCRIPTION.strip("/").split("/"))
    request = HttpRequest("PUT", parts, "", b"", "127.0.0.1", certificate={"subject": ()})
    answer = await PulsarAdmin(context, ANONYMOUS).handle(request)
    assert answer.status == 501
    assert await fleet.ask("GET", f"{TOPIC}/subscriptions") == (200, [])
    await tasks.aclose()


async def test_brokers_are_asked_by_tls_with_the_login_of_the_client(tmp_path: Path) -> None:
    asked: list[HttpRequest] = []

    async def answer(request: HttpRequest) -> HttpAnswer:
        asked.append(request)
        return as_json({"done": True})

    authority, other = Authority(tmp_path, "fleet"), Authority(tmp_path, "other")
    issued = authority.issue("broker")
    known = TlsFiles(str(issued.certificate), str(issued.key), str(authority.file), "required")
    tasks = Tasks()
    server = HttpServer(answer, tasks)
    port = await server.open("127.0.0.1", 0, Tls("PULSAR", known))
    request = HttpRequest("PUT", ("a", "b/c"), "x=1", b"body", "10.0.0.1", "Bearer me")
    endpoint = Endpoint("localhost", port)
    told = await admin_fleet.ask(endpoint, request, Tls("P", known).to_peers(shows_own=True))
    assert (told.status, told.body) == (200, b'{"done":true}')
    (seen,) = asked
    assert seen[:4] == request[:4]
    assert seen.authorization == "Bearer me"
    stranger = other.issue("broker")
    foreign = TlsFiles(str(stranger.certificate), str(stranger.key), str(other.file), "required")
    with pytest.raises(ssl.SSLError):
        await admin_fleet.ask(endpoint, request, Tls("P", foreign).to_peers(shows_own=True))
    assert len(asked) == 1
    await server.aclose()
    await tasks.aclose()


@pytest.mark.parametrize(
    ("method", "statuses", "expected"),
    [
        ("PUT", (204, 204), 204),
        ("PUT", (204, 409), 204),
        ("PUT", (409, 409), 409),
        ("PUT", (409, 503), 503),
        ("PUT", (204, 404), 404),
        ("DELETE", (204, 404), 204),
        ("DELETE", (404, 404), 404),
        ("DELETE", (412, 404), 412),
        ("POST", (204, 404), 404),
        ("POST", (409, 204), 409),
    ],
)
def test_one_answer_is_made_of_all(method: str, statuses: tuple[int, ...], expected: int) -> None:
    answers = {
        number: HttpAnswer(204) if status == 204 else as_json({"reason": "why"}, status)
        for number, status in enumerate(statuses)
    }
    answer = admin_fleet.one_answer(method, answers)
    assert answer.status == expected
    assert (b"why" in answer.body) == (expected != HTTPStatus.NO_CONTENT)
