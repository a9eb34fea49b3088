"""What every metadata store must do."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.metadata.etcd.client import EtcdSettings
from kafscale.metadata.etcd.store import EtcdMetadataStore
from kafscale.metadata.store import (
    BEYOND,
    MAX_BYTES,
    MAX_OPERATIONS,
    Change,
    Compare,
    Entry,
    Listing,
    MetadataStore,
    Put,
    Remove,
    pages,
)
from kafscale.model.errors import MetadataConflict
from kafscale.system import SystemClock
from kafscale.testing.simulated.metadata import SimulatedEtcd, SimulatedMetadataStore
from tests.support.examples import examples

_folders = count()


@pytest.fixture(params=["embedded", "simulated", pytest.param("etcd", marks=pytest.mark.slow)])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], MetadataStore]:
    if request.param == "embedded":
        path = tmp_path / "metadata.sqlite"
        return lambda: EmbeddedMetadataStore(path, clock=SystemClock())
    if request.param == "simulated":
        etcd = SimulatedEtcd()
        return lambda: SimulatedMetadataStore(etcd, SystemClock())
    endpoints = request.getfixturevalue("etcd_server").endpoints
    settings = EtcdSettings(endpoints, prefix=f"/contract-{next(_folders)}")
    return lambda: EtcdMetadataStore(settings, SystemClock())


@pytest.fixture
async def store(open_store: Callable[[], MetadataStore]) -> AsyncIterator[MetadataStore]:
    opened = open_store()
    yield opened
    await opened.aclose()


async def test_what_was_committed_is_read_back(store: MetadataStore) -> None:
    version = await store.commit([Put("/a", b"1"), Put("/b", b"")])
    assert version > 0
    assert await store.get("/a") == ("/a", b"1", version)
    assert await store.get("/b") == ("/b", b"", version)
    assert await store.get("/c") is None


async def test_versions_rise_over_the_whole_store(store: MetadataStore) -> None:
    versions = [
        await store.commit([Put("/a", b"1")]),
        await store.commit([Put("/b", b"1")]),
        await store.commit([Remove("/b")]),
        await store.commit([Put("/b", b"2")]),
    ]
    assert versions == sorted(set(versions))
    entry = await store.get("/a")
    assert entry is not None
    assert entry.version == versions[0]


async def test_a_commit_of_nothing_changes_nothing(store: MetadataStore) -> None:
    version = await store.commit([Put("/a", b"1")])
    assert await store.commit([], [Compare("/a", version)]) == version
    with pytest.raises(MetadataConflict):
        await store.commit([], [Compare("/a", version + 1)])


async def test_a_key_that_must_not_exist(store: MetadataStore) -> None:
    await store.commit([Put("/a", b"1")], [Compare("/a", 0)])
    with pytest.raises(MetadataConflict, match="/a"):
        await store.commit([Put("/a", b"2")], [Compare("/a", 0)])
    await store.commit([Remove("/a")])
    await store.commit([Put("/a", b"3")], [Compare("/a", 0)])


async def test_a_failed_guard_leaves_everything_as_it_was(store: MetadataStore) -> None:
    version = await store.commit([Put("/a", b"1"), Put("/b", b"1")])
    with pytest.raises(MetadataConflict):
        await store.commit(
            [Put("/a", b"2"), Remove("/b"), Put("/c", b"2")],
            [Compare("/a", version), Compare("/b", version + 1)],
        )
    assert await store.find("/") == [("/a", b"1", version), ("/b", b"1", version)]
    assert await store.commit([Put("/c", b"3")]) == version + 1


async def test_a_version_seen_once_never_comes_back(store: MetadataStore) -> None:
    seen = await store.commit([Put("/a", b"1")])
    await store.commit([Remove("/a")])
    await store.commit([Put("/a", b"1")])
    with pytest.raises(MetadataConflict):
        await store.commit([Put("/a", b"2")], [Compare("/a", seen)])


async def test_of_many_rivals_exactly_one_wins(store: MetadataStore) -> None:
    for _ in range(10):
        entry = await store.get("/a")
        guard = Compare("/a", entry.version if entry else 0)
        results = await asyncio.gather(
            *(store.commit([Put("/a", b"%d" % rival)], [guard]) for rival in range(8)),
            return_exceptions=True,
        )
        assert sum(isinstance(result, int) for result in results) == 1
        assert sum(isinstance(result, MetadataConflict) for result in results) == 7


async def test_find_gives_the_keys_of_a_prefix_in_order(store: MetadataStore) -> None:
    names = ["/t/b", "/t/a", "/t/a/1", "/t", "/t/", "/u", "/t0", "/s/z", "/t/%F0"]
    await store.commit([Put(name, name.encode()) for name in names])
    found = [entry.key for entry in await store.find("/t/")]
    assert found == sorted(name for name in names if name.startswith("/t/"))
    assert [entry.key for entry in await store.find("")] == sorted(names)
    assert await store.find("/x") == []


async def test_find_gives_a_page_at_a_time(store: MetadataStore) -> None:
    names = [f"/t/{number:02}" for number in range(25)]
    await store.commit([Put(name, b"") for name in [*names, "/s/a", "/u/a"]])
    found: list[str] = []
    while page := await store.find("/t/", after=found[-1] if found else "", limit=10):
        assert len(page) <= 10
        found += [entry.key for entry in page]
    assert found == names
    assert [entry.key for entry in await store.find("/t/", after="/t/2")] == names[20:]
    assert [entry.key for entry in await store.find("/t/", after="/a", limit=1)] == names[:1]
    assert await store.find("/t/", after="/t/" + BEYOND) == []
    assert await store.find("/t/", after="/x") == []


async def test_a_prefix_is_text_not_a_pattern(store: MetadataStore) -> None:
    await store.commit([Put("/a%b/1", b""), Put("/axb/1", b""), Put("/a_b/1", b"")])
    assert [entry.key for entry in await store.find("/a%")] == ["/a%b/1"]
    assert [entry.key for entry in await store.find("/a_")] == ["/a_b/1"]


async def test_removing_what_is_not_there_is_no_error(store: MetadataStore) -> None:
    assert await store.commit([Remove("/a")]) > 0


async def test_a_commit_has_a_limit_that_all_stores_share(store: MetadataStore) -> None:
    await store.commit([Put(f"/{number}", b"") for number in range(MAX_OPERATIONS)])
    with pytest.raises(ValueError, match=str(MAX_OPERATIONS)):
        await store.commit([Put(f"/{number}", b"") for number in range(MAX_OPERATIONS + 1)])
    with pytest.raises(ValueError, match=str(MAX_OPERATIONS)):
        await store.commit([], [Compare(f"/{number}", 0) for number in range(MAX_OPERATIONS + 1)])
    with pytest.raises(ValueError, match="once"):
        await store.commit([Put("/a", b"1"), Remove("/a")])


async def test_everything_is_there_after_opening_again(
    open_store: Callable[[], MetadataStore],
) -> None:
    first = open_store()
    version = await first.commit([Put("/a", b"1")])
    await first.commit([Put("/b", b"1")])
    last = await first.commit([Remove("/b")])
    await first.aclose()
    second = open_store()
    assert await second.find("/") == [("/a", b"1", version)]
    assert await second.commit([Put("/c", b"1")]) > last
    await second.aclose()


async def test_what_was_written_under_a_lease_goes_with_it(store: MetadataStore) -> None:
    lease = await store.lease(5.0)
    assert 0 < lease.remaining_s() <= lease.ttl_s
    await store.commit([Put("/a", b"1", lease.id), Put("/b", b"1", lease.id), Put("/c", b"1")])
    # Written again without the lease, a key stays.
    version = await store.commit([Put("/b", b"2")])
    await lease.revoke()
    await lease.lost()
    assert lease.remaining_s() == 0
    assert [entry.key for entry in await store.find("/")] == ["/b", "/c"]
    assert await store.get("/b") == ("/b", b"2", version)


async def test_nothing_is_written_under_a_lease_that_is_lost(store: MetadataStore) -> None:
    lease = await store.lease(5.0)
    await store.commit([Put("/a", b"1")])
    await lease.revoke()
    with pytest.raises(MetadataConflict, match="lost"):
        await store.commit([Put("/a", b"2"), Put("/b", b"2", lease.id)])
    entry = await store.get("/a")
    assert entry is not None
    assert entry.value == b"1"


async def test_a_lease_lasts_as_long_as_its_holder(store: MetadataStore) -> None:
    lease = await store.lease(2.0)
    await store.commit([Put("/a", b"1", lease.id)])
    first = lease.deadline_s
    while lease.deadline_s < first + lease.ttl_s:
        await asyncio.sleep(0.05)
    assert lease.remaining_s() > 0
    assert await store.get("/a") is not None


async def test_leases_end_with_the_store_that_took_them(
    open_store: Callable[[], MetadataStore],
) -> None:
    first = open_store()
    lease = await first.lease(60.0)
    await first.commit([Put("/a", b"1", lease.id), Put("/b", b"1")])
    await first.aclose()
    assert lease.remaining_s() == 0
    second = open_store()
    assert [entry.key for entry in await second.find("/")] == ["/b"]
    await second.aclose()


async def test_a_watcher_is_told_what_is_there_and_then_every_commit(store: MetadataStore) -> None:
    there = await store.commit([Put("/w/a", b"1"), Put("/x/a", b"1")])
    async with aclosing(store.watch("/w/")) as watch:
        listing = await anext(watch)
        assert listing == Listing(listing.version, [Entry("/w/a", b"1", there)])
        assert listing.version >= there
        await store.commit([Put("/x/b", b"2")])
        await store.commit([Remove("/w/nothing")])
        both = await store.commit([Put("/w/b", b"2"), Remove("/w/a"), Put("/x/c", b"2")])
        again = await store.commit([Put("/w/a", b"3")])
        assert await anext(watch) == Change(both, [Entry("/w/b", b"2", both)], ["/w/a"])
        assert await anext(watch) == Change(again, [Entry("/w/a", b"3", again)], [])


async def test_a_watcher_is_told_that_a_lease_has_ended(store: MetadataStore) -> None:
    lease = await store.lease(5.0)
    await store.commit([Put("/w/a", b"1", lease.id)])
    async with aclosing(store.watch("/w/")) as watch:
        await anext(watch)
        await lease.revoke()
        change = await anext(watch)
        assert isinstance(change, Change)
        assert change.removed == ["/w/a"]


async def test_watchers_beginning_while_others_write_miss_nothing_and_hear_nothing_twice(
    store: MetadataStore,
) -> None:
    commits = 60

    async def write() -> None:
        for number in range(commits):
            await store.commit([Put("/w/last", b"%d" % number), Put(f"/w/{number}", b"")])

    async def follow(begin: int) -> None:
        while (entry := await store.get(f"/w/{begin}")) is None:
            await asyncio.sleep(0)
        known: dict[str, Entry] = {}
        async with aclosing(store.watch("/w/")) as watch:
            listing = await anext(watch)
            assert isinstance(listing, Listing)
            assert listing.version >= entry.version
            known |= {entry.key: entry for entry in listing.entries}
            seen = listing.version
            while len(known) <= commits:
                change = await anext(watch)
                assert isinstance(change, Change)
                assert change.version > seen
                assert len(change.written) == 2
                seen = change.version
                known |= {entry.key: entry for entry in change.written}
        assert sorted(known.values()) == await store.find("/w/")

    async with asyncio.TaskGroup() as tasks:
        for begin in (0, 7, 20, 40):
            tasks.create_task(follow(begin))
        tasks.create_task(write())


async def test_a_commit_whose_caller_has_gone_is_still_told(store: MetadataStore) -> None:
    async with aclosing(store.watch("/w/")) as watch:
        await anext(watch)
        for number in range(20):
            commit = asyncio.ensure_future(store.commit([Put("/w/a", b"%d" % number)]))
            await asyncio.sleep(0.0005 * number)
            commit.cancel()
            await asyncio.wait([commit])
        last = await store.commit([Put("/w/a", b"end")])
        told: list[Entry] = []
        while not told or told[-1].version < last:
            change = await anext(watch)
            assert isinstance(change, Change)
            told += change.written
        # Cancelled ones may or may not have happened, in their order, and never after the last.
        numbers = [int(entry.value) for entry in told[:-1]]
        assert numbers == sorted(set(numbers))
        assert await store.get("/w/a") == ("/w/a", b"end", last)


OPERATIONS = st.lists(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.none() | st.binary(max_size=3)),
        max_size=4,
        unique_by=lambda write: write[0],
    ),
    max_size=12,
)


@given(commits=OPERATIONS)
@settings(examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_row_of_commits_leaves_what_a_dictionary_would(
    store: MetadataStore, commits: list[list[tuple[str, bytes | None]]]
) -> None:
    await store.commit([Remove(key) for key in "abcd"])
    model: dict[str, tuple[bytes, int]] = {}
    for writes in commits:
        version = await store.commit(
            [Remove(key) if value is None else Put(key, value) for key, value in writes]
        )
        for key, value in writes:
            if value is None:
                model.pop(key, None)
            else:
                model[key] = (value, version)
    found = [(entry.key, (entry.value, entry.version)) for entry in await store.find("")]
    assert found == sorted(model.items())


WRITER = """
import asyncio, sys
from pathlib import Path
from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.metadata.store import Put

async def write_without_end() -> None:
    store = EmbeddedMetadataStore(Path(sys.argv[1]))
    number = 0
    while True:
        number += 1
        await store.commit([Put("/left", b"%d" % number), Put("/right", b"%d" % number)])
        print(number, flush=True)

asyncio.run(write_without_end())
"""


async def test_the_embedded_store_keeps_every_acknowledged_commit_when_killed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "metadata.sqlite"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    acknowledged = 0
    while acknowledged < 200:
        acknowledged = int(writer.stdout.readline())
    os.kill(writer.pid, signal.SIGKILL)
    acknowledged = max([acknowledged, *map(int, writer.stdout.read().split(b"\n")[:-1])])
    writer.wait()
    writer.stdout.close()
    store = EmbeddedMetadataStore(path)
    left, right = await store.get("/left"), await store.get("/right")
    assert left is not None
    assert right is not None
    assert left.value == right.value
    assert int(left.value) >= acknowledged
    await store.aclose()


async def test_any_number_of_writes_is_taken_page_by_page(store: MetadataStore) -> None:
    sizes = [0, MAX_BYTES - 3, 1, 700_000, 400_000, *[9000] * 300, *[0] * 300]
    writes = [Put(f"/{number}", b"x" * size) for number, size in enumerate(sizes)]
    cut = list(pages(writes))
    assert [write for some in cut for write in writes[some]] == writes
    for some in cut:
        await store.commit(writes[some], [Compare(write.key, 0) for write in writes[some]])
    assert len(await store.find("/")) == len(writes)
    assert list(pages([])) == []
