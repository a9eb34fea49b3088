"""etcd is killed, paused, compacted: nothing committed is lost, doubled or misreported."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from kafscale.metadata.etcd.client import EtcdSettings
from kafscale.metadata.etcd.store import EtcdMetadataStore
from kafscale.metadata.store import Change, Compare, Entry, Listing, Put
from kafscale.model.errors import MetadataConflict, MetadataUnavailable
from kafscale.model.security.secret import Secret
from kafscale.system import SystemClock
from tests.support import etcd
from tests.support.maven import Unavailable
from tests.support.ports import free_port

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    if reason := etcd.missing():
        pytest.skip(reason)


@pytest.fixture
def server() -> Iterator[etcd.EtcdCluster]:
    """An etcd a test may do to as it likes."""
    with etcd.EtcdCluster() as started:
        yield started


@asynccontextmanager
async def opened(settings: EtcdSettings) -> AsyncIterator[EtcdMetadataStore]:
    store = EtcdMetadataStore(settings, SystemClock())
    try:
        yield store
    finally:
        await store.aclose()


class Counter:
    """Counts up in one key by compare-and-set, until stopped. It alone writes there."""

    def __init__(self, store: EtcdMetadataStore, key: str) -> None:
        self.acknowledged = 0
        self._store = store
        self._key = key
        self._over = False
        self._task = asyncio.ensure_future(self._count())

    async def _count(self) -> None:
        version = 0
        while not self._over:
            value = b"%d" % (self.acknowledged + 1)
            # A conflict would be our own success taken for another's: it ends the test.
            version = await self._store.commit(
                [Put(self._key, value)], [Compare(self._key, version)]
            )
            self.acknowledged += 1

    async def wait_for(self, more: int) -> None:
        wanted = self.acknowledged + more
        while self.acknowledged < wanted:
            assert not self._task.done(), self._task.result()
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """The last commit is waited for: one given up might be carried out later."""
        self._over = True
        await self._task


async def followed(
    store: EtcdMetadataStore, key: str, until: int, begun: asyncio.Event
) -> list[int]:
    """Every value the key had since `begun` was set, as a watcher was told."""
    values: list[int] = []
    async with aclosing(store.watch(key)) as watch:
        async for news in watch:
            begun.set()
            entries = news.entries if isinstance(news, Listing) else news.written
            values += [int(entry.value) for entry in entries]
            if values and values[-1] >= until:
                break
    return values


@pytest.fixture
def three() -> Iterator[etcd.EtcdCluster]:
    """An etcd that keeps its word when all its members are killed."""
    with etcd.EtcdCluster(3) as started:
        yield started


async def test_commits_and_watchers_go_on_over_kills(three: etcd.EtcdCluster) -> None:
    dice = random.Random(7)
    async with opened(EtcdSettings(three.endpoints)) as store:
        last = 10**9
        begun = [asyncio.Event() for _ in "abc"]
        watching = [
            asyncio.ensure_future(followed(store, f"/count/{name}", last, event))
            for name, event in zip("abc", begun, strict=True)
        ]
        for event in begun:
            await event.wait()
        counters = [Counter(store, f"/count/{name}") for name in "abc"]
        for _ in range(5):
            for counter in counters:
                await counter.wait_for(30)
            await asyncio.sleep(dice.uniform(0, 0.05))
            three.kill()
            await asyncio.sleep(dice.uniform(0, 0.5))
            await asyncio.to_thread(three.start)
        for counter in counters:
            await counter.wait_for(30)
            await counter.stop()
        for name, counter, watch in zip("abc", counters, watching, strict=True):
            entry = await store.get(f"/count/{name}")
            assert entry is not None
            assert int(entry.value) == counter.acknowledged
            await store.commit([Put(f"/count/{name}", b"%d" % last)])
            values = await asyncio.wait_for(watch, 120)
            assert values == [*range(1, int(entry.value) + 1), last]


async def test_an_attempt_that_hangs_never_overwrites_what_came_after_it(
    server: etcd.EtcdCluster,
) -> None:
    async with opened(EtcdSettings(server.endpoints, request_timeout_s=2.0)) as store:
        for number in range(3):
            await store.commit([Put("/a", b"before")])
            server.pause()
            with pytest.raises(MetadataUnavailable):
                await store.commit([Put("/a", b"hanging")])
            server.resume()
            version = 0
            while not version:
                try:
                    version = await store.commit([Put("/a", b"after")])
                except MetadataUnavailable:
                    continue
            # Whatever the server still had to do, it has done when it answers the next ones.
            for _ in range(20):
                assert await store.get("/a") == ("/a", b"after", version), number


async def test_a_short_pause_is_sat_out(server: etcd.EtcdCluster) -> None:
    async with opened(EtcdSettings(server.endpoints)) as store:
        version = await store.commit([Put("/a", b"1")])
        server.pause()
        commit = asyncio.ensure_future(store.commit([Put("/a", b"2")], [Compare("/a", version)]))
        await asyncio.sleep(1.0)
        assert not commit.done()
        server.resume()
        assert await commit > version


async def test_a_lease_is_lost_when_etcd_is_silent_for_too_long(server: etcd.EtcdCluster) -> None:
    async with opened(EtcdSettings(server.endpoints, request_timeout_s=1.0)) as store:
        lease = await store.lease(2.0)
        await store.commit([Put("/a", b"1", lease.id)])
        assert lease.remaining_s() > 0
        server.pause()
        await asyncio.wait_for(lease.lost(), 60)
        assert lease.remaining_s() == 0
        server.resume()
        while await _get_patiently(store, "/a") is not None:
            await asyncio.sleep(0.1)
        with pytest.raises(MetadataConflict):
            await store.commit([Put("/a", b"2", lease.id)])
        again = await store.lease(5.0)
        await store.commit([Put("/a", b"3", again.id)])


async def test_a_lease_outlives_a_restart_of_etcd(three: etcd.EtcdCluster) -> None:
    async with opened(EtcdSettings(three.endpoints)) as store:
        lease = await store.lease(30.0)
        version = await store.commit([Put("/a", b"1", lease.id)])
        three.kill()
        await asyncio.to_thread(three.start)
        before = lease.deadline_s
        while lease.deadline_s == before:
            await asyncio.sleep(0.05)
        assert lease.remaining_s() > 0
        assert await store.get("/a") == ("/a", b"1", version)


async def _get_patiently(store: EtcdMetadataStore, key: str) -> Entry | None:
    while True:
        try:
            return await store.get(key)
        except MetadataUnavailable:
            continue


def leader(cluster: etcd.EtcdCluster) -> etcd.Member:
    for row in json.loads(cluster.ctl("endpoint", "status", "-w=json")):
        if row["Status"]["header"]["member_id"] == row["Status"]["leader"]:
            return next(one for one in cluster.members if row["Endpoint"] == one.endpoint)
    raise AssertionError("no leader")


async def test_a_cluster_of_three_goes_on_without_one() -> None:
    with etcd.EtcdCluster(3) as cluster:
        async with opened(EtcdSettings(cluster.endpoints)) as store:
            last = 10**9
            begun = asyncio.Event()
            watch = asyncio.ensure_future(followed(store, "/count", last, begun))
            await begun.wait()
            counter = Counter(store, "/count")
            await counter.wait_for(50)
            for victim in (leader(cluster), cluster.members[0]):
                victim.kill()
                await counter.wait_for(50)
                await asyncio.to_thread(cluster.start, victim)
                await counter.wait_for(50)
            hanging = cluster.members[1]
            hanging.pause()
            await counter.wait_for(50)
            hanging.resume()
            await counter.wait_for(50)
            await counter.stop()
            entry = await store.get("/count")
            assert entry is not None
            assert int(entry.value) == counter.acknowledged
            await store.commit([Put("/count", b"%d" % last)])
            assert await asyncio.wait_for(watch, 120) == [*range(1, int(entry.value) + 1), last]


async def test_without_a_majority_nothing_is_promised() -> None:
    with etcd.EtcdCluster(3) as cluster:
        async with opened(EtcdSettings(cluster.endpoints, request_timeout_s=3.0)) as store:
            await store.commit([Put("/a", b"1")])
            for member in cluster.members[:2]:
                member.kill()
            with pytest.raises(MetadataUnavailable):
                await store.commit([Put("/a", b"2")])
            with pytest.raises(MetadataUnavailable):
                await store.get("/a")


async def test_a_watcher_that_compaction_has_overtaken_is_given_a_listing(
    server: etcd.EtcdCluster,
) -> None:
    async with opened(EtcdSettings(server.endpoints)) as store:
        await store.commit([Put("/w/a", b"1"), Put("/w/b", b"1")])
        async with aclosing(store.watch("/w/")) as watch:
            assert isinstance(await anext(watch), Listing)
            # The stream begins with the next question: these it has missed.
            for number in range(5):
                version = await store.commit([Put("/w/a", b"%d" % number)])
            server.ctl("compaction", str(version))
            again = await anext(watch)
            assert isinstance(again, Listing)
            assert [(entry.key, entry.value) for entry in again.entries] == [
                ("/w/a", b"4"),
                ("/w/b", b"1"),
            ]
            version = await store.commit([Put("/w/c", b"1")])
            assert await anext(watch) == Change(version, [Entry("/w/c", b"1", version)], [])


async def test_a_watcher_that_listens_is_not_disturbed_by_compaction(
    server: etcd.EtcdCluster,
) -> None:
    async with (
        opened(EtcdSettings(server.endpoints)) as store,
        aclosing(store.watch("/w")) as watch,
    ):
        assert isinstance(await anext(watch), Listing)
        for number in range(20):
            heard = asyncio.ensure_future(anext(watch))
            version = await store.commit([Put("/w", b"%d" % number)])
            if number == 0:
                await heard  # the stream is open before anything is forgotten
            await asyncio.to_thread(server.ctl, "compaction", str(version))
            assert await heard == Change(version, [Entry("/w", b"%d" % number, version)], [])


async def test_dead_endpoints_are_passed_over(server: etcd.EtcdCluster) -> None:
    dead = tuple(f"127.0.0.1:{free_port()}" for _ in range(2))
    async with opened(EtcdSettings((*dead, *server.endpoints))) as store:
        version = await store.commit([Put("/a", b"1")])
        assert await store.get("/a") == ("/a", b"1", version)
    async with opened(EtcdSettings(dead, request_timeout_s=1.0)) as store:
        with pytest.raises(MetadataUnavailable, match=f"{dead[0]}, {dead[1]}.* does not answer"):
            await store.get("/a")


async def test_with_a_password_tokens_are_renewed() -> None:
    with etcd.EtcdCluster(3, extra=["--auth-token-ttl=1"]) as server:
        for command in (
            "user add root:secret",
            "user grant-role root root",
            "user add kafscale:hidden",
            "role add broker",
            "role grant-permission broker readwrite /kafscale/ --prefix",
            "user grant-role kafscale broker",
            "auth enable",
        ):
            server.ctl(*command.split())
        settings = EtcdSettings(server.endpoints, username="kafscale", password=Secret("hidden"))
        async with opened(settings) as store:
            version = await store.commit([Put("/kafscale/a", b"1")])
            begun = asyncio.Event()
            watch = asyncio.ensure_future(followed(store, "/kafscale/a", 3, begun))
            await begun.wait()
            await asyncio.sleep(3.0)  # the token is older than it may be
            version = await store.commit(
                [Put("/kafscale/a", b"2")], [Compare("/kafscale/a", version)]
            )
            server.kill()
            await asyncio.to_thread(server.start)
            await store.commit([Put("/kafscale/a", b"3")], [Compare("/kafscale/a", version)])
            assert await asyncio.wait_for(watch, 120) == [1, 2, 3]
            with pytest.raises(MetadataUnavailable, match="permission denied"):
                await store.commit([Put("/others/a", b"1")])
        wrong = EtcdSettings(server.endpoints, username="kafscale", password=Secret("guessed"))
        async with opened(wrong) as store:
            with pytest.raises(MetadataUnavailable, match="invalid user ID or password"):
                await store.get("/kafscale/a")
        async with opened(EtcdSettings(server.endpoints)) as store:
            with pytest.raises(MetadataUnavailable, match="user name is empty"):
                await store.get("/kafscale/a")


async def test_certificates_are_shown_and_asked_for(tmp_path: Path) -> None:
    try:
        made = etcd.certificates(tmp_path)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with etcd.EtcdCluster(tls=made) as server:
        known = EtcdSettings(
            server.endpoints,
            request_timeout_s=5.0,
            tls=True,
            ca_file=str(made.authority),
            cert_file=str(made.certificate),
            key_file=str(made.key),
        )
        async with opened(known) as store:
            await store.commit([Put("/a", b"1")])
        stranger = EtcdSettings(
            server.endpoints, request_timeout_s=1.0, tls=True, ca_file=str(made.authority)
        )
        async with opened(stranger) as store:
            with pytest.raises(MetadataUnavailable):
                await store.get("/a")
        trusting_no_authority = EtcdSettings(server.endpoints, request_timeout_s=1.0, tls=True)
        async with opened(trusting_no_authority) as store:
            with pytest.raises(MetadataUnavailable):
                await store.get("/a")
    with pytest.raises(MetadataUnavailable, match=r"nowhere\.pem"):
        EtcdMetadataStore(EtcdSettings(("a:1",), tls=True, ca_file="nowhere.pem"), SystemClock())
