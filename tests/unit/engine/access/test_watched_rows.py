"""Rows of one prefix: loaded, watched, changed, and kept while the store is away."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kafscale.engine.access.watched_rows import WatchedRows
from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.metadata.store import MAX_OPERATIONS, MetadataStore, Put, Remove
from kafscale.model.errors import CorruptObject, MetadataConflict, MetadataUnavailable
from kafscale.testing.clock import ManualClock
from kafscale.testing.simulated.metadata import SimulatedEtcd, SimulatedMetadataStore

PREFIX = "/kafscale/things/"


def decode(raw: bytes) -> str:
    if raw == b"?":
        raise CorruptObject("not a thing")
    return raw.decode()


def rows_on(store: MetadataStore) -> WatchedRows[str]:
    return WatchedRows(store, PREFIX, decode, str.encode)


async def settle() -> None:
    """Let watches tell what they have; time is virtual."""
    await asyncio.sleep(1)


class Two:
    """Two brokers' rows on one simulated etcd."""

    def __init__(self) -> None:
        self.etcd = SimulatedEtcd()
        self.lines = [SimulatedMetadataStore(self.etcd, ManualClock()) for _ in range(2)]
        self.rows = [rows_on(line) for line in self.lines]
        self.told: list[tuple[str, str | None, str | None]] = []
        self.rows[1].listen(lambda *told: self.told.append(told))


@pytest.fixture
async def two() -> AsyncIterator[Two]:
    brokers = Two()
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(rows.run()) for rows in brokers.rows]
        await settle()
        yield brokers
        for task in running:
            task.cancel()


async def test_a_row_that_one_broker_writes_reaches_the_other(two: Two) -> None:
    ours, theirs = two.rows
    await ours.write({"a": "1", "b": "2"})
    assert dict(ours.rows) == {"a": "1", "b": "2"}  # at once
    await settle()
    assert theirs.rows == ours.rows
    await ours.write({"a": None, "b": "3"})
    await settle()
    assert dict(theirs.rows) == {"b": "3"}
    assert two.told == [("a", None, "1"), ("b", None, "2"), ("a", "1", None), ("b", "2", "3")]
    assert theirs.revision == 4


async def test_rows_stay_as_they_were_while_the_store_is_away(two: Two) -> None:
    ours, theirs = two.rows
    await ours.write({"a": "1"})
    await settle()
    two.lines[1].is_cut = True
    await ours.write({"a": None, "b": "2"})
    await settle()
    assert dict(theirs.rows) == {"a": "1"}
    with pytest.raises(MetadataUnavailable):
        await theirs.write({"c": "3"})
    assert dict(theirs.rows) == {"a": "1"}
    two.lines[1].is_cut = False
    await settle()
    assert dict(theirs.rows) == {"b": "2"}


async def test_a_listing_takes_the_place_of_changes_that_were_missed(two: Two) -> None:
    ours, theirs = two.rows
    await ours.write({"a": "1", "b": "2"})
    await settle()
    two.etcd.faults.latency_s = 0.01
    two.etcd.relist_chance = 0.5
    await ours.write({"a": None, "c": "3"})
    await settle()
    await ours.write({"d": "4"})
    await settle()
    assert dict(theirs.rows) == {"b": "2", "c": "3", "d": "4"}


async def test_news_of_older_rows_does_not_undo_what_the_broker_has_written(two: Two) -> None:
    ours, _ = two.rows
    two.etcd.faults.latency_s = 0.3  # the watch tells late
    told: list[tuple[str, str | None, str | None]] = []
    ours.listen(lambda *one: told.append(one))
    for value in ("1", None, "2", None, "3", None):
        await ours.write({"a": value})
    assert dict(ours.rows) == {}
    await asyncio.sleep(5)
    assert dict(ours.rows) == {}
    assert [new for _, _, new in told] == ["1", None, "2", None, "3", None]
    assert not ours._versions


async def test_changes_of_two_brokers_at_once_are_both_kept(two: Two) -> None:
    two.etcd.faults.latency_s = 0.01
    await asyncio.gather(*(rows.change("n", lambda old: (old or "") + "x") for rows in two.rows))
    await settle()
    assert two.rows[0].rows["n"] == two.rows[1].rows["n"] == "xx"
    assert await two.rows[0].change("n", lambda _: None) is None
    await settle()
    assert not two.rows[1].rows


async def test_a_change_that_others_always_overtake_is_given_up(two: Two) -> None:
    def interfere(old: str | None) -> str:
        two.etcd.commit([Put(PREFIX + "n", b"other" + str(two.etcd.version).encode())], [])
        return "ours"

    with pytest.raises(MetadataConflict):
        await two.rows[0].change("n", interfere)


async def test_a_row_that_cannot_be_read_leaves_the_one_that_was_known(two: Two) -> None:
    ours, _ = two.rows
    await ours.write({"a": "1"})
    two.etcd.commit([Put(PREFIX + "a", b"?"), Put(PREFIX + "b", b"?")], [])
    await settle()
    assert dict(ours.rows) == {"a": "1"}
    assert ours.unreadable == {"a", "b"}
    two.etcd.commit([Put(PREFIX + "a", b"2"), Remove(PREFIX + "b")], [])
    await settle()
    assert dict(ours.rows) == {"a": "2"}
    assert not ours.unreadable


async def test_rows_are_loaded_from_the_embedded_store_and_written_in_pages(tmp_path: Path) -> None:
    store = EmbeddedMetadataStore(tmp_path / "metadata.db", "OFF")
    many = {f"row-{number:04}": str(number) for number in range(2 * MAX_OPERATIONS + 1)}
    try:
        await rows_on(store).write(many)
        await store.commit([Put("/kafscale/other", b"?")])
        again = rows_on(store)
        told: list[str] = []
        again.listen(lambda name, old, new: told.append(name))
        await again.load()
        assert again.rows == many
        assert told == list(many)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(again.run())
            await asyncio.sleep(0.1)
            await again.write({"row-0000": None})
            assert "row-0000" not in again.rows
            running.cancel()
        assert len(again.rows) == len(many) - 1
    finally:
        await store.aclose()
