"""Whether a broker would start with a configuration, and run well.

Here: one function per check. Each changes as little as it can: the data folder is not created, and
what the store is asked to hold for a moment is deleted again.
Next door: the command (cli/serving/doctor.py).
"""

import asyncio
import errno
import http.client
import os
import resource
import secrets
import shutil
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from kafscale.admin.brokers.page_trust import trust_of_broker
from kafscale.admin.bucket.compaction_backlog import read_backlog
from kafscale.admin.bucket.pairing import require_pair
from kafscale.admin.errors import AdminError
from kafscale.admin.units import human_bytes
from kafscale.log.upkeep.cleanable import CompactionLimits
from kafscale.model.errors import KafscaleError
from kafscale.objects.capability_check import check_create_if_absent
from kafscale.settings.config import Config
from kafscale.settings.stores import open_metadata, open_store
from kafscale.system import SystemClock

_ANSWER_WITHIN_S: Final = 3.0
_SPARE_FILES: Final = 64  # for the store, the metadata and the log, beside connections
_TIGHT_BYTES: Final = 5 * 2**30
_NAMED_TOPICS: Final = 5
_FULL_BYTES: Final = 256 * 2**20


class CheckResult(NamedTuple):
    """What one check found."""

    verdict: Literal["ok", "warn", "fail"]
    subject: str
    text: str


def check_all(config: Config) -> Iterator[CheckResult]:
    """Yield every check's result, as soon as it is there."""
    for setting in config.without_effect:
        yield CheckResult("warn", "settings", f"{setting} has no effect: every client chooses it")
    trust = None
    try:
        trust = trust_of_broker(config.tls)
    except AdminError as problem:
        yield CheckResult("fail", "certificates", str(problem))
    running = broker_answers(config.broker.host, config.broker.metrics_port, trust)
    for listener in config.all_listeners:
        yield check_port("clients", listener.host, listener.port, running)
    yield check_port("metrics", config.broker.host, config.broker.metrics_port, running)
    if running:
        yield check_running(config.broker.host, config.broker.metrics_port, trust)
    yield asyncio.run(check_store(config))
    yield asyncio.run(check_metadata(config, running))
    yield from asyncio.run(check_compaction(config))
    yield check_disk(Path(config.broker.data_dir), config.store_kind == "files")
    yield check_open_files(config.network.max_connections)


def broker_answers(host: str, metrics_port: int, trust: ssl.SSLContext | None = None) -> bool:
    """Whether a Kafscale broker answers at the metrics port. `trust`: the port has TLS."""
    if metrics_port == 0:
        return False
    try:
        return b"kafscale_" in _get(host, metrics_port, "/metrics", trust)
    except (OSError, http.client.HTTPException):
        return False


def check_running(host: str, metrics_port: int, trust: ssl.SSLContext | None = None) -> CheckResult:
    """Whether the broker that runs is ready for clients, by its own word."""
    try:
        said = msgspec.json.decode(_get(host, metrics_port, "/ready", trust), type=_Readiness)
    except (OSError, http.client.HTTPException, msgspec.MsgspecError) as bad:
        return CheckResult("warn", "broker", f"it does not say whether it is ready: {bad}")
    if said.ready:
        return CheckResult("ok", "broker", "running and ready")
    return CheckResult("fail", "broker", f"running, not ready: {'; '.join(said.reasons)}")


class _Readiness(msgspec.Struct):
    """What a broker's /ready says."""

    ready: bool
    reasons: list[str] = []


def _get(host: str, port: int, path: str, trust: ssl.SSLContext | None) -> bytes:
    where, patience_s = _reachable(host), _ANSWER_WITHIN_S
    connection = (
        http.client.HTTPConnection(where, port, timeout=patience_s)
        if trust is None
        else http.client.HTTPSConnection(where, port, timeout=patience_s, context=trust)
    )
    try:
        connection.request("GET", path)
        return connection.getresponse().read(1_000_000)
    finally:
        connection.close()


def _reachable(host: str) -> str:
    """Where to reach a listener on this machine: a wildcard is no address to connect to."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def check_port(subject: str, host: str, port: int, running: bool) -> CheckResult:
    """Whether the broker could listen there, or already does."""
    if port == 0:
        return CheckResult("ok", subject, f"any free port of {host}")
    address = f"{host}:{port}"
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as bad:
        if bad.errno != errno.EADDRINUSE:
            return CheckResult("fail", subject, f"cannot listen on {address}: {bad.strerror}")
        if running:
            return CheckResult("ok", subject, f"{address} is in use: a kafscale broker is running")
        return CheckResult("fail", subject, f"{address} is in use by another program")
    return CheckResult("ok", subject, f"{address} is free")


async def check_store(config: Config) -> CheckResult:
    """Whether objects can be written, and create-if-absent is what it says."""
    if config.store_kind == "memory":
        return CheckResult("warn", "store", "memory: everything is gone when the broker stops")
    where = f"bucket {config.s3.bucket}" if config.store_kind == "s3" else "files"
    folder = Path(config.broker.data_dir)
    if config.store_kind == "files" and not folder.exists():
        return _check_parent("store", folder)

    async def probe() -> None:
        store = open_store(config)
        try:
            await check_create_if_absent(store, config.storage.namespace, secrets.token_hex(8))
        finally:
            await store.aclose()

    return await _tried("store", f"{where}: create-if-absent works", probe)


async def check_metadata(config: Config, running: bool) -> CheckResult:
    """Whether etcd answers, or the metadata file opens, and belongs to the bucket.

    A file that a running broker holds is left alone.
    """
    where = f"etcd at {', '.join(config.etcd.targets())} answers"
    if not config.etcd.endpoints:
        folder = Path(config.broker.data_dir)
        if not folder.exists():
            return _check_parent("metadata", folder)
        if running:
            return CheckResult("ok", "metadata", "in use by the running broker")
        where = f"opens under {folder}"

    async def open_and_read() -> None:
        async with AsyncExitStack() as opened:
            metadata = open_metadata(config, SystemClock())
            opened.push_async_callback(metadata.aclose)
            store = open_store(config)
            opened.push_async_callback(store.aclose)
            await require_pair(metadata, store, config.storage.namespace)

    return await _tried("metadata", where, open_and_read)


async def check_compaction(config: Config) -> list[CheckResult]:
    """Whether a compacted topic waits for the pipeline; no result where none is compacted."""
    is_new = config.store_kind == "files" and not Path(config.broker.data_dir).exists()
    if config.store_kind == "memory" or is_new:
        return []
    rules = config.storage.compaction
    limits = CompactionLimits(rules.max_bytes, rules.memory_bytes, rules.cpu_share)
    namespace = config.storage.namespace
    store = open_store(config)
    try:
        backlog = await read_backlog(store, namespace, config.topic_defaults, limits)
    except KafscaleError as bad:
        return [CheckResult("fail", "compaction", " ".join(str(bad).split()))]
    finally:
        await store.aclose()
    if not backlog.topics:
        return []
    if not backlog.too_large:
        return [CheckResult("ok", "compaction", "brokers compact all compacted topics themselves")]
    largest = sorted(backlog.too_large, key=lambda name: backlog.too_large[name], reverse=True)
    size = human_bytes(sum(backlog.too_large.values()))
    named = ", ".join(largest[:_NAMED_TOPICS])
    more = f" and {len(largest) - _NAMED_TOPICS} more" if len(largest) > _NAMED_TOPICS else ""
    command = f"kafscale pipeline compact --by-key --topic {largest[0]}"
    text = f"{named}{more}: {size} are new, too large for brokers; run {command}"
    return [CheckResult("warn", "compaction", text)]


async def _tried(subject: str, text: str, work: Callable[[], Awaitable[None]]) -> CheckResult:
    try:
        await work()
    except (KafscaleError, OSError) as bad:
        return CheckResult("fail", subject, " ".join(str(bad).split()) or type(bad).__name__)
    return CheckResult("ok", subject, text)


def _check_parent(subject: str, folder: Path) -> CheckResult:
    parent = _nearest(folder)
    if os.access(parent, os.W_OK | os.X_OK):
        return CheckResult("ok", subject, f"{folder} does not exist yet and can be created")
    return CheckResult(
        "fail", subject, f"{folder} does not exist and {parent} cannot be written to"
    )


def _nearest(folder: Path) -> Path:
    """The folder, or the closest one above it that exists."""
    absolute = folder.absolute()
    return next(path for path in (absolute, *absolute.parents) if path.exists())


def check_disk(folder: Path, holds_objects: bool) -> CheckResult:
    """Whether there is room; a full disk stops a broker on files, and all metadata."""
    free = shutil.disk_usage(_nearest(folder)).free
    wanted = _TIGHT_BYTES if holds_objects else _FULL_BYTES
    text = f"{human_bytes(free)} free for {folder}, at least {human_bytes(wanted)} wanted"
    if free < _FULL_BYTES:
        return CheckResult("fail", "disk", text)
    if holds_objects and free < _TIGHT_BYTES:
        return CheckResult("warn", "disk", text)
    return CheckResult("ok", "disk", text)


def check_open_files(max_connections: int) -> CheckResult:
    """Whether the system allows as many connections as the configuration does."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max_connections + _SPARE_FILES
    needed = f"{wanted} wanted: network.maxConnections is {max_connections}"
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        return CheckResult("warn", "open files", f"{allowed} allowed, {needed} (see ulimit -n)")
    count = "no limit" if allowed == resource.RLIM_INFINITY else f"{allowed} allowed"
    return CheckResult("ok", "open files", f"{count}, {needed}")
