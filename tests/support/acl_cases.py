"""Requests about access control lists that are odd or wrong, and what they are answered.

Here: requests, and two codes for each: tests/e2e/test_access_table.py compares the first with
Apache Kafka's, tests/unit/gateways/kafka/access/test_acl_apis.py the second with this broker's.
"""

import asyncio

from kafscale.wire.kafka.messages.create_acls import AclCreation, CreateAclsRequest
from kafscale.wire.kafka.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafscale.wire.kafka.messages.describe_acls import DescribeAclsRequest
from kafscale.wire.kafka.schema import Message
from tests.unit.gateways.kafka.caller import Caller

VERSION = 3

ACCEPTED, INVALID, UNKNOWN = 0, 42, -1
CLOSED = -100  # no code: the connection ends


def creation(
    kind: int = 2,
    name: str = "odd",
    pattern: int = 3,
    principal: str = "User:alice",
    host: str = "*",
    operation: int = 3,
    permission: int = 3,
) -> CreateAclsRequest:
    row = AclCreation(kind, name, pattern, principal, host, operation, permission)
    return CreateAclsRequest([row])


def description(
    kind: int = 2,
    name: str | None = "odd",
    pattern: int = 3,
    principal: str | None = None,
    host: str | None = None,
    operation: int = 1,
    permission: int = 1,
) -> DescribeAclsRequest:
    return DescribeAclsRequest(kind, name, pattern, principal, host, operation, permission)


def deletion(
    kind: int = 2,
    name: str | None = "odd",
    pattern: int = 3,
    principal: str | None = None,
    host: str | None = None,
    operation: int = 1,
    permission: int = 1,
) -> DeleteAclsRequest:
    row = DeleteAclsFilter(kind, name, pattern, principal, host, operation, permission)
    return DeleteAclsRequest([row])


# By name: the request in version 3, Apache Kafka's code, and ours. Where Apache Kafka closes the
# connection, answers that it does not know what went wrong, or takes what can never match, this
# broker says that the request is invalid.
CASES: dict[str, tuple[Message, int, int]] = {
    "create, unknown type": (creation(kind=0), CLOSED, INVALID),
    "create, any type": (creation(kind=1), UNKNOWN, INVALID),
    "create, type that is not there": (creation(kind=99), INVALID, INVALID),
    "create, any pattern": (creation(pattern=1), UNKNOWN, INVALID),
    "create, match pattern": (creation(pattern=2), UNKNOWN, INVALID),
    "create, unknown pattern": (creation(pattern=0), CLOSED, INVALID),
    "create, pattern that is not there": (creation(pattern=77), INVALID, INVALID),
    "create, empty name": (creation(name=""), INVALID, INVALID),
    "create, empty host": (creation(host=""), ACCEPTED, INVALID),
    "create, host name": (creation(host="example.com"), ACCEPTED, ACCEPTED),
    "create, empty principal": (creation(principal=""), INVALID, INVALID),
    "create, principal without type": (creation(principal="alice"), INVALID, INVALID),
    "create, principal without name": (creation(principal="User:"), ACCEPTED, INVALID),
    "create, principal without its type": (creation(principal=":alice"), ACCEPTED, INVALID),
    "create, principal with colons": (creation(principal="User:a:b:c"), ACCEPTED, ACCEPTED),
    "create, any operation": (creation(operation=1), UNKNOWN, INVALID),
    "create, unknown operation": (creation(operation=0), CLOSED, INVALID),
    "create, operation that is not there": (creation(operation=50), INVALID, INVALID),
    "create, operation of another type": (creation(operation=9), ACCEPTED, ACCEPTED),
    "create, any permission": (creation(permission=1), UNKNOWN, INVALID),
    "create, unknown permission": (creation(permission=0), CLOSED, INVALID),
    "create, cluster by another name": (creation(kind=4, name="mine"), INVALID, INVALID),
    "create, cluster by a star": (creation(kind=4, name="*"), INVALID, INVALID),
    "create, cluster by its name": (creation(kind=4, name="kafka-cluster"), ACCEPTED, ACCEPTED),
    "create, prefix of the cluster": (creation(kind=4, name="kafka", pattern=4), INVALID, INVALID),
    "create, prefixed star": (creation(name="*", pattern=4), ACCEPTED, ACCEPTED),
    "create, user": (creation(kind=7, name="alice", operation=13), ACCEPTED, ACCEPTED),
    "create, nothing": (CreateAclsRequest([]), ACCEPTED, ACCEPTED),
    "describe, unknown type": (description(kind=0), CLOSED, INVALID),
    "describe, type that is not there": (description(kind=99), ACCEPTED, INVALID),
    "describe, unknown pattern": (description(pattern=0), CLOSED, INVALID),
    "describe, pattern that is not there": (description(pattern=9), ACCEPTED, INVALID),
    "describe, any pattern": (description(pattern=1), ACCEPTED, ACCEPTED),
    "describe, empty name": (description(name=""), ACCEPTED, ACCEPTED),
    "describe, principal without type": (description(principal="alice"), ACCEPTED, ACCEPTED),
    "describe, empty principal": (description(principal=""), ACCEPTED, ACCEPTED),
    "describe, unknown operation": (description(operation=0), CLOSED, INVALID),
    "describe, operation that is not there": (description(operation=50), ACCEPTED, INVALID),
    "describe, unknown permission": (description(permission=0), CLOSED, INVALID),
    "delete, unknown type": (deletion(kind=0), CLOSED, INVALID),
    "delete, type that is not there": (deletion(kind=99), INVALID, INVALID),
    "delete, unknown pattern": (deletion(pattern=0), CLOSED, INVALID),
    "delete, match pattern": (deletion(pattern=2), ACCEPTED, ACCEPTED),
    "delete, principal without type": (deletion(principal="alice"), ACCEPTED, ACCEPTED),
    "delete, unknown operation": (deletion(operation=0), CLOSED, INVALID),
    "delete, unknown permission": (deletion(permission=0), CLOSED, INVALID),
    "delete, nothing": (DeleteAclsRequest([]), ACCEPTED, ACCEPTED),
}


async def code_of(caller: Caller, request: Message) -> int:
    """The one code of an answer, or CLOSED."""
    try:
        answer = await caller.ask(request, VERSION)
    except asyncio.IncompleteReadError:
        return CLOSED
    rows = getattr(answer, "results", None) or getattr(answer, "filter_results", None)
    return int(rows[0].error_code if rows else getattr(answer, "error_code", ACCEPTED))
