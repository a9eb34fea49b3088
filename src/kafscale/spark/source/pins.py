"""Named snapshots: topics as they were at one moment, readable until a chosen time.

Here: taking one, reading it back, giving it up. A snapshot is one object that lists what every
partition consisted of; a pin in each log's folder keeps the deleter from those objects until it
expires. Next door: how the deleter reads pins (log/upkeep/sweep.py), `asOf` (plan/planning.py).
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from kafscale.log.formats import keys
from kafscale.model.errors import CorruptObject, KafscaleError, ObjectExists, ObjectMissing
from kafscale.model.names import check_short_name
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.store import ObjectStore
from kafscale.spark.bucket import Bucket
from kafscale.spark.views import PartitionView, places_of, views_of

KEPT_MS: Final = 7 * 24 * 3600 * 1000
# Pins must stand before anything that the snapshot names can be deleted: the shortest grace.
_SOON_ENOUGH_MS: Final = 60_000


class SnapshotError(KafscaleError):
    """There is no such snapshot, or the name is taken."""


class SnapshotExpired(SnapshotError):
    """The snapshot's time is over, or its objects are gone."""


class NamedSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored under a name."""

    format: int = 1
    name: str
    created_ms: int
    expires_ms: int
    topics: list[TopicDescriptor]
    pins: list[str]
    partitions: list[PartitionView]


_DECODER: Final = msgspec.json.Decoder(NamedSnapshot)


def take(
    bucket: Bucket, name: str, topics: Sequence[str] = (), kept_ms: int = KEPT_MS
) -> NamedSnapshot:
    """Pin the named topics, or all of them, as they are now, for so long."""
    check_short_name(name)
    began_ms = bucket.run(lambda store: store.now_ms())
    expires_ms = began_ms + kept_ms
    chosen = bucket.select(topics)
    wanted = places_of(chosen)
    logs = bucket.read_logs(place.folder for _, _, place in wanted)
    pins: list[str] = []
    for log in logs.values():
        held = keys.Pin(log.manifest.generation, log.end, expires_ms)
        token = int.from_bytes(bucket.dice.token(4), "big")
        pins.append(keys.pin(log.folder, held, token))
    snapshot = NamedSnapshot(
        name=name,
        created_ms=began_ms,
        expires_ms=expires_ms,
        topics=chosen,
        pins=pins,
        partitions=views_of(wanted, logs),
    )
    for pin in pins:
        bucket.put_new(pin, [b""])
    if bucket.run(lambda store: store.now_ms()) - began_ms > _SOON_ENOUGH_MS:
        _delete(bucket, pins)
        raise SnapshotError(f"{name}: taking it took too long to be sure of it; try again")
    try:
        bucket.put_new(keys.snapshot(bucket.namespace, name), [msgspec.json.encode(snapshot)])
    except ObjectExists:
        _delete(bucket, pins)
        raise SnapshotError(f"there is a snapshot {name!r} already: release it first") from None
    return snapshot


def read(bucket: Bucket, name: str) -> NamedSnapshot:
    """The snapshot of this name, if it still holds."""
    snapshot = _read(bucket, name)
    if snapshot.expires_ms <= bucket.run(lambda store: store.now_ms()):
        raise expired(name)
    return snapshot


def find_all(bucket: Bucket) -> list[NamedSnapshot]:
    """All of them by name, also those that have expired and were not released."""
    folder = keys.snapshot(bucket.namespace, "").rstrip("/")
    rows = bucket.run(lambda store: store.find(folder))
    return [_read(bucket, name) for name in sorted(row.key.rpartition("/")[2] for row in rows)]


def _read(bucket: Bucket, name: str) -> NamedSnapshot:
    check_short_name(name)
    try:
        data = bucket.read(keys.snapshot(bucket.namespace, name))
    except ObjectMissing:
        raise SnapshotError(f"there is no snapshot {name!r} in {bucket.url}") from None
    try:
        return _DECODER.decode(data)
    except msgspec.DecodeError as problem:
        raise CorruptObject(f"snapshot {name}: {problem}") from problem


def expired(name: str) -> SnapshotExpired:
    """What to say when a snapshot can no longer be read."""
    return SnapshotExpired(f"the snapshot {name!r} has expired; its records may be gone")


def release(bucket: Bucket, name: str) -> None:
    """Give a snapshot up, before its time or after; its name is free again."""
    snapshot = _read(bucket, name)
    _delete(bucket, [keys.snapshot(bucket.namespace, name), *snapshot.pins])


def _delete(bucket: Bucket, names: Sequence[str]) -> None:
    async def delete(store: ObjectStore) -> None:
        await store.delete(names)

    bucket.run(delete)
