"""Which requests are administrative changes, and what the audit log says of them.

Here: one table by API key, for the APIs of this broker and those that come with users and tokens.
A change that fails has its error as its outcome; a request that only validates changes nothing.
Next door: the events (model/security/audit.py), requests that are denied (requirements.py).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from kafscale.gateways.audit_log import MOST_RESOURCES
from kafscale.gateways.kafka import resources
from kafscale.gateways.kafka.calls.call import Call, api_name
from kafscale.model.security.access import CLUSTER_NAME
from kafscale.model.security.audit import ALLOWED, AuditEvent, AuditKind
from kafscale.wire.kafka.errors import ErrorCode

_TYPE_OF_RESOURCE: Final = {
    resources.TOPIC: "TOPIC",
    resources.BROKER: "BROKER",
    resources.BROKER_LOGGER: "BROKER_LOGGER",
    resources.CLIENT_METRICS: "CLIENT_METRICS",
    resources.GROUP: "GROUP",
}

AuditedRow = tuple[str, str, int]  # type and name of a resource, error code


@dataclass(frozen=True, slots=True)
class AuditedChange:
    """What an administrative API does, and to what, by request and response."""

    operation: str
    rows: Callable[[Any, Any], Iterable[AuditedRow]]


def _named(kind: str, field: str, name: str) -> Callable[[Any, Any], Iterable[AuditedRow]]:
    """Every row of the response is one resource."""

    def rows(request: Any, response: Any) -> Iterator[AuditedRow]:
        for row in getattr(response, field):
            yield kind, getattr(row, name) or "", row.error_code

    return rows


def _partitions(field: str, topic: str, partitions: str, number: str) -> Any:
    """Every row of the response is a topic with partitions."""

    def rows(request: Any, response: Any) -> Iterator[AuditedRow]:
        if getattr(response, "error_code", 0):
            yield "CLUSTER", CLUSTER_NAME, response.error_code
        for row in getattr(response, field):
            for one in getattr(row, partitions):
                yield "TOPIC", f"{getattr(row, topic)}-{getattr(one, number)}", one.error_code

    return rows


def _deleted_topics(request: Any, response: Any) -> Iterator[AuditedRow]:
    for row in response.responses:
        yield "TOPIC", row.name or f"id {row.topic_id.hex()}", row.error_code


def _configs(request: Any, response: Any) -> Iterator[AuditedRow]:
    for row in response.responses:
        kind = _TYPE_OF_RESOURCE.get(row.resource_type, str(row.resource_type))
        yield kind, row.resource_name, row.error_code


def _deleted_offsets(request: Any, response: Any) -> Iterator[AuditedRow]:
    if response.error_code or not response.topics:
        yield "GROUP", request.group_id, response.error_code
    for row in response.topics:
        for one in row.partitions:
            name = f"{request.group_id} {row.name}-{one.partition_index}"
            yield "GROUP", name, one.error_code


def _share_offsets(request: Any, response: Any) -> Iterator[AuditedRow]:
    if response.error_code or not response.responses:
        yield "GROUP", request.group_id, response.error_code
    for row in response.responses:
        if not hasattr(row, "partitions"):
            yield "GROUP", f"{request.group_id} {row.topic_name}", row.error_code
            continue
        for one in row.partitions:
            name = f"{request.group_id} {row.topic_name}-{one.partition_index}"
            yield "GROUP", name, one.error_code


def _created_acls(request: Any, response: Any) -> Iterator[AuditedRow]:
    for acl, result in zip(request.creations, response.results, strict=False):
        yield "ACL", _acl_text(acl, acl.resource_name), result.error_code


def _deleted_acls(request: Any, response: Any) -> Iterator[AuditedRow]:
    for result in response.filter_results:
        if result.error_code:
            yield "ACL", "", result.error_code
        for acl in result.matching_acls:
            yield "ACL", _acl_text(acl, acl.resource_name), acl.error_code


def _acl_text(acl: Any, name: str) -> str:
    permission = {2: "deny", 3: "allow"}.get(acl.permission_type, str(acl.permission_type))
    what = f"operation {acl.operation} on resource type {acl.resource_type} {name!r}"
    return f"{permission} {acl.principal} from {acl.host} {what}"


def _entities(request: Any, response: Any) -> Iterator[AuditedRow]:
    for row in response.entries:
        parts = (
            f"{one.entity_type}={'<default>' if one.entity_name is None else one.entity_name}"
            for one in row.entity
        )
        yield "CLIENT_QUOTA", ",".join(parts), row.error_code


def _token(request: Any, response: Any) -> Iterator[AuditedRow]:
    yield "DELEGATION_TOKEN", getattr(response, "token_id", ""), response.error_code


CHANGES: Final[dict[int, AuditedChange]] = {
    19: AuditedChange("CREATE", _named("TOPIC", "topics", "name")),
    20: AuditedChange("DELETE", _deleted_topics),
    21: AuditedChange("DELETE", _partitions("topics", "name", "partitions", "partition_index")),
    30: AuditedChange("ALTER", _created_acls),
    31: AuditedChange("ALTER", _deleted_acls),
    33: AuditedChange("ALTER_CONFIGS", _configs),
    37: AuditedChange("ALTER", _named("TOPIC", "results", "name")),
    38: AuditedChange("CREATE_TOKENS", _token),
    39: AuditedChange("ALTER", _token),
    40: AuditedChange("DELETE", _token),
    42: AuditedChange("DELETE", _named("GROUP", "results", "group_id")),
    43: AuditedChange(
        "ALTER",
        _partitions("replica_election_results", "topic", "partition_result", "partition_id"),
    ),
    44: AuditedChange("ALTER_CONFIGS", _configs),
    45: AuditedChange("ALTER", _partitions("responses", "name", "partitions", "partition_index")),
    47: AuditedChange("DELETE", _deleted_offsets),
    49: AuditedChange("ALTER_CONFIGS", _entities),
    51: AuditedChange("ALTER", _named("USER", "results", "user")),
    91: AuditedChange("ALTER", _share_offsets),
    92: AuditedChange("DELETE", _share_offsets),
}


def watch(api_key: int, call: Call) -> None:
    """Report the outcome of a change when it is answered; rows that were denied are not in it."""
    change = CHANGES[api_key]
    if not getattr(call.message, "validate_only", False):
        report = _reporter(change, call)
        call.amendments = [report, *(call.amendments or ())]


def _reporter(change: AuditedChange, call: Call) -> Callable[[Any], None]:
    def report(response: Any) -> None:
        found: dict[tuple[str, int], list[str]] = {}
        counts: dict[tuple[str, int], int] = {}
        for kind, name, code in change.rows(call.message, response):
            key = kind, code
            counts[key] = counts.get(key, 0) + 1
            if counts[key] <= MOST_RESOURCES:
                found.setdefault(key, []).append(name)
        for (kind, code), names in found.items():
            event = AuditEvent(
                AuditKind.CHANGE,
                outcome=ErrorCode(code).name if code else ALLOWED,
                principal=str(call.principal),
                address=call.peer,
                operation=change.operation,
                resource_type=kind,
                resources=tuple(names),
                count=counts[kind, code],
                client_id=call.client_id,
                api=api_name(call.message),
                listener=call.listener,
            )
            call.context.audit.write(event)

    return report
