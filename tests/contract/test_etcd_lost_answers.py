"""What etcd did and did not say, what it was told and does long after: both are recognised."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from kafscale.metadata import keys
from kafscale.metadata.etcd.client import EtcdSettings
from kafscale.metadata.etcd.store import EtcdMetadataStore
from kafscale.metadata.store import Compare, Put, Remove
from kafscale.model.errors import MetadataConflict, MetadataUnavailable
from kafscale.system import SystemClock
from tests.support.etcd import EtcdCluster
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.slow

_folders = count()


class Scene:
    """A store behind a bad wire and one behind a good wire, on the same keys."""

    def __init__(self, server: EtcdCluster, proxy: TcpProxy) -> None:
        prefix = f"/lost-{next(_folders)}"
        clock = SystemClock()
        self.proxy = proxy
        self.far = EtcdMetadataStore(
            EtcdSettings((proxy.endpoint,), request_timeout_s=6.0, prefix=prefix), clock
        )
        self.near = EtcdMetadataStore(EtcdSettings(server.endpoints, prefix=prefix), clock)

    async def value(self) -> bytes | None:
        entry = await self.near.get("/a")
        return None if entry is None else entry.value

    async def wait_for(self, value: bytes) -> None:
        while await self.value() != value:
            await asyncio.sleep(0.01)

    async def hold(self, commit: Callable[[], Any]) -> "asyncio.Future[int]":
        """Begin a commit whose request stays on the wire, in the connection's `held`."""
        self.proxy.hold_requests = True
        begun = asyncio.ensure_future(commit())
        while not any(wire.held for wire in self.proxy.wires):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # the rest of it
        return begun

    async def release(self, last: bytes) -> None:
        """Deliver what was held, and give the server time to do it: it must change nothing."""
        for wire in self.proxy.wires:
            wire.release()
        for _ in range(20):
            await asyncio.sleep(0.02)
            assert await self.value() == last


@pytest.fixture
async def scene(etcd_server: EtcdCluster) -> AsyncIterator[Scene]:
    async with _scene(etcd_server) as made:
        yield made


@asynccontextmanager
async def _scene(server: EtcdCluster) -> AsyncIterator[Scene]:
    async with TcpProxy(server.members[0].port) as proxy:
        made = Scene(server, proxy)
        await made.far.commit([Put("/warm", b"")])  # connected, witness and all
        yield made
        await made.far.aclose()
        await made.near.aclose()


async def test_a_commit_whose_answer_was_lost_is_a_success_not_a_conflict(scene: Scene) -> None:
    version = 0
    for number in range(5):
        value = b"%d" % number
        scene.proxy.lose_answers = True
        commit = asyncio.ensure_future(
            scene.far.commit([Put("/a", value)], [Compare("/a", version)])
        )
        await scene.wait_for(value)
        assert not commit.done()
        scene.proxy.lose_answers = False
        scene.proxy.cut()
        version = await commit
        assert await scene.near.get("/a") == ("/a", value, version)
    assert scene.proxy.lost_bytes > 0


async def test_it_is_a_success_even_when_others_have_written_since(scene: Scene) -> None:
    scene.proxy.lose_answers = True
    commit = asyncio.ensure_future(scene.far.commit([Put("/a", b"ours")], [Compare("/a", 0)]))
    await scene.wait_for(b"ours")
    entry = await scene.near.get("/a")
    assert entry is not None
    await scene.near.commit([Put("/a", b"theirs")], [Compare("/a", entry.version)])
    scene.proxy.lose_answers = False
    scene.proxy.cut()
    assert await commit == entry.version
    assert await scene.value() == b"theirs"


async def test_writing_the_same_as_another_is_not_taken_for_having_written(scene: Scene) -> None:
    commit = await scene.hold(lambda: scene.far.commit([Put("/a", b"same")], [Compare("/a", 0)]))
    await scene.near.commit([Put("/a", b"same")], [Compare("/a", 0)])
    scene.proxy.hold_requests = False
    scene.proxy.cut()
    with pytest.raises(MetadataConflict):
        await commit


async def test_when_the_answer_never_comes_nothing_is_claimed(scene: Scene) -> None:
    scene.proxy.lose_answers = True
    with pytest.raises(MetadataUnavailable):
        await scene.far.commit([Put("/a", b"1")], [Compare("/a", 0)])
    assert await scene.value() == b"1"
    scene.proxy.lose_answers = False
    scene.proxy.cut()
    entry = await scene.far.get("/a")
    assert entry is not None
    await scene.far.commit([Put("/a", b"2")], [Compare("/a", entry.version)])


async def test_a_commit_that_was_given_up_cannot_overwrite_a_later_one(scene: Scene) -> None:
    commit = await scene.hold(lambda: scene.far.commit([Put("/a", b"given up")]))
    scene.proxy.cut()
    with pytest.raises(MetadataUnavailable):
        await commit
    scene.proxy.hold_requests = False
    scene.proxy.cut()
    await scene.far.commit([Put("/a", b"later")])
    await scene.release(b"later")


async def test_a_cancelled_commit_cannot_overwrite_a_later_one(scene: Scene) -> None:
    commit = await scene.hold(lambda: scene.far.commit([Put("/a", b"cancelled")]))
    scene.proxy.cut()
    await asyncio.sleep(0.1)
    commit.cancel()
    await asyncio.wait([commit])
    scene.proxy.hold_requests = False
    scene.proxy.cut()
    await scene.far.commit([Put("/a", b"later")])
    await scene.release(b"later")


async def test_an_attempt_before_a_conflict_cannot_succeed_after_it(scene: Scene) -> None:
    commit = await scene.hold(lambda: scene.far.commit([Put("/a", b"late")], [Compare("/a", 0)]))
    await scene.near.commit([Put("/a", b"theirs")])
    scene.proxy.hold_requests = False
    scene.proxy.cut()
    with pytest.raises(MetadataConflict):
        await commit
    await scene.near.commit([Remove("/a")])  # now the guard would hold again
    await scene.near.commit([Put("/b", b"")])
    for wire in scene.proxy.wires:
        wire.release()
    for _ in range(20):
        await asyncio.sleep(0.02)
        assert await scene.value() is None


async def test_commits_go_on_when_the_witnesses_have_been_taken_away(
    scene: Scene, etcd_server: EtcdCluster
) -> None:
    await asyncio.gather(*(scene.far.commit([Put(f"/{number}", b"")]) for number in range(4)))
    for key in etcd_server.ctl("get", keys.WRITERS, "--prefix", "--keys-only").split():
        lease = key.removeprefix(keys.WRITERS).partition("/")[0]
        if lease in etcd_server.ctl("lease", "list"):
            etcd_server.ctl("lease", "revoke", lease)
    version = await scene.far.commit([Put("/a", b"1")], [Compare("/a", 0)])
    with pytest.raises(MetadataConflict):
        await scene.far.commit([Put("/a", b"2")], [Compare("/a", 0)])
    assert await scene.near.get("/a") == ("/a", b"1", version)


async def test_an_outcome_whose_witness_is_gone_is_unknown(
    scene: Scene, etcd_server: EtcdCluster
) -> None:
    scene.proxy.lose_answers = True
    commit = asyncio.ensure_future(scene.far.commit([Put("/a", b"1")], [Compare("/a", 0)]))
    await scene.wait_for(b"1")
    etcd_server.ctl("del", keys.WRITERS, "--prefix")
    scene.proxy.lose_answers = False
    scene.proxy.cut()
    with pytest.raises(MetadataUnavailable, match="not known"):
        await commit
    await scene.far.commit([Put("/a", b"2")])
    assert await scene.value() == b"2"


async def test_an_attempt_is_carried_out_once_though_two_arrive(scene: Scene) -> None:
    commit = await scene.hold(lambda: scene.far.commit([Put("/a", b"once")]))
    scene.proxy.hold_requests = False
    scene.proxy.cut()
    version = await commit
    await scene.near.commit([Put("/a", b"later")], [Compare("/a", version)])
    await scene.release(b"later")
