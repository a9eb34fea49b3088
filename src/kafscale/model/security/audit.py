"""Who did what: the events that an operator may have to account for.

Here: an event and the port that doors report it by. A request that was denied, a client that could
not authenticate, and an administrative change are such events, whether they succeed or not.
Next door: the lines that are written of them (gateways/audit_log.py), which requests of Kafka are
administrative changes (gateways/kafka/access/audited_changes.py).
Never here: secrets. An event names who, from where, what and how it ended.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

ALLOWED: Final = "ok"  # the outcome of a change that was made
DENIED: Final = "denied"


class AuditKind(StrEnum):
    """What sort of event it is."""

    DENIED = "denied"
    AUTHENTICATION_FAILED = "authentication_failed"
    CHANGE = "change"


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One thing that a client did, or was kept from doing."""

    kind: AuditKind
    outcome: str  # few words: they are labels of a metric. `ok`, `denied`, a protocol's error name
    principal: str  # for a failed authentication: who the client claims to be, or ""
    address: str
    operation: str  # of the authorizer's, or the name of a mechanism
    resource_type: str = ""
    resources: tuple[str, ...] = ()
    count: int = 1  # of resources, including those that are not listed
    client_id: str = ""  # what the client calls itself
    api: str = ""  # the request, by its protocol's name
    listener: str = ""
    detail: str = ""


class Audit(Protocol):
    """Takes events. It never waits and never raises."""

    def write(self, event: AuditEvent) -> None:
        """Count the event and write a line of it, if its client has not used up its lines."""
        ...


class NoAudit:
    """Implements Audit for a door without a broker around it."""

    def write(self, event: AuditEvent) -> None:
        """Forget it."""
