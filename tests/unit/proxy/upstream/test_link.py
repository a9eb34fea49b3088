"""Connections to the cluster behind: one that falls silent is given up, another broker is asked."""

from typing import Any

import pytest

from kafscale.proxy.upstream import cluster, link
from kafscale.proxy.upstream.cluster import Upstream, UpstreamRefused
from kafscale.proxy.upstream.fetching import check
from kafscale.proxy.upstream.link import Link, UpstreamAddress, UpstreamLost
from kafscale.testing.clock import SeededDice
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.metadata import MetadataRequest, MetadataResponse

pytestmark = pytest.mark.asyncio


class Silence:
    """A connection whose other end never answers."""

    is_finished = False

    def send(self, buffers: Any) -> None:
        pass

    def finish(self) -> None:
        self.is_finished = True


async def test_a_connection_without_an_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_ANSWER_S", 0)
    silent, connection = Link(), Silence()
    silent._connection = connection  # type: ignore[assignment]
    silent.is_open = True
    with pytest.raises(TimeoutError):
        await silent.ask(MetadataRequest([]), MetadataResponse, 12)
    assert connection.is_finished
    assert not silent.is_open


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, UpstreamLost),
        (ErrorCode.OFFSET_NOT_AVAILABLE, UpstreamLost),
        (ErrorCode.KAFKA_STORAGE_ERROR, UpstreamLost),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, UpstreamRefused),
        (ErrorCode.OFFSET_OUT_OF_RANGE, UpstreamRefused),
    ],
)
async def test_what_a_new_leader_cannot_say_yet_is_asked_again(
    code: int, kind: type[Exception]
) -> None:
    asked: list[str] = []

    class Asked:
        async def refresh(self, name: str) -> None:
            asked.append(name)

    await check(Asked(), "orders", 0, ErrorCode.NONE)  # type: ignore[arg-type]
    with pytest.raises(kind):
        await check(Asked(), "orders", 0, code)  # type: ignore[arg-type]
    assert asked == (["orders"] if kind is UpstreamLost else [])


async def test_a_broker_that_did_not_answer_is_asked_last(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    dead = {1}

    class Dialled:
        async def open(self, address: UpstreamAddress, _dialling: Any) -> "Dialled":
            tried.append(address.port)
            if address.port in dead:
                raise UpstreamLost("on purpose")
            return self

    monkeypatch.setattr(cluster, "Link", Dialled)
    bootstrap = [UpstreamAddress("h", port) for port in (1, 2)]
    upstream = Upstream(bootstrap, link.Dialling(None), SeededDice())  # type: ignore[arg-type]
    await upstream.dial(None)
    await upstream.dial(None)
    assert tried == [1, 2, 2]
    dead.add(2)
    with pytest.raises(UpstreamLost):
        await upstream.dial(None)
    dead.clear()
    tried.clear()
    await upstream.dial(None)
    await upstream.dial(None)
    assert tried == [1, 1]
