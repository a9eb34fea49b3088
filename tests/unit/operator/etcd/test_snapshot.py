"""Snapshots of etcd: checked before they are kept, and only so many are kept."""

import hashlib

import pytest

from kafscale.model.errors import MetadataUnavailable
from kafscale.objects.memory import MemoryObjectStore
from kafscale.operator.etcd.gateway import check_snapshot
from kafscale.operator.etcd.snapshot import keep
from kafscale.testing.clock import ManualClock

HOUR_MS = 3_600_000


def snapshot(body: bytes = b"pages of the database") -> bytes:
    return body + hashlib.sha256(body).digest()


async def test_the_oldest_go_beyond_the_retention() -> None:
    store, clock = MemoryObjectStore(), ManualClock()
    keys = []
    for _ in range(5):
        kept = await keep(store, snapshot(), "etcd/production", 3, clock)
        keys.append(kept.key)
        clock.advance_ms(HOUR_MS)
    await store.put_new("etcd/another/1.db", [b"of another cluster"])
    found = [one.key for one in await store.find("etcd/production")]
    assert sorted(found) == keys[2:]
    assert kept.dropped == 1
    assert [one.key for one in await store.find("etcd/another")] == ["etcd/another/1.db"]


@pytest.mark.parametrize(
    "bad",
    [b"", b"short", snapshot(b""), snapshot()[:-1], snapshot()[1:], b"x" + snapshot()],
    ids=["nothing", "short", "only a hash", "cut off", "beginning lost", "more than there was"],
)
def test_a_snapshot_that_is_not_whole_is_refused(bad: bytes) -> None:
    with pytest.raises(MetadataUnavailable):
        check_snapshot(bad)


def test_a_whole_snapshot_is_accepted() -> None:
    check_snapshot(snapshot())
