"""The listeners of a broker, made from its settings.

Here: which listeners there are, opening and closing them together. All of them share the limits
on connections and memory.
Next door: one listener (gateways/listener.py), its settings (settings/listeners.py).
"""

from collections.abc import Callable, Sequence
from errno import EADDRINUSE
from typing import Any, NamedTuple

import structlog

from kafscale.broker import derived
from kafscale.engine.engine import Engine
from kafscale.gateways.audit_log import AuditLog, Fields
from kafscale.gateways.client_log import ClientLog
from kafscale.gateways.connection import Connection, Session
from kafscale.gateways.connections import HARMLESS, Connections
from kafscale.gateways.kafka import router
from kafscale.gateways.kafka.calls.call import KafkaContext
from kafscale.gateways.kafka.calls.fetch_sessions import FetchSessions
from kafscale.gateways.kafka.session import KafkaSession
from kafscale.gateways.listener import Listener
from kafscale.model.access import Authorizer
from kafscale.model.clock import Clock, Dice
from kafscale.model.endpoints import Endpoint
from kafscale.model.errors import KafscaleError
from kafscale.model.tenancy import Tenancy
from kafscale.settings.config import Config
from kafscale.settings.listeners import ListenerSetting
from kafscale.tasks import Tasks

logger = structlog.get_logger()


def build_doors(
    config: Config,
    engine: Engine,
    tasks: Tasks,
    clock: Clock,
    dice: Dice,
    buffered_bytes: Callable[[], int],
    authorizer: Authorizer,
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

    def make_session(connection: Connection) -> KafkaSession:
        return KafkaSession(connection, context, tasks)

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
        audit=audit,
    )
    doors = [Door(setting, make_session) for setting in config.all_listeners]
    if config.pulsar_listener is not None:
        make_pulsar_session = _pulsar_sessions(config, engine, tasks, client_log, authorizer)
        is_wanted = config.pulsar.port is not None
        doors.append(Door(config.pulsar_listener, make_pulsar_session, is_wanted=is_wanted))
    return Doors(doors, connections)


def _pulsar_sessions(
    config: Config, engine: Engine, tasks: Tasks, client_log: ClientLog, authorizer: Authorizer
) -> Callable[[Connection], Session]:
    """Speak Pulsar. What that takes is loaded for the first connection."""
    context: list[Any] = []

    def make_session(connection: Connection) -> Session:
        from kafscale.gateways.pulsar.context import PulsarContext
        from kafscale.gateways.pulsar.session import PulsarSession

        if not context:
            tenancy = Tenancy(config.pulsar.tenant, config.pulsar.namespace)
            largest = config.topics.max_message_bytes
            context.append(PulsarContext(engine, tasks, client_log, authorizer, tenancy, largest))
        return PulsarSession(connection, context[0])

    return make_session


class Door(NamedTuple):
    """A listener to be, and the protocol that is spoken there."""

    setting: ListenerSetting
    make_session: Callable[[Connection], Session]
    is_wanted: bool = True  # False: without it the broker runs, too, if its port is taken


class CannotListen(KafscaleError):
    """A listener's address cannot be used; the text names the address and the reason."""


class Doors:
    """All listeners of a broker and all connections that came in by them."""

    def __init__(
        self,
        doors: Sequence[Door],
        connections: Connections,
    ) -> None:
        """Make a listener per door; none is open yet."""
        self.connections = connections
        self.listeners = [
            Listener(one.setting.name, one.make_session, connections) for one in doors
        ]
        self._doors = doors

    async def open(self) -> dict[str, Endpoint]:
        """Begin to listen everywhere; gives what clients are told, by listener name."""
        endpoints = {}
        for door, listener in zip(self._doors, list(self.listeners), strict=True):
            setting = door.setting
            try:
                port = await listener.open(setting.host, setting.port)
            except OSError as problem:
                why = f"cannot listen on {setting.host}:{setting.port}: "
                why += problem.strerror or str(problem)
                if door.is_wanted or problem.errno != EADDRINUSE:
                    raise CannotListen(why) from None
                logger.info("listener_left_out", listener=setting.name, reason=why)
                self.listeners.remove(listener)
                continue
            endpoints[setting.name] = setting.advertised(port)
        return endpoints

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
        await self.connections.aclose()
