"""The audit log: one line of JSON for every denied request, failed authentication and change.

Here: what a line holds, and how many of them a client can cause. All events are counted in the
metrics, also those whose line is left out.
Next door: the events (model/security/audit.py), the file they are written to
(broker/operating/audit_file.py), log lines about what clients do wrong (client_log.py).
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from kafscale.gateways.line_budget import LineBudget
from kafscale.model.clock import Clock
from kafscale.model.printable import printable
from kafscale.model.security.audit import AuditEvent, AuditKind

logger = structlog.get_logger("kafscale.audit")

# Per client and minute. A change is an operator's own doing and is rarely left out.
MOST_LINES: Final = {
    AuditKind.DENIED: 60,
    AuditKind.AUTHENTICATION_FAILED: 60,
    AuditKind.CHANGE: 1200,
}
MOST_RESOURCES: Final = 100  # that one line names
_MOST_TEXT: Final = 300  # characters of what a client chose

Fields = dict[str, Any]


class AuditLog:
    """Implements Audit for all doors of a broker."""

    def __init__(
        self,
        clock: Clock,
        count: Callable[[str, str], None],
        write_line: Callable[[Fields], None] | None = None,
    ) -> None:
        """`count` gets kind and outcome. Without `write_line`, lines go to the broker's log."""
        self._clock = clock
        self._count = count
        self._write_line = write_line or _log
        self._budgets = {
            kind: LineBudget(clock, most, self._tell_left_out(kind))
            for kind, most in MOST_LINES.items()
        }

    def write(self, event: AuditEvent) -> None:
        """See model.security.audit.Audit."""
        self._count(event.kind.value, event.outcome)
        if self._budgets[event.kind].take(event.address):
            self._write_line(self._fields_of(event))

    def end_windows(self) -> None:
        """Tell counts of windows that are over; called now and then."""
        for budget in self._budgets.values():
            budget.end_windows()

    def aclose(self) -> None:
        """Tell what was left out; no more events come."""
        for budget in self._budgets.values():
            budget.aclose()

    def _fields_of(self, event: AuditEvent) -> Fields:
        fields: Fields = {
            "time": self._time(),
            "kind": event.kind.value,
            "outcome": event.outcome,
            "principal": _short(event.principal),
            "address": event.address,
            "listener": event.listener,
            "client_id": _short(event.client_id),
            "api": event.api,
            "operation": event.operation,
            "resource_type": event.resource_type,
            "resources": [_short(name) for name in event.resources[:MOST_RESOURCES]],
            "count": event.count,
        }
        if event.detail:
            fields["detail"] = _short(event.detail)
        return fields

    def _time(self) -> str:
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _tell_left_out(self, kind: AuditKind) -> Callable[[str, int], None]:
        def tell(address: str, count: int) -> None:
            self._write_line(
                {
                    "time": self._time(),
                    "kind": "lines_left_out",
                    "of": kind.value,
                    "address": address,
                    "count": count,
                }
            )

        return tell


def _short(text: str) -> str:
    return printable(text[:_MOST_TEXT])


def _log(fields: Fields) -> None:
    logger.info("audit", **fields)
