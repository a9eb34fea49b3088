"""The listeners of a broker, made from its settings.

Here: which listeners there are, what each asks of its clients, opening and closing them together.
All of them share the limits on connections and memory.
Next door: one listener (gateways/listener.py), its settings (settings/listeners.py,
settings/security.py), how clients prove who they are (logins.py).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kafscale.broker import derived
from kafscale.engine.access.authentication import Authentication
from kafscale.engine.engine import Engine
from kafscale.gateways.client_log import ClientLog
from kafscale.gateways.connection import Connection, Session
from kafscale.gateways.connections import HARMLESS, Connections
from kafscale.gateways.kafka import router
from kafscale.gateways.kafka.calls.call import KafkaContext
from kafscale.gateways.kafka.calls.fetch_sessions import FetchSessions
from kafscale.gateways.kafka.calls.login import Login, LoginRules
from kafscale.gateways.kafka.session import KafkaSession
from kafscale.gateways.listener import Listener
from kafscale.gateways.tls import Tls, TlsFiles
from kafscale.model.access import Authorizer
from kafscale.model.clock import Clock, Dice
from kafscale.model.endpoints import Endpoint
from kafscale.model.errors import AuthenticationFailed, KafscaleError
from kafscale.settings.config import Config
from kafscale.settings.listeners import ListenerSetting
from kafscale.settings.security import ListenerTls, mechanisms_of, tls_of
from kafscale.tasks import Tasks

_REREAD_EVERY_S: Final = 2.0  # certificates


def build_doors(
    config: Config,
    engine: Engine,
    tasks: Tasks,
    clock: Clock,
    dice: Dice,
    buffered_bytes: Callable[[], int],
    authorizer: Authorizer,
    authentication: Authentication,
) -> "Doors":
    """The listeners that the settings ask for; all of them speak Kafka.

    `buffered_bytes`: what logs hold beyond requests.
    """
    client_log = ClientLog(clock)
    context = KafkaContext(
        engine,
        FetchSessions(dice),
        config.network.request_timeout,
        router.OFFERED,
        client_log,
        authorizer=authorizer,
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
            lambda login, mechanism, outcome: engine.metrics.authentications.labels(
                mechanism, outcome
            ).inc(),
        )

        def make_session(connection: Connection) -> KafkaSession:
            if mechanisms:
                return KafkaSession(connection, context, tasks, Login(rules, clock))
            if tls is not None:
                _take_certificate(connection, tls)
            return KafkaSession(connection, context, tasks)

        return Door(setting, make_session, tls)

    def count_refusal(reason: str) -> None:
        metrics = engine.metrics
        series = metrics.client_errors if reason in HARMLESS else metrics.bad_requests
        series.labels(reason).inc()

    connections = Connections(
        derived.connection_limits(config),
        clock,
        buffered_bytes=buffered_bytes,
        refusals=count_refusal,
        client_log=client_log,
    )
    return Doors([open_door(setting) for setting in config.all_listeners], connections)


def _take_certificate(connection: Connection, tls: Tls) -> None:
    """Let a client be who its certificate says; end the connection if no rule fits."""
    try:
        connection.principal = tls.principal_of(connection.certificate)
    except AuthenticationFailed as problem:
        connection.abort("certificate_not_mapped", str(problem))


def make_tls(name: str, files: ListenerTls | None) -> Tls | None:
    """Open the certificates of a listener, None if it has none. Raises UnusableCertificates."""
    return None if files is None else Tls(name, TlsFiles(*files))


class Door(NamedTuple):
    """A listener as the settings have it."""

    setting: ListenerSetting
    make_session: Callable[[Connection], Session]
    tls: Tls | None


class CannotListen(KafscaleError):
    """A listener's address cannot be used; the text names the address and the reason."""


class Doors:
    """All listeners of a broker and all connections that came in by them."""

    def __init__(self, doors: Sequence[Door], connections: Connections) -> None:
        """Make a listener for each; none is open yet."""
        self.connections = connections
        self.listeners = [
            Listener(one.setting.name, one.make_session, connections) for one in doors
        ]
        self._doors = doors
        self._tasks = Tasks()

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
        if any(one.tls is not None for one in self._doors):
            self._tasks.spawn(self._reread_certificates(), "certificates")
        return endpoints

    async def _reread_certificates(self) -> None:
        while True:
            await asyncio.sleep(_REREAD_EVERY_S)
            for one in self._doors:
                if one.tls is not None:
                    one.tls.reread()

    def why_not_ready(self) -> list[str]:
        """The listeners that accept no connections."""
        return [f"listener {one.name} is not open" for one in self.listeners if not one.is_open]

    def close(self) -> None:
        """Accept no new connections; those that are open go on."""
        for listener in self.listeners:
            listener.close()

    def stop_reading(self) -> None:
        """Take no more requests; those under way will be answered."""
        self.connections.stop_reading()

    async def aclose(self) -> None:
        """Close every listener and end every connection."""
        self.close()
        await self._tasks.aclose()
        await self.connections.aclose()
