"""The listeners of a broker, made from its settings.

Here: which listeners there are, what each asks of its clients, opening and closing them together.
All of them share the limits on connections and memory.
Next door: one listener (gateways/listener.py), its settings (settings/listeners.py,
settings/security.py), how clients prove who they are (logins.py, door_security.py), the
listeners of other clients (fluvio_door.py, pulsar_door.py).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from kafscale.access.quotas import QuotaKey
from kafscale.broker import derived
from kafscale.broker.doors.door_security import (
    make_tls,
    report_certificates,
    report_logins,
    take_certificate,
)
from kafscale.broker.doors.fluvio_door import FluvioDoor
from kafscale.broker.doors.other_doors import CannotListen, ClosedDoor, OtherDoor
from kafscale.broker.doors.pulsar_door import PulsarDoor
from kafscale.engine.access.authentication import Authentication
from kafscale.engine.engine import Engine
from kafscale.gateways.audit_log import AuditLog, Fields
from kafscale.gateways.client_log import ClientLog
from kafscale.gateways.connection import Connection, Session
from kafscale.gateways.connections import HARMLESS, Connections
from kafscale.gateways.kafka import router
from kafscale.gateways.kafka.calls.call import KafkaContext
from kafscale.gateways.kafka.calls.fetch_sessions import FetchSessions
from kafscale.gateways.kafka.calls.login import Login, LoginRules
from kafscale.gateways.kafka.session import KafkaSession
from kafscale.gateways.listener import CertificateReport, Listener
from kafscale.gateways.tls import Tls
from kafscale.model.clock import Clock, Dice
from kafscale.model.endpoints import Endpoint
from kafscale.model.security.access import Authorizer
from kafscale.model.tenancy import Tenancy
from kafscale.settings.config import Config
from kafscale.settings.listeners import ListenerSetting
from kafscale.settings.security import (
    fluvio_listener,
    is_authenticated,
    mechanisms_of,
    tls_of,
)
from kafscale.tasks import Tasks

_NO_LOGIN: Final = (
    "off: its clients cannot prove who they are, and a listener asks its own for that"
)
_NO_CERTIFICATE: Final = (
    "off: a listener asks its clients who they are; with fluvio.protocol SSL and fluvio.clientAuth "
    "required this door does, too"
)


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
        tenancy=Tenancy(config.pulsar.tenant, config.pulsar.namespace),
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
                report = report_logins(connection, engine, audit, "SaslAuthenticate")
                return KafkaSession(connection, context, tasks, Login(rules, clock, report))
            if tls is not None:
                take_certificate(connection, tls, engine, audit)
            return KafkaSession(connection, context, tasks)

        return Door(setting, make_session, tls, report_certificates(setting.name, engine, audit))

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
            ClosedDoor(f"{_NO_LOGIN}; pulsar.listener has them asked")
            if asks_who and config.pulsar.listener is None
            else PulsarDoor(
                config, engine, tasks, connections, client_log, authorizer, authentication, audit
            )
        )
    if config.fluvio.enabled:
        asked = is_authenticated(config.tls, fluvio_listener(config.fluvio))
        others["fluvio"] = (
            ClosedDoor(_NO_CERTIFICATE)
            if asks_who and not asked
            else FluvioDoor(config, engine, tasks, connections, client_log, authorizer, audit)
        )
    return Doors([open_door(setting) for setting in config.all_listeners], connections, others)


def _asks_who(config: Config) -> bool:
    """Whether a door without authentication would let in clients that other doors refuse."""
    is_asked = any(is_authenticated(config.tls, setting) for setting in config.all_listeners)
    return is_asked and not config.broker.allow_insecure_bind


class Door(NamedTuple):
    """A listener as the settings have it."""

    setting: ListenerSetting
    make_session: Callable[[Connection], Session]
    tls: Tls | None
    report_certificate: CertificateReport


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
            Listener(one.setting.name, one.make_session, connections, one.report_certificate)
            for one in doors
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
        for (setting, _, tls, _), listener in zip(self._doors, self.listeners, strict=True):
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
