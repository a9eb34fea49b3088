"""The addresses of a proxy: one of its own, and one for each broker of the upstream.

Clients ask a partition's leader for its records and a group's coordinator for the group, each at
its own address. Behind the address that stands for an upstream broker, requests go to that broker.
"""

import asyncio
from typing import Final

import structlog

from kafscale.gateways.audit_log import AuditLog
from kafscale.gateways.client_log import ClientLog
from kafscale.gateways.connection import Connection
from kafscale.gateways.connections import ConnectionLimits, Connections
from kafscale.gateways.kafka.calls.login import Login, LoginReport
from kafscale.gateways.listener import Listener
from kafscale.gateways.tls import Tls, TlsFiles
from kafscale.model.endpoints import Endpoint
from kafscale.model.errors import AuthenticationFailed, KafscaleError
from kafscale.model.security.audit import ALLOWED, AuditEvent, AuditKind
from kafscale.proxy.connections.session import ProxySession
from kafscale.proxy.context import ProxyContext
from kafscale.proxy.settings import Listen, read_address

logger = structlog.get_logger()

_LOOK_S: Final = 1.0


class AddressTaken(KafscaleError):
    """An address cannot be had."""


class ProxyDoors:
    """All listening sockets of a proxy."""

    def __init__(
        self, settings: Listen, context: ProxyContext, client_log: ClientLog, audit: AuditLog
    ) -> None:
        """Read certificates; nothing is open yet. Raises UnusableCertificates."""
        self._settings = settings
        self._context = context
        self._audit = audit
        self._address = read_address(settings.address, "listen.address")
        files = settings.tls
        self._tls = (
            None
            if files is None
            else Tls(
                "proxy",
                TlsFiles(
                    files.cert_path or "",
                    files.key_path or "",
                    files.ca_cert_path,
                    "required" if files.require_client_cert else "none",
                ),
            )
        )
        self.connections = Connections(
            ConnectionLimits(max_connections=settings.max_connections),
            context.clock,
            buffered_bytes=lambda: 0,
            refusals=lambda reason: context.metrics.refused.labels(reason).inc(),
            client_log=client_log,
            audit=audit,
        )
        self._listeners: dict[int | None, Listener] = {}

    async def open(self) -> Endpoint:
        """Listen at the proxy's own address; gives what clients are told."""
        own = await self._listen(None, self._address.port)
        if self._settings.advertised_address is not None:
            said = read_address(self._settings.advertised_address, "listen.advertised_address")
            own = Endpoint(said.host, said.port)
        return own

    async def open_brokers(self) -> None:
        """Listen for every broker of the upstream that has no address here yet."""
        first = self._settings.first_broker_port
        for node in sorted(self._context.upstream.nodes.keys() - self._listeners.keys()):
            self._context.doors[node] = await self._listen(node, first + node if first else 0)

    async def _listen(self, node: int | None, port: int) -> Endpoint:
        def make_session(connection: Connection) -> ProxySession:
            rules = self._context.logins
            report = self._report_logins(connection)
            login = None if rules is None else Login(rules, self._context.clock, report)
            if login is None and self._tls is not None:
                self._take_certificate(connection, self._tls)
            return ProxySession(connection, self._context, node, login)

        name = "proxy" if node is None else f"broker-{node}"
        listener = Listener(name, make_session, self.connections)
        host = self._address.host
        try:
            given = await listener.open(host, port, self._tls)
        except OSError as problem:
            raise AddressTaken(
                f"cannot listen on {host}:{port}: {problem.strerror or problem}"
            ) from None
        self._listeners[node] = listener
        advertised = self._settings.advertised_address
        told = host if advertised is None else read_address(advertised, "advertised").host
        return Endpoint(told, given)

    def _take_certificate(self, connection: Connection, tls: Tls) -> None:
        try:
            connection.principal = tls.principal_of(connection.certificate)
        except AuthenticationFailed as problem:
            connection.abort("certificate_not_mapped", str(problem))

    def _report_logins(self, connection: Connection) -> LoginReport:
        def report(mechanism: str, outcome: str, claimed: str) -> None:
            if outcome != ALLOWED:
                self._audit.write(
                    AuditEvent(
                        AuditKind.AUTHENTICATION_FAILED,
                        outcome=outcome,
                        principal=f"User:{claimed}" if claimed else "",
                        address=connection.peer,
                        operation=mechanism,
                        api="SaslAuthenticate",
                        listener=connection.listener,
                    )
                )

        return report

    async def keep_looking(self) -> None:
        """Listen for brokers that join the upstream; take new certificates. Until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            self._audit.end_windows()
            if self._tls is not None:
                self._tls.reread()
            try:
                await self.open_brokers()
            except AddressTaken as problem:
                logger.error("cannot_listen", reason=str(problem))

    def close(self) -> None:
        """Accept no new connections."""
        for listener in self._listeners.values():
            listener.close()

    async def aclose(self) -> None:
        """End all connections."""
        self.close()
        await self.connections.aclose()
