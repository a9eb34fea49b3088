"""The process: one life of a proxy, from its settings to its last answer."""

import asyncio
import contextlib
import gc
import signal
import ssl
import sys
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
import uvloop

from kafscale.gateways.audit_log import AuditLog
from kafscale.gateways.client_log import ClientLog
from kafscale.gateways.connections import ConnectionLimits, Connections
from kafscale.gateways.ops_http import OpsServer
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import KafscaleError
from kafscale.proxy.access.front import FrontAccess
from kafscale.proxy.connections.doors import AddressTaken, ProxyDoors
from kafscale.proxy.context import ProxyContext
from kafscale.proxy.coordination.members import Members
from kafscale.proxy.coordination.offsets import VirtualOffsets
from kafscale.proxy.coordination.topics import TopicMap
from kafscale.proxy.metrics import ProxyMetrics
from kafscale.proxy.partitions.open_partitions import PhysicalPartitions
from kafscale.proxy.partitions.reading import LaneReader, PhysicalBlocks
from kafscale.proxy.partitions.tail import NewestBatches
from kafscale.proxy.settings import Kafka, ProxySettings, read_address
from kafscale.proxy.upstream.acls import UpstreamAcls
from kafscale.proxy.upstream.appending import Appender
from kafscale.proxy.upstream.cluster import Upstream
from kafscale.proxy.upstream.ledger import Ledger
from kafscale.proxy.upstream.link import Dialling, LinkCounts, UpstreamLost
from kafscale.proxy.upstream.login import Secrets
from kafscale.settings.values import ConfigError
from kafscale.system import SystemClock, SystemDice
from kafscale.tasks import Tasks

logger = structlog.get_logger()

_LEAVE_S: Final = 10.0
_PAUSE_S: Final = 0.5
_MOST_ANSWER: Final = 256 << 20


def run(settings: ProxySettings) -> int:
    """Run a proxy until a signal stops it."""
    try:
        uvloop.run(_serve(settings))
    except KafscaleError as problem:
        print(f"kafscale: {problem}", file=sys.stderr)  # noqa: T201 - for the person who started it
        return 1
    return 0


async def _serve(settings: ProxySettings) -> None:
    leaving = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, leaving.set)
    proxy = Proxy(settings, SystemClock(), SystemDice())
    try:
        starting = proxy.tasks.spawn(proxy.start(), "start", awaited=True)
        asked = proxy.tasks.spawn(leaving.wait(), "signal", awaited=True)
        await asyncio.wait((starting, asked), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            return
        starting.result()
        gc.collect()
        gc.freeze()
        await leaving.wait()
        logger.info("proxy_stopping")
        await proxy.leave()
    finally:
        await proxy.aclose()
    logger.info("proxy_stopped")


def open_upstream(
    settings: ProxySettings, clock: Clock, dice: Dice, counts: LinkCounts | None = None
) -> Upstream:
    """The upstream as the settings describe it; no connection is made yet."""
    owner = Connections(
        ConnectionLimits(max_connections=100_000, max_frame_bytes=_MOST_ANSWER),
        clock,
        buffered_bytes=lambda: 0,
        refusals=lambda reason: None,
        client_log=ClientLog(clock),
        audit=AuditLog(clock, lambda kind, outcome: None),
    )
    sasl = settings.kafka.sasl
    secrets = None if sasl is None else Secrets(sasl.mechanism, sasl.username, settings.password)
    counted = LinkCounts() if counts is None else counts
    dialling = Dialling(owner, _client_tls(settings.kafka), secrets, counted)
    return Upstream(settings.bootstrap, dialling, dice)


def _client_tls(kafka: Kafka) -> ssl.SSLContext | None:
    files = kafka.tls
    if files is None:
        return None
    try:
        context = ssl.create_default_context(cafile=files.ca_cert_path)
        if files.cert_path is not None:
            context.load_cert_chain(files.cert_path, files.key_path)
    except OSError as problem:
        raise ConfigError(f"kafka.tls: {problem.strerror or problem}") from None
    return context


class Proxy:
    """All parts of a proxy."""

    def __init__(self, settings: ProxySettings, clock: Clock, dice: Dice) -> None:
        self._settings = settings
        self.tasks = Tasks()
        self.metrics = metrics = ProxyMetrics()
        counts = LinkCounts(
            metrics.to_upstream,
            metrics.from_upstream,
            metrics.upstream_errors.labels("connection"),
        )
        self.upstream = open_upstream(settings, clock, dice, counts)
        self.ledger = Ledger(self.upstream, clock, self.tasks, settings.ledger_topic)
        self.members = Members(settings.id, self.ledger, clock)
        tail = NewestBatches(settings.tail_bytes)
        blocks = PhysicalBlocks(self.upstream, settings.cache_bytes, self.tasks)
        self.partitions = PhysicalPartitions(
            self.upstream,
            self.ledger,
            self.members,
            Appender(self.upstream, self.tasks, metrics.upstream_errors.labels("append")),
            tail,
            blocks,
            clock,
            dice,
            self.tasks,
            metrics.take_overs,
        )
        client_log = ClientLog(clock)
        audit = AuditLog(clock, lambda *labels: metrics.audit_events.labels(*labels).inc())
        rules = settings.acl_rules
        self.acls = None if rules is None else UpstreamAcls(self.upstream, rules)
        self.context = ProxyContext(
            self.upstream,
            TopicMap(settings.rules, self.upstream, self.ledger),
            self.members,
            self.partitions,
            LaneReader(blocks, tail),
            VirtualOffsets(self.ledger),
            clock,
            self.tasks,
            settings.ledger_topic,
            metrics,
            asyncio.Event(),
            acls=self.acls,
            access=None
            if self.acls is None
            else FrontAccess(self.acls.authorizer, audit, clock, client_log),
        )
        most = settings.listen.max_connections
        self.doors = ProxyDoors(settings.front_doors, most, self.context, client_log, audit, dice)
        self.is_started = self.is_leaving = False
        self.page = OpsServer(self._show_metrics, self._checks)
        metrics.sample(
            connections=lambda: len(self.doors.connections),
            partitions=lambda: len(self.partitions),
            lanes=lambda: self.partitions.lane_count,
            proxies=lambda: len(self.members.alive),
        )

    async def _show_metrics(self) -> bytes:
        return self.metrics.registry.render()

    async def _checks(self) -> dict[str, str | None]:
        return {
            "started": None if self.is_started else "the proxy has not read what proxies share",
            "upstream": None if self.ledger.is_followed else "the cluster behind does not answer",
            "leaving": "the proxy hands over to others" if self.is_leaving else None,
        }

    async def start(self) -> None:
        """Read what proxies share, then let clients in."""
        page = self._settings.metrics.address
        if page:
            where = read_address(page, "metrics.address")
            try:
                await self.page.start(where.host, where.port)
            except OSError as problem:
                raise AddressTaken(f"metrics.address: {problem.strerror or problem}") from None
        await self._until_reached(self.upstream.refresh)
        if self.acls is not None:
            await self._until_reached(self.acls.load)
            self.tasks.spawn(self.acls.keep_loading(), "acls")
        await self.ledger.open()
        await self.doors.open_brokers()
        endpoints = await self.doors.open()
        await self.members.join(endpoints)
        self.context.opened.set()
        self.tasks.spawn(self.members.keep_saying(), "beat")
        self.tasks.spawn(self.partitions.keep_watching(), "watch")
        self.tasks.spawn(self.doors.keep_looking(), "doors")
        self.is_started = True
        address = ",".join(map(str, endpoints.values()))
        logger.info("proxy_started", address=address, node=self.members.own_node)

    async def _until_reached(self, ask: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await ask()
                return
            except (UpstreamLost, TimeoutError) as problem:
                logger.warning("upstream_away", reason=str(problem))
                await asyncio.sleep(_PAUSE_S)

    async def leave(self) -> None:
        """Hand over: other proxies serve from now on; what is on its way is answered."""
        self.is_leaving = True
        with contextlib.suppress(KafscaleError, TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                await self.members.leave()
                await self.partitions.finish(_LEAVE_S / 2)
        self.doors.connections.stop_reading()

    async def aclose(self) -> None:
        """End everything."""
        await self.doors.aclose()
        await self.page.stop()
        await self.tasks.aclose()
        self.upstream.close()
