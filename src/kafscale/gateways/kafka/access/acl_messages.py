"""Access control lists as the three ACL APIs write them.

Here: rows of requests become bindings and filters. Kafka's numbers 0 (unknown) and 1 (any) are no
value of a binding; in a filter, 1 selects all.
Next door: what they mean (access/acls.py), the APIs (apis/describe_acls.py and its neighbours).
"""

from enum import IntEnum
from typing import Final, TypeVar

from kafscale.access.acls import (
    AclBinding,
    AclFilter,
    PatternType,
    Permission,
    check_binding,
    read_principal,
)
from kafscale.engine.access.acls import Acls
from kafscale.gateways.kafka.calls.call import Call
from kafscale.model.errors import InvalidAcl, SecurityDisabled
from kafscale.model.security.access import AccessOperation, Principal, ResourceType
from kafscale.wire.kafka.messages.create_acls import AclCreation
from kafscale.wire.kafka.messages.delete_acls import DeleteAclsFilter
from kafscale.wire.kafka.messages.describe_acls import DescribeAclsRequest

MOST_ROWS: Final = 10_000  # of one request

_ANY: Final = 1
_MATCH: Final = 2  # of pattern types

_Number = TypeVar("_Number", bound=IntEnum)


def acls_of(call: Call) -> Acls:
    """The lists of this cluster; SecurityDisabled if clients may do everything anyway."""
    acls = call.engine.acls
    if acls is None:
        raise SecurityDisabled("No authorizer is configured: every client may do everything.")
    return acls


def read_binding(row: AclCreation) -> AclBinding:
    """The binding that a client wants to have. Raises InvalidAcl."""
    binding = AclBinding(
        _known(ResourceType, row.resource_type),
        _known(PatternType, row.resource_pattern_type),
        row.resource_name,
        read_principal(row.principal),
        row.host,
        _known(AccessOperation, row.operation),
        _known(Permission, row.permission_type),
    )
    check_binding(binding)
    return binding


def read_filter(row: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """The bindings that a client means. Raises InvalidAcl.

    A principal that no binding can have selects none, as in Kafka.
    """
    pattern = row.pattern_type_filter
    principal = row.principal_filter
    return AclFilter(
        _known_or_any(ResourceType, row.resource_type_filter),
        row.resource_name_filter,
        None if pattern == _MATCH else _known_or_any(PatternType, pattern),
        Principal(*principal.partition(":")[::2]) if principal is not None else None,
        row.host_filter,
        _known_or_any(AccessOperation, row.operation),
        _known_or_any(Permission, row.permission_type),
        matches_name=pattern == _MATCH,
    )


def _known_or_any(kind: type[_Number], number: int) -> _Number | None:
    return None if number == _ANY else _known(kind, number)


def _known(kind: type[_Number], number: int) -> _Number:
    try:
        return kind(number)
    except ValueError:
        raise InvalidAcl(f"there is no {kind.__name__} {number}") from None
