"""The console's process: its services, its watcher, its socket.

Next door: the routes (app.py), what settings mean (cli/console/console.py).
"""

import contextlib
import ssl
from collections.abc import Mapping, Sequence

from aiohttp import web

from kafscale.admin.records.sending import PlacedRecord, SentRecord, send_records
from kafscale.console.activity import ActivityLog
from kafscale.console.app import ConsoleApp
from kafscale.console.audit_topic import AuditTopic
from kafscale.console.bucket import ConsoleBucket
from kafscale.console.call import Handlers, Services
from kafscale.console.cluster import Cluster
from kafscale.console.entry.doorway import Doorway
from kafscale.console.entry.static_files import StaticFiles
from kafscale.console.watch.watcher import ClusterWatcher
from kafscale.model.clock import Clock, Dice
from kafscale.settings.config import Config
from kafscale.tasks import Tasks

_SHUT_WITHIN_S = 2.0


class PortTaken(Exception):
    """Another program listens there."""


def open_services(
    config: Config,
    bootstrap: str,
    properties: Mapping[str, str],
    clock: Clock,
    dice: Dice,
    version: str,
    bucket: ConsoleBucket | None,
    no_bucket: str,
) -> Services:
    """Make what pages use; brokers are asked later."""
    cluster = Cluster(bootstrap, properties)
    audit = _audit_topic(cluster, config.console.audit_topic)
    return Services(
        clock=clock,
        version=version,
        cluster=cluster,
        watcher=ClusterWatcher(cluster, clock, config.console.metrics),
        activity=ActivityLog(clock, audit.put if audit is not None else None),
        audit=audit,
        prices=config.prices,
        bucket=bucket,
        no_bucket=no_bucket,
        read_only=config.console.read_only,
        show_values=config.console.show_values,
        flush_interval_ms=config.flush_interval_ms,
        prometheus=config.console.prometheus or "",
        started_s=clock.elapsed_s(),
        own_key=dice.token(32),
    )


def _audit_topic(cluster: Cluster, topic: str | None) -> AuditTopic | None:
    if topic is None:
        return None

    async def send(records: Sequence[PlacedRecord]) -> list[SentRecord]:
        return await cluster.run(lambda: send_records(cluster.settings, topic, records))

    return AuditTopic(send)


def load_pages() -> Handlers:
    """What answers the API. Its code takes 7 MB, which a console without visitors need not have."""
    from kafscale.console.pages import HANDLERS

    return HANDLERS


class ConsoleServer:
    """Serves until stopped."""

    def __init__(self, services: Services, doorway: Doorway, files: StaticFiles) -> None:
        self._services = services
        self._app = ConsoleApp(services, doorway, load_pages, files).build()
        self._tasks = Tasks()
        self._runner: web.AppRunner | None = None

    async def start(
        self, host: str, port: int, cert_file: str | None = None, key_file: str | None = None
    ) -> int:
        """Listen and begin to watch; gives the port. PortTaken if it is in use."""
        context = None
        if cert_file:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(cert_file, key_file)
        self._runner = web.AppRunner(
            self._app, access_log=None, shutdown_timeout=_SHUT_WITHIN_S, keepalive_timeout=75
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, ssl_context=context)
        try:
            await site.start()
        except OSError as problem:
            await self._runner.cleanup()
            raise PortTaken(f"console: port {port} at {host}: {problem.strerror}") from problem
        self._tasks.spawn(self._services.watcher.run(), "watcher")
        if self._services.audit is not None:
            self._tasks.spawn(self._services.audit.run(), "audit topic")
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop listening and watching."""
        with contextlib.suppress(TimeoutError):
            if self._runner is not None:
                await self._runner.cleanup()
        await self._tasks.aclose()
        await self._services.background.aclose()
        self._services.cluster.close()
