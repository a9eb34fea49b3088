"""What access control lists allow: the one decision of all doors.

Here: an index of the bindings by resource, and the authorizer that asks it. The rules are Kafka's:
super users may do everything; a binding that denies beats every binding that allows; some
operations allow others along with them; what no binding allows is denied.
Next door: bindings (acls.py), where they come from (engine/access/acls.py).
Never here: which request needs which operation (gateways/kafka/access/).
"""

import ipaddress
from collections import Counter
from collections.abc import Collection
from typing import Final

from kafscale.access.acls import EVERYBODY, WILDCARD, AclBinding, PatternType, Permission
from kafscale.model.security.access import AccessOperation, Principal, ResourceType

_MOST_CACHED: Final = 1 << 16  # decisions; one takes about 300 bytes
_ANY_NAME: Final = "hardcode"  # what Kafka's authorizers try first, see `allows_any`

_EVERY_OPERATION: Final = sum(1 << one for one in AccessOperation)
_LITERAL, _PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
_DESCRIBE: Final = 1 << AccessOperation.DESCRIBE
_ALLOWED_BY: Final[dict[AccessOperation, int]] = {one: 1 << one for one in AccessOperation} | {
    AccessOperation.ALL: _EVERY_OPERATION,
    AccessOperation.READ: 1 << AccessOperation.READ | _DESCRIBE,
    AccessOperation.WRITE: 1 << AccessOperation.WRITE | _DESCRIBE,
    AccessOperation.DELETE: 1 << AccessOperation.DELETE | _DESCRIBE,
    AccessOperation.ALTER: 1 << AccessOperation.ALTER | _DESCRIBE,
    AccessOperation.ALTER_CONFIGS: 1 << AccessOperation.ALTER_CONFIGS
    | 1 << AccessOperation.DESCRIBE_CONFIGS,
}
_DENIED_BY: Final[dict[AccessOperation, int]] = {one: 1 << one for one in AccessOperation} | {
    AccessOperation.ALL: _EVERY_OPERATION
}

_Bits = tuple[int, int]  # the operations that are allowed, and those that are denied


class _Rules:
    """The bindings of one pattern, and what they allow and deny, by principal and host."""

    __slots__ = ("_bindings", "by_principal")

    def __init__(self) -> None:
        self._bindings: set[AclBinding] = set()
        self.by_principal: dict[Principal, dict[str, _Bits]] = {}

    def __bool__(self) -> bool:
        return bool(self._bindings)

    def add(self, binding: AclBinding) -> None:
        self._bindings.add(binding)
        hosts = self.by_principal.setdefault(binding.principal, {})
        host = same_host(binding.host)
        hosts[host] = _with(hosts.get(host, (0, 0)), binding)

    def discard(self, binding: AclBinding) -> None:
        self._bindings.discard(binding)
        self.by_principal.pop(binding.principal, None)
        for other in [one for one in self._bindings if one.principal == binding.principal]:
            self.add(other)

    def bits(self, principal: Principal, host: str) -> _Bits:
        """What the rules of everybody and those of the principal say together."""
        allowed = denied = 0
        for one in (principal, EVERYBODY):
            hosts = self.by_principal.get(one)
            if hosts is not None:
                for where in (WILDCARD, host):
                    found = hosts.get(where)
                    if found is not None:
                        allowed |= found[0]
                        denied |= found[1]
        return allowed, denied


def _with(bits: _Bits, binding: AclBinding) -> _Bits:
    allowed, denied = bits
    if binding.permission is Permission.ALLOW:
        return allowed | _ALLOWED_BY[binding.operation], denied
    return allowed, denied | _DENIED_BY[binding.operation]


class AclIndex:
    """All bindings by type, pattern and name of their resource."""

    def __init__(self) -> None:
        self._literal: dict[ResourceType, dict[str, _Rules]] = {kind: {} for kind in ResourceType}
        self._prefixed: dict[ResourceType, dict[str, _Rules]] = {kind: {} for kind in ResourceType}
        self._lengths: dict[ResourceType, Counter[int]] = {kind: Counter() for kind in ResourceType}

    def add(self, binding: AclBinding) -> None:
        """Take a binding into account."""
        by_name = self._by_name(binding)
        rules = by_name.get(binding.name)
        if rules is None:
            rules = by_name[binding.name] = _Rules()
            if binding.pattern is _PREFIXED:
                self._lengths[binding.kind][len(binding.name)] += 1
        rules.add(binding)

    def discard(self, binding: AclBinding) -> None:
        """Take a binding into account no longer."""
        by_name = self._by_name(binding)
        rules = by_name.get(binding.name)
        if rules is None:
            return
        rules.discard(binding)
        if not rules:
            del by_name[binding.name]
            if binding.pattern is _PREFIXED:
                lengths = self._lengths[binding.kind]
                lengths[len(binding.name)] -= 1
                if not lengths[len(binding.name)]:
                    del lengths[len(binding.name)]

    def _by_name(self, binding: AclBinding) -> dict[str, _Rules]:
        return (self._literal if binding.pattern is _LITERAL else self._prefixed)[binding.kind]

    def operations(
        self, principal: Principal, host: str, kind: ResourceType, name: str
    ) -> int | None:
        """The operations that are allowed, as bits; None if no binding is about the resource."""
        host = same_host(host)
        literal, prefixed = self._literal[kind], self._prefixed[kind]
        found = [literal.get(name), literal.get(WILDCARD) if name != WILDCARD else None]
        found += [prefixed.get(name[:length]) for length in self._lengths[kind]]
        allowed = denied = 0
        has_rules = False
        for rules in found:
            if rules is not None:
                has_rules = True
                bits = rules.bits(principal, host)
                allowed |= bits[0]
                denied |= bits[1]
        return allowed & ~denied if has_rules else None

    def allows_some(
        self, principal: Principal, host: str, operation: AccessOperation, kind: ResourceType
    ) -> bool:
        """Whether a pattern is allowed to the principal that is not denied to it.

        Kafka compares patterns here, not names: a prefix that is allowed counts unless a prefix of
        it is denied.
        """
        literal_yes, literal_no = _by_bit(self._literal[kind], principal, host, operation)
        prefixed_yes, prefixed_no = _by_bit(self._prefixed[kind], principal, host, operation)
        if WILDCARD in literal_no:
            return False
        if WILDCARD in literal_yes:
            return True

        def is_free(name: str) -> bool:
            return not any(name[:end] in prefixed_no for end in range(1, len(name) + 1))

        return any(map(is_free, literal_yes - literal_no)) or any(map(is_free, prefixed_yes))


def _by_bit(
    by_name: dict[str, _Rules], principal: Principal, host: str, operation: AccessOperation
) -> tuple[set[str], set[str]]:
    """The names that have rules which allow the operation, and those that deny it."""
    host = same_host(host)
    bits = {name: rules.bits(principal, host) for name, rules in by_name.items()}
    return (
        {name for name, (allowed, _) in bits.items() if allowed >> operation & 1},
        {name for name, (_, denied) in bits.items() if denied >> operation & 1},
    )


def same_host(host: str) -> str:
    """An address in its one form: there are several ways to write one of IPv6."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    return str(address.ipv4_mapped or address)


class AclAuthorizer:
    """Implements Authorizer by an index of bindings."""

    allows_all = False

    def __init__(
        self,
        index: AclIndex,
        super_users: Collection[Principal] = (),
        *,
        allows_without_acl: bool = False,
    ) -> None:
        """`allows_without_acl`: what no binding is about, everybody may use."""
        self._index = index
        self._super_users = frozenset(super_users)
        self._without_acl = _EVERY_OPERATION if allows_without_acl else 0
        self._cached: dict[tuple[Principal, str, ResourceType, str], int] = {}
        self._cached_any: dict[tuple[Principal, str, AccessOperation, ResourceType], bool] = {}

    def forget(self) -> None:
        """Decide everything anew: the bindings have changed."""
        self._cached.clear()
        self._cached_any.clear()

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: AccessOperation,
        kind: ResourceType,
        name: str,
    ) -> bool:
        """Whether the principal may do this."""
        asked = (principal, host, kind, name)
        bits = self._cached.get(asked)
        if bits is None:
            bits = self._decide(*asked)
            if len(self._cached) >= _MOST_CACHED:
                self._cached.clear()
            self._cached[asked] = bits
        return bool(bits >> operation & 1)

    def _decide(self, principal: Principal, host: str, kind: ResourceType, name: str) -> int:
        if principal in self._super_users:
            return _EVERY_OPERATION
        bits = self._index.operations(principal, host, kind, name)
        return self._without_acl if bits is None else bits

    def allows_any(
        self, principal: Principal, host: str, operation: AccessOperation, kind: ResourceType
    ) -> bool:
        """Whether there can be a resource of this type that the principal may do this to."""
        if self.allows(principal, host, operation, kind, _ANY_NAME):
            return True
        asked = (principal, host, operation, kind)
        found = self._cached_any.get(asked)
        if found is None:
            found = self._index.allows_some(*asked)
            if len(self._cached_any) >= _MOST_CACHED:
                self._cached_any.clear()
            self._cached_any[asked] = found
        return found
