"""The listeners of a broker, made from its settings.

Here: which listeners there are, what each asks of its clients, opening and closing them together.
All of them share the limits on connections and memory.
Next door: one listener (gateways/listener.py), its settings (settings/listeners.py,
settings/security.py), how clients prove who they are (logins.py), the listeners of other clients
(fluvio_door.py, pulsar_door.py).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from kafscale.access.quotas import QuotaKey
from kafscale.broker import derived
from kafscale.broker.fluvio_door import FluvioDoor
from kafscale.broker.other_doors import CannotListen, ClosedDoor, OtherDoor
from kafscale.broker.pulsar_door import PulsarDoor
from kafscale.engine.access.authentication import Authentication
from kafscale.engine.engine import Engine
from kafscale.gateways.audit_log import AuditLog, Fields
from kafscale.gateways.client_log import ClientLog
from kafscale.gateways.connection import Connection, Session
from kafscale.gateways.connections import HARMLESS, Connections
from kafscale.gateways.kafka import router
from kafscale.gateways.kafka.calls.call import KafkaContext
from kafscale.gateways.kafka.calls.fetch_sessions import FetchSessions
from kafscale.gateways.kafka.calls.login import SUCCEEDED, Login, LoginReport, LoginRules
from kafscale.gateways.kafka.session import KafkaSession
from kafscale.gateways.listener import Listener
from kafscale.gateways.tls import Tls, TlsFiles
from kafscale.model.access import Authorizer
from kafscale.model.audit import AuditEvent, AuditKind
from kafscale.model.clock import Clock, Dice
from kafscale.model.endpoints import Endpoint
from kafscale.model.errors import AuthenticationFailed
from kafscale.settings.config import Config
from kafscale.settings.listeners import ListenerSetting
from kafscale.settings.security import ListenerTls, is_authenticated, mechanisms_of, tls_of
from kafscale.tasks import Tasks

_NO_LOGIN: Final = (
    "off: its clients cannot prove who they are, and a listener asks its own for that"
)
_CERTIFICATE: Final = "SSL"  # where the name of a mechanism is asked for
_NOT_MAPPED: Final = "not_mapped"


def build_doors(
    config: Config,
    engine: Engine,
    tasks: Tasks,
    clock: Clock,
    dice: Dice,
    buffered_bytes: Callable[[], int],
    authorizer: Authorizer,
    authentication: Authentication,
    audit_line: Callable[[Fields], None] | None = None,
) -> "Doors":
    """The listeners that the settings ask for.

    `buffered_bytes`: what logs hold beyond requests. `audit_line`: where the audit log goes; None:
    to the broker's log.
    """
    client_log = ClientLog(clock)
    audit = AuditLog(
        clock, lambda *labels: engine.metrics.audit_events.labels(*labels).inc(), audit_line
    )
    context = KafkaContext(
        engine,
        FetchSessions(dice),
        config.network.request_timeout,
        router.OFFERED,
        client_log,
        authorizer=authorizer,
        audit=audit,
    )

    def open_door(setting: ListenerSetting) -> Door:
        tls = make_tls(setting.name, tls_of(config.tls, setting))
        mechanisms = mechanisms_of(config.sasl, setting)
        rules = LoginRules(
            authentication,
            mechanisms,
            config.sasl.timeout,
            config.sasl.failure_delay,
            config.sasl.session_lifetime,
        )

        def make_session(connection: Connection) -> KafkaSession:
            if mechanisms:
                report = _report_logins(connection, engine, audit)
                return KafkaSession(connection, context, tasks, Login(rules, clock, report))
            if tls is not None:
                _take_certificate(connection, tls, engine, audit)
            return KafkaSession(connection, context, tasks)

        return Door(setting, make_session, tls)

    def count_refusal(reason: str) -> None:
        metrics = engine.metrics
        series = metrics.client_errors if reason in HARMLESS else metrics.bad_requests
        series.labels(reason).inc()

    def charge_connection(address: str) -> float:
        if not engine.quotas.limits_connections:
            return 0.0
        seconds = engine.quotas.charge_connection(address)
        engine.metrics.throttled(QuotaKey.CONNECTIONS, seconds)
        return seconds

    connections = Connections(
        derived.connection_limits(config),
        clock,
        buffered_bytes=buffered_bytes,
        refusals=count_refusal,
        client_log=client_log,
        audit=audit,
        penalty_s=charge_connection,
    )
    others: dict[str, OtherDoor] = {}
    asks_who = _asks_who(config)
    if config.pulsar.enabled:
        others["pulsar"] = (
            ClosedDoor(_NO_LOGIN)
            if asks_who
            else PulsarDoor(config, engine, tasks, connections, client_log, authorizer)
        )
    if config.fluvio.enabled:
        others["fluvio"] = (
            ClosedDoor(_NO_LOGIN)
            if asks_who
            else FluvioDoor(config, engine, tasks, connections, client_log, authorizer, audit)
        )
    return Doors([open_door(setting) for setting in config.all_listeners], connections, others)


def _asks_who(config: Config) -> bool:
    """Whether a door without authentication would let in clients that other doors refuse."""
    is_asked = any(is_authenticated(config.tls, setting) for setting in config.all_listeners)
    return is_asked and not config.broker.allow_insecure_bind


def _report_logins(connection: Connection, engine: Engine, audit: AuditLog) -> LoginReport:
    """Count the logins of a connection, and write failed ones to the audit log."""

    def report(mechanism: str, outcome: str, claimed: str) -> None:
        engine.metrics.authentications.labels(mechanism, outcome).inc()
        if outcome != SUCCEEDED:
            audit.write(
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


def _take_certificate(connection: Connection, tls: Tls, engine: Engine, audit: AuditLog) -> None:
    """Let a client be who its certificate says; end the connection if no rule fits."""
    try:
        connection.principal = tls.principal_of(connection.certificate)
    except AuthenticationFailed as problem:
        engine.metrics.authentications.labels(_CERTIFICATE, _NOT_MAPPED).inc()
        audit.write(
            AuditEvent(
                AuditKind.AUTHENTICATION_FAILED,
                outcome=_NOT_MAPPED,
                principal="",
                address=connection.peer,
                operation=_CERTIFICATE,
                listener=connection.listener,
                detail=str(problem),
            )
        )
        connection.abort("certificate_not_mapped", str(problem))


def make_tls(name: str, files: ListenerTls | None) -> Tls | None:
    """Open the certificates of a listener, None if it has none. Raises UnusableCertificates."""
    return None if files is None else Tls(name, TlsFiles(*files))


class Door(NamedTuple):
    """A listener as the settings have it."""

    setting: ListenerSetting
    make_session: Callable[[Connection], Session]
    tls: Tls | None


class Doors:
    """All listeners of a broker and all connections that came in by them."""

    def __init__(
        self,
        doors: Sequence[Door],
        connections: Connections,
        others: Mapping[str, OtherDoor],
    ) -> None:
        """Make a Kafka listener for each; none is open yet. `others`: doors by their names."""
        self.connections = connections
        self.listeners = [
            Listener(one.setting.name, one.make_session, connections) for one in doors
        ]
        self._doors = doors
        self._others = others
        self._tasks = Tasks()

    @property
    def notes(self) -> dict[str, str]:
        """Which doors are closed, and why, for the person who has started the broker."""
        return {name: door.note for name, door in self._others.items() if door.note}

    async def open(self) -> dict[str, Endpoint]:
        """Begin to listen everywhere; gives what clients are told, by listener name."""
        endpoints = {}
        for (setting, _, tls), listener in zip(self._doors, self.listeners, strict=True):
            try:
                port = await listener.open(setting.host, setting.port, tls)
            except OSError as problem:
                raise CannotListen(
                    f"cannot listen on {setting.host}:{setting.port}: {problem.strerror or problem}"
                ) from None
            endpoints[setting.name] = setting.advertised(port)
        for one in self._doors:
            if one.tls is not None:
                self._tasks.spawn(one.tls.keep_reread(), "certificates")
        for door in self._others.values():
            endpoints |= await door.open()
        return endpoints

    def why_not_ready(self) -> list[str]:
        """The listeners that accept no connections."""
        closed = [f"listener {one.name} is not open" for one in self.listeners if not one.is_open]
        return closed + [why for door in self._others.values() for why in door.why_not_ready()]

    def close(self) -> None:
        """Accept no new connections; those that are open go on."""
        for listener in self.listeners:
            listener.close()
        for door in self._others.values():
            door.close()

    def stop_reading(self) -> None:
        """Take no more requests; those under way will be answered."""
        self.connections.stop_reading()

    async def aclose(self) -> None:
        """Close every listener and end every connection."""
        self.close()
        await self._tasks.aclose()
        await self.connections.aclose()
