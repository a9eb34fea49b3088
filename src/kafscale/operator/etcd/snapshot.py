"""The job that makes a snapshot of etcd: read it, check it, keep it in a bucket, drop old ones.

Next door: asking etcd (gateway.py), when it runs (parts/jobs.py). A failure is one line that
begins with a reason in one word; the operator quotes it.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import aiohttp

from kafscale.model.clock import Clock
from kafscale.model.errors import (
    KafscaleError,
    MetadataUnavailable,
    StoreRefused,
    StoreUnavailable,
)
from kafscale.objects.store import ObjectStore
from kafscale.operator.etcd.gateway import GatewayMissing, first_healthy, read_snapshot
from kafscale.operator.planning.plan import timestamp
from kafscale.settings.loading import load_bucket
from kafscale.settings.stores import open_bucket, s3_settings


class SnapshotFailed(KafscaleError):
    """No snapshot was made; the text begins with a reason in one word."""


class Kept(NamedTuple):
    """A snapshot in the bucket."""

    key: str
    size: int
    dropped: int


async def make_snapshot(
    endpoints: Sequence[str],
    bucket: str,
    prefix: str,
    retention: int,
    env: Mapping[str, str],
    clock: Clock,
) -> Kept:
    """Make one snapshot. Raises SnapshotFailed."""
    async with snapshot_store(bucket, env) as store:
        async with aiohttp.ClientSession() as http:
            data = await read_snapshot(http, await first_healthy(http, endpoints))
        return await keep(store, data, prefix, retention, clock)


@asynccontextmanager
async def snapshot_store(bucket: str, env: Mapping[str, str]) -> AsyncIterator[ObjectStore]:
    """The bucket of snapshots, while it is used. What goes wrong meanwhile is a SnapshotFailed."""
    store = open_bucket(s3_settings(load_bucket(bucket, env)))
    try:
        yield store
    except KafscaleError as problem:
        raise _as_failure(problem) from problem
    finally:
        await store.aclose()


async def keep(store: ObjectStore, data: bytes, prefix: str, retention: int, clock: Clock) -> Kept:
    """Put a snapshot into the bucket, and delete the oldest beyond `retention`."""
    name = timestamp(clock.now_ms()).replace(":", "").replace("-", "")
    key = f"{prefix}/{name}.db"
    await store.put_new(key, [data])
    found = [one.key for one in await store.find(prefix) if one.key.endswith(".db")]
    old = sorted(found)[:-retention]
    if old:
        await store.delete(old)
    return Kept(key, len(data), len(old))


def _as_failure(problem: KafscaleError) -> SnapshotFailed:
    """Put a reason in one word before an error."""
    match problem:
        case MetadataUnavailable() | GatewayMissing():
            reason = "EtcdUnavailable"
        case StoreUnavailable():
            # Without keys the library looks for those of the machine, at an address of the cloud.
            is_keyless = "credential" in str(problem).lower() or "169.254." in str(problem)
            reason = "NoCredentials" if is_keyless else "Unreachable"
        case StoreRefused():
            reason = _refusal(str(problem))
        case _:
            reason = "Refused"
    return SnapshotFailed(f"{reason}: {problem}")


def _refusal(text: str) -> str:
    """Say in one word why the bucket refused."""
    lower = text.lower()
    if "nosuchbucket" in lower or ("bucket" in lower and "exist" in lower):
        return "BucketMissing"
    if "credential" in lower:
        return "NoCredentials"
    return "AccessDenied"
