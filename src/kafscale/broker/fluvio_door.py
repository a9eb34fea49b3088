"""The Fluvio door of a broker: two listeners that are opened together or not at all.

Here: which addresses they have. The code of the protocol is loaded when the first client comes.
Next door: what a taken port means (other_doors.py), all listeners (doors.py), the protocol
(gateways/fluvio).
"""

from typing import TYPE_CHECKING, Final

from kafscale.broker.other_doors import DefaultPortTaken, listen
from kafscale.engine.engine import Engine
from kafscale.gateways.client_log import ClientLog
from kafscale.gateways.connection import Connection, Session
from kafscale.gateways.connections import Connections
from kafscale.gateways.fluvio.listener_names import CONTROL_LISTENER, DATA_LISTENER
from kafscale.gateways.listener import Listener
from kafscale.model.access import Authorizer
from kafscale.model.audit import Audit
from kafscale.model.endpoints import Endpoint
from kafscale.settings.config import Config
from kafscale.tasks import Tasks

if TYPE_CHECKING:
    from kafscale.gateways.fluvio.context import FluvioContext
    from kafscale.gateways.fluvio.control.view import Views

PROTOCOL: Final = "FLUVIO"
SC_PORT: Final = 9003  # what Fluvio's clients know
SPU_PORT: Final = 9005


class FluvioDoor:
    """The control port and the data port of one broker."""

    def __init__(
        self,
        config: Config,
        engine: Engine,
        tasks: Tasks,
        connections: Connections,
        client_log: ClientLog,
        authorizer: Authorizer,
        audit: Audit,
    ) -> None:
        """Make both listeners; none is open yet."""
        self._settings = config.fluvio
        first = config.all_listeners[0]
        self._host = first.host
        self._advertised_host = config.fluvio.advertised_host or first.advertised(first.port).host
        self._engine = engine
        self._tasks = tasks
        self._client_log = client_log
        self._authorizer = authorizer
        self._audit = audit
        self._longest_wait_s = config.network.request_timeout
        self._shared: tuple[FluvioContext, Views] | None = None
        self._control = Listener(CONTROL_LISTENER, self._new_control, connections)
        self._data = Listener(DATA_LISTENER, self._new_data, connections)
        self.note = ""  # for the banner: why the door is closed

    async def open(self) -> dict[str, Endpoint]:
        """Begin to listen on both ports; gives what clients are told, by listener name.

        Nothing if a default port is taken. Raises CannotListen for a port that was asked for.
        """
        settings = self._settings
        endpoints = {}
        for listener, asked, usual, told in (
            (self._control, settings.sc_port, SC_PORT, settings.advertised_sc_port),
            (self._data, settings.spu_port, SPU_PORT, settings.advertised_spu_port),
        ):
            try:
                bound = await listen(listener.open, self._host, asked, usual, "Fluvio")
            except DefaultPortTaken as reason:
                self.close()
                self.note = f"off: {reason}; fluvio.scPort and fluvio.spuPort choose other ports"
                return {}
            endpoints[listener.name] = Endpoint(self._advertised_host, told or bound, PROTOCOL)
        return endpoints

    def why_not_ready(self) -> list[str]:
        """The listeners that accept no connections, unless the door is closed for a reason."""
        if self.note:
            return []
        listeners = (self._control, self._data)
        return [f"listener {one.name} is not open" for one in listeners if not one.is_open]

    def close(self) -> None:
        """Accept no new connections; those that are open go on."""
        self._control.close()
        self._data.close()

    def _share(self) -> "tuple[FluvioContext, Views]":
        """What all connections share, made for the first of them."""
        if self._shared is None:
            from kafscale.gateways.fluvio.context import FluvioContext
            from kafscale.gateways.fluvio.control.view import Views

            context = FluvioContext(
                self._engine,
                self._longest_wait_s,
                self._client_log,
                authorizer=self._authorizer,
                audit=self._audit,
            )
            self._shared = context, Views(self._engine)
        return self._shared

    def _new_control(self, connection: Connection) -> Session:
        from kafscale.gateways.fluvio.control.session import ControlSession

        context, views = self._share()
        return ControlSession(connection, context, self._tasks, views)

    def _new_data(self, connection: Connection) -> Session:
        from kafscale.gateways.fluvio.data.session import DataSession

        return DataSession(connection, self._share()[0], self._tasks)
