"""The addresses of a proxy: for each listener its own, and one for each broker of the upstream.

Clients ask a partition's leader for its records and a group's coordinator for the group, each at
its own address. Behind the address that stands for an upstream broker, requests go to that broker.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from kafscale.gateways.audit_log import AuditLog
from kafscale.gateways.client_log import ClientLog
from kafscale.gateways.connection import Connection
from kafscale.gateways.connections import ConnectionLimits, Connections
from kafscale.gateways.kafka.calls.login import Login, LoginReport, LoginRules
from kafscale.gateways.listener import Listener
from kafscale.gateways.tls import Tls, TlsFiles
from kafscale.model.clock import Dice
from kafscale.model.endpoints import Endpoint
from kafscale.model.errors import AuthenticationFailed, KafscaleError
from kafscale.model.security.audit import ALLOWED, AuditEvent, AuditKind
from kafscale.proxy.access.logins import FileUsers
from kafscale.proxy.connections.session import ProxySession
from kafscale.proxy.context import ProxyContext
from kafscale.proxy.front_doors import FrontDoor

logger = structlog.get_logger()

_LOOK_S: Final = 1.0
_LOGIN_S: Final = 10.0
_FAILURE_DELAY_S: Final = 0.2


class AddressTaken(KafscaleError):
    """An address cannot be had."""


class _Door:
    """One listener: its certificates, who may log in, and its open sockets."""

    def __init__(self, settings: FrontDoor, dice: Dice) -> None:
        """Read certificates and users. Raises UnusableCertificates, ConfigError."""
        self.settings = settings
        self.tls: Tls | None = None
        self.logins: LoginRules | None = None
        self.open: dict[int | None, Listener] = {}  # by the upstream's broker; None: the proxy's
        if settings.tls is not None:
            self.tls = Tls(settings.name or "proxy", TlsFiles(*settings.tls))
        if settings.mechanisms:
            self.logins = LoginRules(
                FileUsers(settings.users_file, list(settings.mechanisms), dice),
                settings.mechanisms,
                _LOGIN_S,
                _FAILURE_DELAY_S,
                None,
            )

    def name_of(self, node: int | None) -> str:
        """What the log calls a listening socket."""
        own = self.settings.name
        if node is None:
            return own or "proxy"
        return f"{own}-broker-{node}" if own else f"broker-{node}"


class ProxyDoors:
    """All listening sockets of a proxy."""

    def __init__(
        self,
        settings: Sequence[FrontDoor],
        most_connections: int,
        context: ProxyContext,
        client_log: ClientLog,
        audit: AuditLog,
        dice: Dice,
    ) -> None:
        """Read certificates; nothing is open yet. Raises UnusableCertificates, ConfigError."""
        self._doors = [_Door(one, dice) for one in settings]
        self._context = context
        self._audit = audit
        self.connections = Connections(
            ConnectionLimits(max_connections=most_connections),
            context.clock,
            buffered_bytes=lambda: 0,
            refusals=lambda reason: context.metrics.refused.labels(reason).inc(),
            client_log=client_log,
            audit=audit,
        )

    async def open(self) -> dict[str, Endpoint]:
        """Listen at the proxy's own addresses; gives what the clients of each are told."""
        found: dict[str, Endpoint] = {}
        for door in self._doors:
            settings = door.settings
            given = await self._listen(door, None, settings.address.port)
            found[settings.name] = Endpoint(settings.told.host, settings.told.port or given)
        return found

    async def open_brokers(self) -> None:
        """Listen for every broker of the upstream that has no address here yet."""
        for door in self._doors:
            first = door.settings.first_broker_port
            known = self._context.doors.setdefault(door.settings.name, {})
            for node in sorted(self._context.upstream.nodes.keys() - door.open.keys()):
                given = await self._listen(door, node, first + node if first else 0)
                known[node] = Endpoint(door.settings.told.host, given)

    async def _listen(self, door: _Door, node: int | None, port: int) -> int:
        def make_session(connection: Connection) -> ProxySession:
            rules = door.logins
            report = self._report_logins(connection)
            login = None if rules is None else Login(rules, self._context.clock, report)
            if login is None and door.tls is not None:
                self._take_certificate(connection, door.tls)
            return ProxySession(connection, self._context, node, login, door.settings.name)

        listener = Listener(door.name_of(node), make_session, self.connections)
        host = door.settings.address.host
        try:
            given = await listener.open(host, port, door.tls)
        except OSError as problem:
            raise AddressTaken(
                f"cannot listen on {host}:{port}: {problem.strerror or problem}"
            ) from None
        door.open[node] = listener
        return given

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
            for door in self._doors:
                if door.tls is not None:
                    door.tls.reread()
            try:
                await self.open_brokers()
            except AddressTaken as problem:
                logger.error("cannot_listen", reason=str(problem))

    def close(self) -> None:
        """Accept no new connections."""
        for door in self._doors:
            for listener in door.open.values():
                listener.close()

    async def aclose(self) -> None:
        """End all connections."""
        self.close()
        await self.connections.aclose()
