"""Access control lists as Kafka has them: bindings, and filters that select bindings.

Here: the values, what makes one valid, and what a filter matches. Numbers are Kafka's.
Next door: what bindings allow (decision.py), named bundles of them (roles.py), where they are kept
(engine/access/acls.py).
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from kafscale.model.errors import InvalidAcl
from kafscale.model.security.access import CLUSTER_NAME, AccessOperation, Principal, ResourceType

WILDCARD: Final = "*"  # as the name of a literal pattern, as a host, as the name of a user
EVERYBODY: Final = Principal("User", WILDCARD)
LONGEST_ACL: Final = 8192  # characters of a binding's texts together

_OPERATION: Final = AccessOperation


class PatternType(IntEnum):
    """How the name of a binding selects resources."""

    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """What a binding does."""

    DENY = 2
    ALLOW = 3


class AclBinding(NamedTuple):
    """One rule: a principal, from a host, may or may not do this to these resources."""

    kind: ResourceType
    pattern: PatternType
    name: str
    principal: Principal
    host: str
    operation: AccessOperation
    permission: Permission


# The operations that have a meaning for each type of resource, as Kafka lists them.
OPERATIONS_ON: Final[dict[ResourceType, tuple[AccessOperation, ...]]] = {
    ResourceType.TOPIC: (
        _OPERATION.READ,
        _OPERATION.WRITE,
        _OPERATION.CREATE,
        _OPERATION.DELETE,
        _OPERATION.ALTER,
        _OPERATION.DESCRIBE,
        _OPERATION.DESCRIBE_CONFIGS,
        _OPERATION.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        _OPERATION.READ,
        _OPERATION.DELETE,
        _OPERATION.DESCRIBE,
        _OPERATION.DESCRIBE_CONFIGS,
        _OPERATION.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        _OPERATION.CREATE,
        _OPERATION.ALTER,
        _OPERATION.DESCRIBE,
        _OPERATION.CLUSTER_ACTION,
        _OPERATION.DESCRIBE_CONFIGS,
        _OPERATION.ALTER_CONFIGS,
        _OPERATION.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (
        _OPERATION.WRITE,
        _OPERATION.DESCRIBE,
        _OPERATION.TWO_PHASE_COMMIT,
    ),
    ResourceType.DELEGATION_TOKEN: (_OPERATION.DESCRIBE,),
    ResourceType.USER: (_OPERATION.CREATE_TOKENS, _OPERATION.DESCRIBE_TOKENS),
}


def read_principal(text: str) -> Principal:
    """The principal that is written like this: type, colon, name. Raises InvalidAcl."""
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise InvalidAcl(f"a principal is written as User:name, not as {text[:100]!r}")
    return Principal(kind, name)


def check_binding(binding: AclBinding) -> None:
    """Raise InvalidAcl for a binding that is not one."""
    if not binding.name:
        raise InvalidAcl("the name of a resource is empty")
    if not binding.host:
        raise InvalidAcl("the host is empty; * means every host")
    if binding.kind is ResourceType.CLUSTER and binding.name != CLUSTER_NAME:
        raise InvalidAcl(f"the only cluster is called {CLUSTER_NAME}")
    texts = (binding.name, *binding.principal, binding.host)
    if sum(map(len, texts)) > LONGEST_ACL:
        raise InvalidAcl(f"name, principal and host have more than {LONGEST_ACL} characters")


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Selects bindings; None selects all.

    `matches_name`: the bindings that decide about a resource of this name, whatever their pattern.
    """

    kind: ResourceType | None = None
    name: str | None = None
    pattern: PatternType | None = None
    principal: Principal | None = None
    host: str | None = None
    operation: AccessOperation | None = None
    permission: Permission | None = None
    matches_name: bool = False

    def selects(self, binding: AclBinding) -> bool:
        """Whether a binding is one of those."""
        return (
            self.kind in (None, binding.kind)
            and self.pattern in (None, binding.pattern)
            and self._selects_name(binding)
            and self.principal in (None, binding.principal)
            and self.host in (None, binding.host)
            and self.operation in (None, binding.operation)
            and self.permission in (None, binding.permission)
        )

    def _selects_name(self, binding: AclBinding) -> bool:
        if self.name is None or self.name == binding.name:
            return True
        if not self.matches_name:
            return False
        if binding.pattern is PatternType.PREFIXED:
            return self.name.startswith(binding.name)
        return binding.name == WILDCARD
