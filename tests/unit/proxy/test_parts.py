"""Smaller parts of the proxy: memory of the newest batches, logins, who serves what."""

import pytest

from kafscale.access.scram import SCRAM_MECHANISMS
from kafscale.engine.access.authentication import Exchange
from kafscale.model.endpoints import Endpoint
from kafscale.model.errors import AuthenticationFailed
from kafscale.model.security.secret import Secret
from kafscale.proxy.access.logins import FileUsers
from kafscale.proxy.apis.table import AT_OWN_ADDRESS, EVERYWHERE
from kafscale.proxy.connections.session import _acks
from kafscale.proxy.coordination.members import Members, Peer
from kafscale.proxy.coordination.topics import MappedTopic
from kafscale.proxy.partitions.tail import NewestBatches
from kafscale.proxy.upstream.login import Secrets, log_in, read_first
from kafscale.testing.clock import ManualClock, SeededDice
from kafscale.wire.kafka import frame
from kafscale.wire.kafka.catalog import BY_KEY
from kafscale.wire.kafka.frame import MalformedMessage
from kafscale.wire.kafka.messages.produce import ProduceRequest
from kafscale.wire.kafka.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kafscale.wire.kafka.messages.sasl_handshake import SaslHandshakeResponse


def test_the_newest_batches_are_read_from_memory_and_the_oldest_go_first() -> None:
    tail, partition = NewestBatches(100), object()
    for at in range(5):
        tail.put(partition, 1, at * 10, 10, bytes([at]) * 30)
    assert tail.held_bytes == 90
    assert tail.read(partition, 1, 19, 1000) is None
    assert tail.read(partition, 1, 25, 1) == [bytes([2]) * 30]
    assert tail.read(partition, 1, 25, 60) == [bytes([2]) * 30, bytes([3]) * 30]
    assert tail.read(partition, 1, 50, 60) is None
    tail.forget(partition)
    assert tail.held_bytes == 0
    assert tail.read(partition, 1, 25, 1) is None


def test_a_gap_in_memory_drops_what_came_before() -> None:
    tail = NewestBatches(1000)
    tail.put("p", 0, 0, 5, b"a")
    tail.put("p", 0, 9, 1, b"b")
    assert tail.read("p", 0, 0, 10) is None
    assert tail.read("p", 0, 9, 10) == [b"b"]


class Conversation:
    """A connection to an upstream whose logins are ours."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def ask(self, request, kind, version=None):  # type: ignore[no-untyped-def]
        if kind is SaslHandshakeResponse:
            return SaslHandshakeResponse()
        assert isinstance(request, SaslAuthenticateRequest)
        try:
            said = await self._exchange.step(request.auth_bytes)
        except AuthenticationFailed as problem:
            return SaslAuthenticateResponse(58, str(problem))
        return SaslAuthenticateResponse(auth_bytes=said.message)


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM_MECHANISMS])
async def test_the_proxy_logs_in_by_every_mechanism(mechanism: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "users"
    file.write_text("al,ice=won=derland\n")
    users = FileUsers(str(file), ["PLAIN", *SCRAM_MECHANISMS], SeededDice())
    secrets = Secrets(mechanism, "al,ice", Secret("won=derland"), "abc")
    await log_in(Conversation(users.begin(mechanism)), secrets)
    for wrong in (secrets._replace(password=Secret("no")), secrets._replace(user="bob")):
        with pytest.raises(AuthenticationFailed):
            await log_in(Conversation(users.begin(mechanism)), wrong)


@pytest.mark.parametrize(
    "said",
    ["", "r=abc,s=AA==,i=4096", "r=xyz1,s=AA==,i=4096", "r=abc1,s=?,i=1", "r=abc1,s=AA==,i=0"],
)
def test_an_upstream_that_talks_nonsense_is_not_logged_in_to(said: str) -> None:
    with pytest.raises(AuthenticationFailed):
        read_first(said, "abc")


class FakeLedger:
    """Rows that no proxy has written."""

    def watch(self, prefix: bytes, told: object) -> None:
        pass


def test_partitions_are_shared_and_only_those_of_a_lost_proxy_move() -> None:
    clock = ManualClock()
    members = Members(0, FakeLedger(), clock)  # type: ignore[arg-type]
    members._own = Peer(members.own_node, "a", 1)
    for number in (1, 2):
        row = b'{"host":"h","port":%d,"beat":1}' % number
        members._hear(b"proxy\0%d" % (members.own_node + number), row)
    before = [members.owner(b"t", index) for index in range(300)]
    shares = [sum(one is not None and one.port == port for one in before) for port in (1, 2)]
    assert all(share > 60 for share in shares)
    clock.advance_ms(1500)
    members._hear(b"proxy\0%d" % (members.own_node + 1), b'{"host":"h","port":1,"beat":2}')
    clock.advance_ms(1500)
    after = [members.owner(b"t", index) for index in range(300)]
    gone = members.own_node + 2
    for old, new in zip(before, after, strict=True):
        assert old is not None
        assert new is not None
        assert new.node != gone
        assert old.node == gone or old.node == new.node


def test_places_follow_the_seeds_formula() -> None:
    topic = MappedTopic("orders", b"", 100, 10)
    table = {0: (0, 0), 1: (1, 0), 5: (5, 0), 9: (9, 0), 10: (0, 1), 11: (1, 1), 50: (0, 5)}
    assert {v: tuple(topic.place(v)) for v in table} == table
    assert tuple(topic.place(99)) == (9, 9)
    assert topic.lanes == 10
    assert MappedTopic("odd", b"", 7, 3).lanes == 3
    assert not topic.has(100)
    assert not topic.has(-1)


@pytest.mark.parametrize("version", ProduceRequest.versions)
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_acks_are_read_off_any_produce_request(version: int, acks: int) -> None:
    sent = b"".join(frame.request_frame(1, ProduceRequest("t", acks, 1), version, "client"))
    assert _acks(memoryview(sent)[4:], version) == acks
    with pytest.raises(MalformedMessage):
        _acks(memoryview(sent)[4:16], version)


def test_every_request_that_is_read_is_known_to_the_codec() -> None:
    assert AT_OWN_ADDRESS.keys() <= BY_KEY.keys()
    assert EVERYWHERE.keys() < AT_OWN_ADDRESS.keys()


def test_a_proxy_is_found_by_the_listener_of_the_one_who_asks() -> None:
    named = {"INSIDE": Endpoint("a", 1), "OUTSIDE": Endpoint("b", 2)}
    peer = Peer(1_000_000, "a", 1, named)
    assert peer.endpoint("OUTSIDE") == Endpoint("b", 2)
    assert peer.endpoint("OTHER") is None
    assert peer.endpoint("") == Endpoint("a", 1)  # of a proxy with one listener
    assert Peer(1_000_001, "c", 3).endpoint("OUTSIDE") == Endpoint("c", 3)
