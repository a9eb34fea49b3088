"""Roles: named bundles of access control lists.

Here: which bindings a role is made of, and which roles a set of bindings amounts to. A role is
stored nowhere: granting one creates its bindings, and who has all of them has the role. Kafka's own
tools show and remove the same bindings.
Next door: bindings (acls.py), the command (cli/brokers/access/roles.py).
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from kafscale.access.acls import WILDCARD, AclBinding, PatternType, Permission
from kafscale.model.security.access import CLUSTER_NAME, AccessOperation, Principal, ResourceType

_OPERATION: Final = AccessOperation


class Pattern(NamedTuple):
    """The resources that a role is about: one name, a prefix of names, or all."""

    type: PatternType
    name: str

    def __str__(self) -> str:
        """As people write it: a prefix ends with a star."""
        return f"{self.name}*" if self.type is PatternType.PREFIXED else self.name


EVERY: Final = Pattern(PatternType.LITERAL, WILDCARD)


class Role(NamedTuple):
    """What a role may do to topics, to groups, and, if it is for all topics, to the cluster."""

    topics: tuple[AccessOperation, ...]
    groups: tuple[AccessOperation, ...] = ()
    cluster: tuple[AccessOperation, ...] = ()


ROLES: Final[dict[str, Role]] = {
    "admin": Role(
        (
            _OPERATION.CREATE,
            _OPERATION.DELETE,
            _OPERATION.ALTER,
            _OPERATION.DESCRIBE,
            _OPERATION.DESCRIBE_CONFIGS,
            _OPERATION.ALTER_CONFIGS,
        ),
        (_OPERATION.DESCRIBE, _OPERATION.DELETE),
        (
            _OPERATION.CREATE,
            _OPERATION.ALTER,
            _OPERATION.DESCRIBE,
            _OPERATION.DESCRIBE_CONFIGS,
            _OPERATION.ALTER_CONFIGS,
        ),
    ),
    "producer": Role((_OPERATION.WRITE, _OPERATION.DESCRIBE)),
    "consumer": Role((_OPERATION.READ, _OPERATION.DESCRIBE), (_OPERATION.READ,)),
}


class GrantedRole(NamedTuple):
    """A role for a principal, from a host, as it is granted and revoked."""

    principal: Principal
    role: str
    topics: Pattern
    groups: Pattern | None  # None: the role is not about groups
    host: str = WILDCARD

    def bindings(self) -> list[AclBinding]:
        """What the role is made of."""
        rows = _on_topics(self.role, self.topics)
        if self.groups is not None:
            rows += _on_groups(self.role, self.groups)
        return [
            AclBinding(kind, *pattern, self.principal, self.host, operation, Permission.ALLOW)
            for kind, pattern, operation in rows
        ]


_Right = tuple[ResourceType, Pattern, AccessOperation]


def _right_of(binding: AclBinding) -> _Right:
    return binding.kind, Pattern(binding.pattern, binding.name), binding.operation


def _on_topics(role: str, topics: Pattern) -> list[_Right]:
    """What a role may do to topics. One for all topics is about the cluster, too."""
    rows = [(ResourceType.TOPIC, topics, operation) for operation in ROLES[role].topics]
    if topics == EVERY:
        whole = Pattern(PatternType.LITERAL, CLUSTER_NAME)
        rows += [(ResourceType.CLUSTER, whole, operation) for operation in ROLES[role].cluster]
    return rows


def _on_groups(role: str, groups: Pattern) -> list[_Right]:
    return [(ResourceType.GROUP, groups, operation) for operation in ROLES[role].groups]


class HeldRole(NamedTuple):
    """A role that a principal has, with all topics and groups that it has it for."""

    principal: Principal
    role: str
    topics: tuple[Pattern, ...]
    groups: tuple[Pattern, ...]
    host: str

    def rights(self) -> set[_Right]:
        """What the role allows."""
        on_topics = {right for one in self.topics for right in _on_topics(self.role, one)}
        return on_topics | {right for one in self.groups for right in _on_groups(self.role, one)}


def list_roles(bindings: Iterable[AclBinding]) -> list[HeldRole]:
    """The roles that the bindings amount to, sorted."""
    rights: dict[tuple[Principal, str], set[_Right]] = {}
    for one in bindings:
        if one.permission is Permission.ALLOW:
            rights.setdefault((one.principal, one.host), set()).add(_right_of(one))
    held = []
    for (principal, host), present in sorted(rights.items()):
        for role, parts in sorted(ROLES.items()):
            topics = _complete(role, _on_topics, ResourceType.TOPIC, present)
            groups = _complete(role, _on_groups, ResourceType.GROUP, present)
            if topics and (groups or not parts.groups):
                groups = groups if parts.groups else ()
                held.append(HeldRole(principal, role, topics, groups, host))
    return held


def _complete(
    role: str,
    needs: Callable[[str, Pattern], list[_Right]],
    kind: ResourceType,
    present: set[_Right],
) -> tuple[Pattern, ...]:
    """The patterns for which all is present that a role needs."""
    patterns = {pattern for of, pattern, _ in present if of is kind}
    return tuple(sorted(one for one in patterns if present.issuperset(needs(role, one))))


def list_removable(role: GrantedRole, bindings: Collection[AclBinding]) -> list[AclBinding]:
    """The bindings that go with a role: those that no other kind of role needs."""
    needed = {
        right
        for other in list_roles(bindings)
        if (other.principal, other.host) == (role.principal, role.host) and other.role != role.role
        for right in other.rights()
    }
    return [
        one
        for one in role.bindings()
        if one in bindings
        and (one.kind, Pattern(one.pattern, one.name), one.operation) not in needed
    ]
