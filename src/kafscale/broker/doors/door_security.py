"""What the listeners of all doors ask of their clients, and what is reported of it.

Here: certificates opened, clients taken for who their certificates say, logins counted and failed
ones written to the audit log.
Next door: the listeners (doors.py, pulsar_door.py), how clients prove who they are (logins.py).
"""

from collections.abc import Callable
from typing import Final

from kafscale.engine.engine import Engine
from kafscale.gateways.connection import Connection
from kafscale.gateways.listener import CertificateReport
from kafscale.gateways.tls import Tls, TlsFiles
from kafscale.model.errors import AuthenticationFailed
from kafscale.model.security.audit import ALLOWED, Audit, AuditEvent, AuditKind
from kafscale.settings.security import ListenerTls

_CERTIFICATE: Final = "SSL"  # where the name of a mechanism is asked for
_NOT_MAPPED: Final = "not_mapped"
_REFUSED: Final = "refused"


def make_tls(name: str, files: ListenerTls | None) -> Tls | None:
    """Open the certificates of a listener, None if it has none. Raises UnusableCertificates."""
    return None if files is None else Tls(name, TlsFiles(*files))


def report_logins(
    connection: Connection, engine: Engine, audit: Audit, api: str
) -> Callable[[str, str, str], None]:
    """Count the logins of a connection, and write failed ones to the audit log.

    What is given back takes the mechanism, the outcome, and who the client claims to be. `api`:
    the request that carries the proof.
    """

    def report(mechanism: str, outcome: str, claimed: str) -> None:
        engine.metrics.authentications.labels(mechanism, outcome).inc()
        if outcome != ALLOWED:
            audit.write(
                AuditEvent(
                    AuditKind.AUTHENTICATION_FAILED,
                    outcome=outcome,
                    principal=f"User:{claimed}" if claimed else "",
                    address=connection.peer,
                    operation=mechanism,
                    api=api,
                    listener=connection.listener,
                )
            )

    return report


def take_certificate(connection: Connection, tls: Tls, engine: Engine, audit: Audit) -> None:
    """Let a client be who its certificate says; end the connection if no rule fits."""
    try:
        connection.principal = tls.principal_of(connection.certificate)
    except AuthenticationFailed as problem:
        reason = str(problem)
        peer, listener = connection.peer, connection.listener
        _report_certificate(peer, listener, _NOT_MAPPED, reason, engine, audit)
        connection.abort("certificate_not_mapped", reason)


def report_certificates(listener: str, engine: Engine, audit: Audit) -> CertificateReport:
    """Count clients whose certificates are refused, and write them to the audit log."""

    def report(address: str, reason: str) -> None:
        _report_certificate(address, listener, _REFUSED, reason, engine, audit)

    return report


def _report_certificate(
    address: str, listener: str, outcome: str, reason: str, engine: Engine, audit: Audit
) -> None:
    engine.metrics.authentications.labels(_CERTIFICATE, outcome).inc()
    audit.write(
        AuditEvent(
            AuditKind.AUTHENTICATION_FAILED,
            outcome=outcome,
            principal="",
            address=address,
            operation=_CERTIFICATE,
            listener=listener,
            detail=reason,
        )
    )
