"""The Pulsar door of a broker: one listener, and one for the admin API if it is wanted.

Here: its addresses, and what it asks of clients: what a listener of Kafka's asks of its own. The
code of the protocol is loaded when the first client comes.
Next door: what a taken port means (other_doors.py), all listeners (doors.py), certificates and
reports of logins (door_security.py), the protocol (gateways/pulsar).
"""

import ssl
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from kafscale.broker.doors.door_security import (
    make_tls,
    report_certificates,
    report_logins,
    take_certificate,
)
from kafscale.broker.doors.other_doors import DefaultPortTaken, listen
from kafscale.engine.access.authentication import Authentication
from kafscale.engine.engine import Engine
from kafscale.gateways.client_log import ClientLog
from kafscale.gateways.connection import Connection, Session
from kafscale.gateways.connections import Connections
from kafscale.gateways.http import HttpAnswer, HttpRequest, HttpServer, as_json
from kafscale.gateways.listener import Listener
from kafscale.gateways.pulsar.listener_names import PULSAR, PULSAR_HTTP
from kafscale.model.endpoints import Endpoint
from kafscale.model.errors import AuthenticationFailed
from kafscale.model.security.access import ANONYMOUS, Authorizer, Principal
from kafscale.model.security.audit import Audit, AuditEvent, AuditKind
from kafscale.model.tenancy import Tenancy
from kafscale.settings.config import Config
from kafscale.settings.security import pulsar_methods, tls_of
from kafscale.tasks import Tasks

if TYPE_CHECKING:
    from kafscale.gateways.pulsar.context import PulsarContext
    from kafscale.gateways.pulsar.login import PulsarLoginRules

_USUAL_PORT: Final = 6650
_USUAL_TLS_PORT: Final = 6651


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
        authentication: Authentication,
        audit: Audit,
    ) -> None:
        """Make the listener; it is not open yet. Raises UnusableCertificates."""
        self.note = ""
        self._config = config
        self._engine = engine
        self._tasks = tasks
        self._client_log = client_log
        self._authorizer = authorizer
        self._authentication = authentication
        self._audit = audit
        self._context: PulsarContext | None = None
        self._rules: PulsarLoginRules | None = None
        self._kafka = config.pulsar_listener
        is_secured = config.pulsar.listener is not None
        self._methods = pulsar_methods(config.sasl, self._kafka) if is_secured else ()
        self._tls = make_tls(PULSAR, tls_of(config.tls, self._kafka)) if is_secured else None
        report = report_certificates(PULSAR, engine, audit)
        self._listener = Listener(PULSAR, self._new_session, connections, report)
        self._http = HttpServer(self._answer, tasks)

    async def open(self) -> dict[str, Endpoint]:
        """Begin to listen, at the host of Kafka's listener."""
        settings, kafka, tls = self._config.pulsar, self._kafka, self._tls
        usual = _USUAL_PORT if tls is None else _USUAL_TLS_PORT
        try:
            bound = await listen(
                lambda host, port: self._listener.open(host, port, tls),
                *(kafka.host, settings.port, usual, "Pulsar"),
            )
        except DefaultPortTaken as reason:
            self.note = f"off: {reason}; pulsar.port chooses another port"
            return {}
        if tls is not None:
            self._tasks.spawn(tls.keep_reread(), "certificates")
        host = settings.advertised_host or kafka.advertised(kafka.port).host
        endpoints = {PULSAR: Endpoint(host, settings.advertised_port or bound, PULSAR)}
        if (asked := settings.http_port) is not None:
            http_port = await listen(
                lambda host, port: self._http.open(host, port, tls),
                *(kafka.host, asked, asked, "Pulsar's admin"),
            )
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

        if not self._methods:
            if self._tls is not None:
                take_certificate(connection, self._tls, self._engine, self._audit)
            return PulsarSession(connection, self._shared())
        report = report_logins(connection, self._engine, self._audit, "PulsarConnect")
        return PulsarSession(connection, self._shared(), self._login_rules(), report)

    async def _answer(self, request: HttpRequest) -> HttpAnswer:
        from kafscale.gateways.pulsar.admin.paths import PulsarAdmin

        try:
            who = await self._identify(request)
        except AuthenticationFailed as problem:
            self._audit.write(
                AuditEvent(
                    AuditKind.AUTHENTICATION_FAILED,
                    outcome="failed",
                    principal="",
                    address=request.peer,
                    operation="HTTP",
                    api="PulsarAdmin",
                    listener=PULSAR_HTTP,
                )
            )
            return as_json({"reason": str(problem)}, HTTPStatus.UNAUTHORIZED)
        return await PulsarAdmin(self._shared(), who).handle(request)

    async def _identify(self, request: HttpRequest) -> Principal:
        """Who a client of the admin API is. Raises AuthenticationFailed."""
        from kafscale.gateways.pulsar.login import identify_by_header

        if self._methods:
            return (await identify_by_header(self._login_rules(), request.authorization)).principal
        return ANONYMOUS if self._tls is None else self._tls.principal_of(request.certificate)

    def _login_rules(self) -> "PulsarLoginRules":
        from kafscale.gateways.pulsar.login import PulsarLoginRules

        if self._rules is None:
            sasl = self._config.sasl
            self._rules = PulsarLoginRules(
                self._authentication,
                self._methods,
                sasl.timeout,
                sasl.failure_delay,
                sasl.session_lifetime,
            )
        return self._rules

    def _shared(self) -> "PulsarContext":
        from kafscale.gateways.pulsar.context import PulsarContext
        from kafscale.gateways.pulsar.producer_names import ProducerNames

        if self._context is None:
            settings = self._config.pulsar
            self._context = PulsarContext(
                self._engine,
                self._tasks,
                self._client_log,
                self._authorizer,
                Tenancy(settings.tenant, settings.namespace),
                self._config.topics.max_message_bytes,
                ProducerNames(self._engine.identity.epoch),
                self._tls is not None,
                self._audit,
                knows_by_certificate=self._tls is not None and not self._methods,
                peer_tls=None if self._tls is None else self._peer_tls,
                leads_on=settings.proxy_through_service_url,
            )
        return self._context

    def _peer_tls(self) -> ssl.SSLContext:
        """How other brokers are connected to. A certificate is shown only where logins count."""
        assert self._tls is not None
        return self._tls.to_peers(shows_own=bool(self._methods))
