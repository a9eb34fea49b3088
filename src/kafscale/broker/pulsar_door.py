"""The Pulsar door of a broker: one listener, and one for the admin API if it is wanted.

Here: its address. The code of the protocol is loaded when the first client comes.
Next door: what a taken port means (other_doors.py), all listeners (doors.py), the protocol
(gateways/pulsar).
"""

from typing import TYPE_CHECKING, Final

from kafscale.broker.other_doors import DefaultPortTaken, listen
from kafscale.engine.engine import Engine
from kafscale.gateways.client_log import ClientLog
from kafscale.gateways.connection import Connection, Session
from kafscale.gateways.connections import Connections
from kafscale.gateways.http import HttpAnswer, HttpRequest, HttpServer
from kafscale.gateways.listener import Listener
from kafscale.gateways.pulsar.listener_names import PULSAR, PULSAR_HTTP
from kafscale.model.access import Authorizer
from kafscale.model.endpoints import Endpoint
from kafscale.model.tenancy import Tenancy
from kafscale.settings.config import Config
from kafscale.tasks import Tasks

if TYPE_CHECKING:
    from kafscale.gateways.pulsar.context import PulsarContext

_USUAL_PORT: Final = 6650


class PulsarDoor:
    """The port for Pulsar clients."""

    def __init__(
        self,
        config: Config,
        engine: Engine,
        tasks: Tasks,
        connections: Connections,
        client_log: ClientLog,
        authorizer: Authorizer,
    ) -> None:
        """Make the listener; it is not open yet."""
        self.note = ""
        self._config = config
        self._engine = engine
        self._tasks = tasks
        self._client_log = client_log
        self._authorizer = authorizer
        self._context: PulsarContext | None = None
        self._listener = Listener(PULSAR, self._new_session, connections)
        self._http = HttpServer(self._answer, tasks)

    async def open(self) -> dict[str, Endpoint]:
        """Begin to listen, at the host of the first listener."""
        settings, first = self._config.pulsar, self._config.all_listeners[0]
        try:
            bound = await listen(
                self._listener.open, first.host, settings.port, _USUAL_PORT, "Pulsar"
            )
        except DefaultPortTaken as reason:
            self.note = f"off: {reason}; pulsar.port chooses another port"
            return {}
        host = settings.advertised_host or first.advertised(first.port).host
        endpoints = {PULSAR: Endpoint(host, settings.advertised_port or bound, PULSAR)}
        if (asked := settings.http_port) is not None:
            http_port = await listen(self._http.open, first.host, asked, asked, "Pulsar's admin")
            endpoints[PULSAR_HTTP] = Endpoint(host, http_port, PULSAR_HTTP)
        return endpoints

    def why_not_ready(self) -> list[str]:
        """Whether the listener accepts no connections, unless the door is closed for a reason."""
        if self.note or self._listener.is_open:
            return []
        return [f"listener {PULSAR} is not open"]

    def close(self) -> None:
        """Accept no new connections; those that are open go on."""
        self._listener.close()
        self._http.close()

    def _new_session(self, connection: Connection) -> Session:
        from kafscale.gateways.pulsar.session import PulsarSession

        return PulsarSession(connection, self._shared())

    async def _answer(self, request: HttpRequest) -> HttpAnswer:
        from kafscale.gateways.pulsar.admin import PulsarAdmin

        return await PulsarAdmin(self._shared()).handle(request)

    def _shared(self) -> "PulsarContext":
        from kafscale.gateways.pulsar.context import PulsarContext

        if self._context is None:
            settings = self._config.pulsar
            self._context = PulsarContext(
                self._engine,
                self._tasks,
                self._client_log,
                self._authorizer,
                Tenancy(settings.tenant, settings.namespace),
                self._config.topics.max_message_bytes,
            )
        return self._context
