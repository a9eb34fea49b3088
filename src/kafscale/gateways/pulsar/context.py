"""What every connection of the Pulsar door shares.

Next door: one connection (session.py).
"""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kafscale.access.quotas import QuotaKey
from kafscale.engine.engine import Engine
from kafscale.gateways.byte_quota import charge_bytes
from kafscale.gateways.client_log import ClientLog
from kafscale.gateways.connection import Connection
from kafscale.gateways.pulsar.messages.entries_out import LastOpened
from kafscale.gateways.pulsar.producer_names import ProducerNames
from kafscale.model.security.access import AccessOperation, Authorizer, Principal, ResourceType
from kafscale.model.security.audit import DENIED, Audit, AuditEvent, AuditKind, NoAudit
from kafscale.model.tenancy import Tenancy
from kafscale.tasks import Tasks
from kafscale.wire.pulsar.errors import ServerError

GROUP_PREFIX: Final = "pulsar:"  # no consumer group has the name of a subscription by chance
# What an entry takes beside its payload: keys, properties, the header of a batch.
SPARE_BYTES: Final = 10 * 1024


class Refused(Exception):
    """A command is answered with an error."""

    def __init__(self, code: ServerError, words: str) -> None:
        super().__init__(words)
        self.code = code


@dataclass(frozen=True, slots=True)
class PulsarContext:
    """The broker behind the door, and the door's settings."""

    engine: Engine
    tasks: Tasks
    client_log: ClientLog
    authorizer: Authorizer
    tenancy: Tenancy
    max_message_bytes: int  # of topics without a limit of their own
    names: ProducerNames
    is_encrypted: bool = False  # clients connect by TLS
    audit: Audit = field(default_factory=NoAudit)
    knows_by_certificate: bool = False  # clients prove who they are by it, and by nothing else
    peer_tls: Callable[[], ssl.SSLContext] | None = None  # how other brokers are connected to
    leads_on: bool = False  # to other brokers: clients reach all of them by one address
    opened: LastOpened = field(default_factory=LastOpened)

    @property
    def scheme(self) -> str:
        """Of the addresses that clients connect to."""
        return "pulsar+ssl" if self.is_encrypted else "pulsar"

    @property
    def max_message_size(self) -> int:
        """What clients are told: larger messages they refuse themselves, or cut into chunks."""
        return max(1, self.max_message_bytes - SPARE_BYTES)

    def require(
        self, connection: Connection, operation: AccessOperation, kind: ResourceType, name: str
    ) -> None:
        """Raise Refused unless the client may do this."""
        if self.is_denied(connection, operation, kind, name):
            words = f"{connection.principal} may not {operation.name} {name}"
            raise Refused(ServerError.AUTHORIZATION_ERROR, words)

    def is_denied(
        self, connection: Connection, operation: AccessOperation, kind: ResourceType, name: str
    ) -> bool:
        """Whether the client may not do this; counted if so."""
        who = connection.principal
        if self.authorizer.allows(who, connection.peer, operation, kind, name):
            return False
        self.note_denied(who, connection.peer, connection.listener, operation, kind, name)
        return True

    def charge(self, connection: Connection, key: QuotaKey, size: int) -> None:
        """Charge a quota of bytes. Clients have no id here, so the user's quota counts."""
        charge_bytes(self.engine, connection, "", key, size)

    def note_denied(
        self,
        who: Principal,
        peer: str,
        listener: str,
        operation: AccessOperation,
        kind: ResourceType,
        name: str,
    ) -> None:
        """Count what a client was kept from, and write it to the audit log."""
        self.engine.metrics.client_errors.labels("denied").inc()
        event = AuditEvent(
            AuditKind.DENIED,
            DENIED,
            str(who),
            peer,
            operation.name,
            kind.name,
            (name,),
            api="Pulsar",
            listener=listener,
        )
        self.audit.write(event)
