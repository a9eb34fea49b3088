"""Roles of principals, asked of brokers: grant, revoke, list.

Here: roles as the access control lists that they are, by the APIs that kafka-acls.sh uses.
Next door: what a role is made of (access/roles.py).
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from confluent_kafka import admin as kafka
from confluent_kafka.admin import AdminClient

from kafscale.access import roles
from kafscale.access.acls import AclBinding, PatternType, Permission, read_principal
from kafscale.access.roles import GrantedRole, HeldRole
from kafscale.admin.brokers.client import ANSWER_WITHIN_S, wait, wait_for_all
from kafscale.model.security import access

# Its own stubs forget this one, and that a filter may leave out what it does not filter by.
_KAFKA: Final[Any] = kafka
_KINDS: Final = (_KAFKA.ResourceType.TOPIC, _KAFKA.ResourceType.GROUP, _KAFKA.ResourceType.BROKER)


def grant_role(admin: AdminClient, role: GrantedRole) -> None:
    """Give a principal a role. What it has of it already stays."""
    add_acls(admin, role.bindings())


def revoke_role(admin: AdminClient, role: GrantedRole) -> bool:
    """Take a role from a principal; gives whether anything was removed.

    Bindings that another kind of role of the principal needs stay.
    """
    gone = roles.list_removable(role, _list_acls(admin, str(role.principal)))
    remove_acls(admin, gone)
    return bool(gone)


def acls_of(admin: AdminClient, principal: str) -> set[AclBinding]:
    """The access control list of one principal."""
    return _list_acls(admin, principal, (*_KINDS, _KAFKA.ResourceType.TRANSACTIONAL_ID))


def add_acls(admin: AdminClient, wanted: Iterable[AclBinding]) -> None:
    """Add to the access control lists; what is there already stays."""
    if added := [_KAFKA.AclBinding(*_parts(one)) for one in wanted]:
        answers = admin.create_acls(added, request_timeout=ANSWER_WITHIN_S)
        wait_for_all({str(acl): answer for acl, answer in answers.items()})


def remove_acls(admin: AdminClient, gone: Iterable[AclBinding]) -> None:
    """Take these entries from the access control lists."""
    if filters := [_KAFKA.AclBindingFilter(*_parts(one)) for one in gone]:
        answers = admin.delete_acls(filters, request_timeout=ANSWER_WITHIN_S)
        wait_for_all({str(acl): answer for acl, answer in answers.items()})


def list_roles(admin: AdminClient, principal: str | None = None) -> list[HeldRole]:
    """The roles of a principal, or of all."""
    return roles.list_roles(_list_acls(admin, principal))


class AclFacts(NamedTuple):
    """An entry of the access control lists, in Kafka's words."""

    principal: str
    host: str
    operation: str
    permission: str
    resource_type: str
    resource: str
    pattern: str


def list_acls(admin: AdminClient) -> list[AclFacts]:
    """Every entry for topics, groups and the cluster."""
    return [
        AclFacts(
            str(one.principal),
            one.host,
            one.operation.name,
            one.permission.name,
            one.kind.name,
            one.name,
            one.pattern.name,
        )
        for one in _list_acls(admin, None)
    ]


def _list_acls(
    admin: AdminClient, principal: str | None, kinds: Iterable[Any] = _KINDS
) -> set[AclBinding]:
    found: set[AclBinding] = set()
    for kind in kinds:
        wanted = _KAFKA.AclBindingFilter(
            kind,
            None,
            _KAFKA.ResourcePatternType.ANY,
            principal,
            None,
            _KAFKA.AclOperation.ANY,
            _KAFKA.AclPermissionType.ANY,
        )
        answer = admin.describe_acls(wanted, request_timeout=ANSWER_WITHIN_S)
        found.update(_from_kafka(wait("", answer)))
    return found


def _from_kafka(rows: Iterable[Any]) -> Iterable[AclBinding]:
    for row in rows:
        yield AclBinding(
            access.ResourceType(row.restype.value),
            PatternType(row.resource_pattern_type.value),
            row.name,
            read_principal(row.principal),
            row.host,
            access.AccessOperation(row.operation.value),
            Permission(row.permission_type.value),
        )


def _parts(one: AclBinding) -> tuple[Any, ...]:
    return (
        _KAFKA.ResourceType(one.kind.value),
        one.name,
        _KAFKA.ResourcePatternType(one.pattern.value),
        str(one.principal),
        one.host,
        _KAFKA.AclOperation(one.operation.value),
        _KAFKA.AclPermissionType(one.permission.value),
    )
