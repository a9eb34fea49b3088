"""The first half of a restore: the keys of a snapshot are put into an etcd.

Here: what is under the prefix of the cluster becomes what the snapshot has there. Rows with a lease
are left out: they belong to brokers that are gone. A note says that the metadata is half rebuilt,
and no broker starts until `kafscale recover`, the second half, has taken it away. So a load that
was cut off can be run again.
Next door: reading a snapshot (snapshot_pages.py), making one (snapshot.py), the job
(parts/jobs.py).
"""

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import aiohttp

from kafscale.metadata import keys
from kafscale.model.clock import Clock
from kafscale.model.errors import KafscaleError, MetadataUnavailable
from kafscale.objects.store import ObjectStore
from kafscale.operator.etcd.gateway import ask, check_snapshot, first_healthy
from kafscale.operator.etcd.snapshot import snapshot_store
from kafscale.operator.etcd.snapshot_pages import newest_rows
from kafscale.operator.planning.plan import timestamp

_MOST_WRITES: Final = 100  # etcd takes 128 in a transaction
_MOST_BYTES: Final = 512 << 10  # and 1.5 MiB in a request


class NoSnapshot(KafscaleError):
    """There is nothing to restore from, or nothing may be restored."""


class LoadedSnapshot(NamedTuple):
    """What was put into etcd."""

    key: str  # of the snapshot
    rows: int
    removed: int


async def load_snapshot(
    endpoints: Sequence[str],
    bucket: str,
    folder: str,
    key: str,
    prefix: str,
    env: Mapping[str, str],
    clock: Clock,
) -> LoadedSnapshot:
    """Load a snapshot, the newest of the folder if no key is given. Raises SnapshotFailed."""
    async with snapshot_store(bucket, env) as store:
        chosen = await choose(store, folder, key)
        data = bytes(await store.read(chosen))
        check_snapshot(data)
        wanted = wanted_rows(data, prefix)
        async with aiohttp.ClientSession() as http:
            endpoint = await first_healthy(http, endpoints)
            removed = await replace(http, endpoint, wanted, prefix, clock)
        return LoadedSnapshot(chosen, len(wanted), removed)


async def choose(store: ObjectStore, folder: str, key: str) -> str:
    """The key of the snapshot that is asked for, or of the newest. Raises NoSnapshot."""
    found = sorted(one.key for one in await store.find(folder) if one.key.endswith(".db"))
    if key and key not in found:
        raise NoSnapshot(f"the bucket has no snapshot {key}; it has {', '.join(found[-3:])}")
    if not found:
        raise NoSnapshot(f"the bucket has no snapshot under {folder}")
    return key or found[-1]


def wanted_rows(data: bytes, prefix: str) -> dict[bytes, bytes]:
    """The rows of one cluster that stay when brokers go. Raises NoSnapshot."""
    root = f"{prefix}{keys.ROOT}/".encode()
    found = {
        row.key: row.value
        for row in newest_rows(data).values()
        if row.key.startswith(root) and not row.lease
    }
    if f"{prefix}{keys.CLUSTER}".encode() not in found:
        raise NoSnapshot(f"the snapshot has no cluster under {root.decode()}")
    return found


async def replace(
    http: aiohttp.ClientSession,
    endpoint: str,
    wanted: Mapping[bytes, bytes],
    prefix: str,
    clock: Clock,
) -> int:
    """Make the rows of the cluster these; gives how many others were removed."""
    brokers = await _names(http, endpoint, f"{prefix}{keys.BROKERS}".encode())
    if brokers:
        raise NoSnapshot(f"{len(brokers)} brokers run on this etcd")
    note = f"{prefix}{keys.RECOVERY}".encode()
    begun = keys.encode(keys.Recovery(namespace="", started_at=timestamp(clock.now_ms())))
    await _write(http, endpoint, [_put(note, begun)])
    there = await _names(http, endpoint, f"{prefix}{keys.ROOT}/".encode())
    others = there - wanted.keys() - {note}
    writes = [_delete(key) for key in sorted(others)]
    writes += [_put(key, value) for key, value in sorted(wanted.items()) if key != note]
    for page in _pages(writes):
        await _write(http, endpoint, page)
    return len(others)


async def _names(http: aiohttp.ClientSession, endpoint: str, begin: bytes) -> set[bytes]:
    """The keys that begin so."""
    end = begin[:-1] + bytes([begin[-1] + 1])
    body = {"key": _coded(begin), "range_end": _coded(end), "keys_only": True}
    answer = await ask(http, endpoint, "/v3/kv/range", body)
    return {base64.b64decode(row["key"]) for row in answer.get("kvs", [])}


async def _write(
    http: aiohttp.ClientSession, endpoint: str, writes: Sequence[Mapping[str, Any]]
) -> None:
    answer = await ask(http, endpoint, "/v3/kv/txn", {"success": list(writes)})
    if not answer.get("succeeded"):
        raise MetadataUnavailable(f"{endpoint}: etcd did not carry out a transaction")


def _pages(writes: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Cut writes into transactions that etcd takes."""
    page: list[dict[str, Any]] = []
    size = 0
    for write in writes:
        own = sum(len(text) for part in write.values() for text in part.values())
        if page and (len(page) == _MOST_WRITES or size + own > _MOST_BYTES):
            yield page
            page, size = [], 0
        page.append(write)
        size += own
    if page:
        yield page


def _put(key: bytes, value: bytes) -> dict[str, Any]:
    return {"request_put": {"key": _coded(key), "value": _coded(value)}}


def _delete(key: bytes) -> dict[str, Any]:
    return {"request_delete_range": {"key": _coded(key)}}


def _coded(data: bytes) -> str:
    return base64.b64encode(data).decode()
