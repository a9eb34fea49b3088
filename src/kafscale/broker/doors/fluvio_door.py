"""The Fluvio door of a broker: two listeners that are opened together or not at all.

Here: which addresses they have, and who a client is by its certificate. The code of the protocol is
loaded when the first client comes.
Next door: what a taken port means (other_doors.py), all listeners (doors.py), the protocol
(gateways/fluvio).
"""

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

from kafscale.broker.doors.door_security import make_tls, report_certificates, take_certificate
from kafscale.broker.doors.other_doors import DefaultPortTaken, listen
from kafscale.engine.engine import Engine
from kafscale.gateways.client_log import ClientLog
from kafscale.gateways.connection import Connection, Session
from kafscale.gateways.connections import Connections
from kafscale.gateways.fluvio.listener_names import (
    CONTROL_LISTENER,
    DATA_LISTENER,
    PLAIN_PROTOCOL,
    TLS_PROTOCOL,
)
from kafscale.gateways.late_session import LateCode
from kafscale.gateways.listener import Listener
from kafscale.model.endpoints import Endpoint
from kafscale.model.security.access import Authorizer
from kafscale.model.security.audit import Audit
from kafscale.settings.config import Config
from kafscale.settings.security import fluvio_listener, tls_of
from kafscale.tasks import Tasks

if TYPE_CHECKING:
    from kafscale.gateways.fluvio.context import FluvioContext
    from kafscale.gateways.fluvio.control.view import Views

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
        """Make both listeners; none is open yet. Raises UnusableCertificates."""
        self._settings = config.fluvio
        self._tls = make_tls("FLUVIO", tls_of(config.tls, fluvio_listener(config.fluvio)))
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
        self._code = LateCode(_load, tasks)
        self._control, self._data = (
            Listener(name, new_session, connections, report_certificates(name, engine, audit))
            for name, new_session in (
                (CONTROL_LISTENER, self._new_control),
                (DATA_LISTENER, self._new_data),
            )
        )
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
            open_at = partial(listener.open, tls=self._tls)
            try:
                bound = await listen(open_at, self._host, asked, usual, "Fluvio")
            except DefaultPortTaken as reason:
                self.close()
                self.note = f"off: {reason}; fluvio.scPort and fluvio.spuPort choose other ports"
                return {}
            protocol = PLAIN_PROTOCOL if self._tls is None else TLS_PROTOCOL
            endpoints[listener.name] = Endpoint(self._advertised_host, told or bound, protocol)
        if self._tls is not None:
            self._tasks.spawn(self._tls.keep_reread(), "certificates")
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
            from kafscale.gateways.fluvio.smart_modules.chains import ModuleLimits, SmartModules

            settings = self._settings
            limits = ModuleLimits(
                settings.smart_modules, settings.smart_module_memory, settings.most_smart_modules
            )
            context = FluvioContext(
                self._engine,
                self._longest_wait_s,
                self._client_log,
                authorizer=self._authorizer,
                audit=self._audit,
                smart_modules=SmartModules(limits),
            )
            self._shared = context, Views(self._engine)
        return self._shared

    def _new_control(self, connection: Connection) -> Session:
        def make(connection: Connection) -> Session:
            from kafscale.gateways.fluvio.control.session import ControlSession

            context, views = self._share()
            return ControlSession(connection, context, self._tasks, views)

        self._take_certificate(connection)
        return self._code.session_of(connection, make)

    def _new_data(self, connection: Connection) -> Session:
        def make(connection: Connection) -> Session:
            from kafscale.gateways.fluvio.data.session import DataSession

            return DataSession(connection, self._share()[0], self._tasks)

        self._take_certificate(connection)
        return self._code.session_of(connection, make)

    def _take_certificate(self, connection: Connection) -> None:
        if self._tls is not None:
            take_certificate(connection, self._tls, self._engine, self._audit)


def _load() -> None:
    for port in ("control", "data"):
        import_module(f"kafscale.gateways.fluvio.{port}.session")
