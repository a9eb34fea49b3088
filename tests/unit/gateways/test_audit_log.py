"""What the audit log writes, and how much of it one client can cause."""

from typing import Any

from structlog.testing import capture_logs

from kafscale.gateways.audit_log import MOST_LINES, MOST_RESOURCES, AuditLog
from kafscale.gateways.line_budget import WINDOW_S
from kafscale.model.security.audit import AuditEvent, AuditKind
from kafscale.testing.clock import ManualClock


class Lines:
    """An audit log that keeps what it writes and what it counts."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_700_000_000_123)
        self.written: list[dict[str, Any]] = []
        self.counted: list[tuple[str, str]] = []
        self.log = AuditLog(self.clock, lambda *row: self.counted.append(row), self.written.append)


def event(kind: AuditKind = AuditKind.DENIED, **fields: Any) -> AuditEvent:
    known = {"outcome": "denied", "principal": "User:eve", "address": "10.0.0.1"}
    return AuditEvent(kind, **{**known, "operation": "READ", **fields})


def test_a_line_says_who_did_what_from_where_and_how_it_ended() -> None:
    lines = Lines()
    lines.log.write(
        event(
            resource_type="TOPIC",
            resources=("orders",),
            client_id="shop",
            api="Fetch",
            listener="SSL",
        )
    )
    assert lines.written == [
        {
            "time": "2023-11-14T22:13:20.123Z",
            "kind": "denied",
            "outcome": "denied",
            "principal": "User:eve",
            "address": "10.0.0.1",
            "listener": "SSL",
            "client_id": "shop",
            "api": "Fetch",
            "operation": "READ",
            "resource_type": "TOPIC",
            "resources": ["orders"],
            "count": 1,
        }
    ]


def test_a_client_that_is_denied_all_the_time_gets_few_lines_and_is_counted() -> None:
    lines = Lines()
    most = MOST_LINES[AuditKind.DENIED]
    for _ in range(5000):
        lines.log.write(event())
    lines.log.write(event(address="10.0.0.2"))
    lines.log.write(event(AuditKind.CHANGE, outcome="ok"))
    assert len(lines.written) == most + 2, "other clients and other kinds have lines of their own"
    assert len(lines.counted) == 5002
    lines.clock.advance_ms(WINDOW_S * 1000)
    lines.log.end_windows()
    left_out = lines.written[-1]
    assert (left_out["kind"], left_out["of"]) == ("lines_left_out", "denied")
    assert left_out["count"] == 5000 - most


def test_names_that_clients_chose_are_cut_and_escaped() -> None:
    lines = Lines()
    hostile = "a\nb\x1b[2J" + "x" * 5000
    names = tuple(f"topic-{number}" for number in range(MOST_RESOURCES + 50))
    lines.log.write(event(client_id=hostile, principal=hostile, resources=names, count=len(names)))
    (row,) = lines.written
    assert row["client_id"].startswith("a\\nb\\x1b[2J")
    assert len(row["client_id"]) < 400
    assert row["principal"] == row["client_id"]
    assert (len(row["resources"]), row["count"]) == (MOST_RESOURCES, len(names))


def test_without_a_file_lines_go_to_the_log() -> None:
    log = AuditLog(ManualClock(), lambda kind, outcome: None)
    with capture_logs() as logged:
        log.write(event())
    assert [(row["event"], row["kind"]) for row in logged] == [("audit", "denied")]
