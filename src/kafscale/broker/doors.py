"""The listeners of a broker, made from its settings.

Here: which listeners there are, opening and closing them together. All of them share the limits
on connections and memory.
Next door: one listener (gateways/listener.py), its settings (settings/listeners.py), the listeners
of other clients (fluvio_door.py, pulsar_door.py).
"""

from collections.abc import Callable, Mapping, Sequence

from kafscale.access.quotas import QuotaKey
from kafscale.broker import derived
from kafscale.broker.fluvio_door import FluvioDoor
from kafscale.broker.other_doors import CannotListen, OtherDoor
from kafscale.broker.pulsar_door import PulsarDoor
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
from kafscale.settings.config import Config
from kafscale.settings.listeners import ListenerSetting
from kafscale.tasks import Tasks


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
    if config.pulsar.enabled:
        others["pulsar"] = PulsarDoor(config, engine, tasks, connections, client_log, authorizer)
    if config.fluvio.enabled:
        others["fluvio"] = FluvioDoor(
            config, engine, tasks, connections, client_log, authorizer, audit
        )
    return Doors(config.all_listeners, make_session, connections, others)


class Doors:
    """All listeners of a broker and all connections that came in by them."""

    def __init__(
        self,
        settings: Sequence[ListenerSetting],
        make_session: Callable[[Connection], Session],
        connections: Connections,
        others: Mapping[str, OtherDoor],
    ) -> None:
        """Make a Kafka listener per setting; none is open yet. `others`: doors by their names."""
        self.connections = connections
        self.listeners = [Listener(one.name, make_session, connections) for one in settings]
        self._settings = settings
        self._others = others

    @property
    def notes(self) -> dict[str, str]:
        """Which doors are closed, and why, for the person who has started the broker."""
        return {name: door.note for name, door in self._others.items() if door.note}

    async def open(self) -> dict[str, Endpoint]:
        """Begin to listen everywhere; gives what clients are told, by listener name."""
        endpoints = {}
        for setting, listener in zip(self._settings, self.listeners, strict=True):
            try:
                port = await listener.open(setting.host, setting.port)
            except OSError as problem:
                raise CannotListen(
                    f"cannot listen on {setting.host}:{setting.port}: {problem.strerror or problem}"
                ) from None
            endpoints[setting.name] = setting.advertised(port)
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
        await self.connections.aclose()
