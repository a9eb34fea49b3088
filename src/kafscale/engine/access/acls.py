"""The access control lists of a cluster: what a door may ask of them and do to them.

Here: bindings as rows of the metadata store, and the authorizer that decides by them.
Next door: the rules (access/decision.py), keeping rows at hand (watched_rows.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kafscale.access.acls import (
    AclBinding,
    AclFilter,
    PatternType,
    Permission,
    check_binding,
    read_principal,
)
from kafscale.access.decision import AclAuthorizer, AclIndex
from kafscale.engine.access.watched_rows import WatchedRows
from kafscale.metadata import keys
from kafscale.metadata.store import MetadataStore
from kafscale.model.errors import CorruptObject, InvalidAcl
from kafscale.model.security.access import AccessOperation, Principal, ResourceType


@dataclass(frozen=True, slots=True)
class AclRules:
    """What the settings say beside the lists themselves."""

    super_users: Sequence[Principal] = ()
    allows_without_acl: bool = False


class Acls:
    """All bindings. Every broker has all of them in memory, the last known ones at least."""

    def __init__(self, metadata: MetadataStore, rules: AclRules) -> None:
        index = AclIndex()
        self._index = index
        self.authorizer = AclAuthorizer(
            index, rules.super_users, allows_without_acl=rules.allows_without_acl
        )
        self._rows = WatchedRows(metadata, keys.ACLS, _decode, _encode)
        self._rows.listen(self._changed)

    def _changed(self, name: str, old: AclBinding | None, new: AclBinding | None) -> None:
        if old is not None:
            self._index.discard(old)
        if new is not None:
            self._index.add(new)
        self.authorizer.forget()

    async def load(self) -> None:
        """Read all bindings. A broker without them, or without one of them, must not serve.

        The one that cannot be read may be one that denies.
        """
        await self._rows.load()
        if self._rows.unreadable:
            names = ", ".join(sorted(self._rows.unreadable)[:3])
            raise CorruptObject(f"access control lists cannot be read: {keys.ACLS}{names}")

    async def run(self) -> None:
        """Follow what other brokers write."""
        await self._rows.run()

    # -- verbs -------------------------------------------------------------------------------

    def select(self, wanted: AclFilter) -> list[AclBinding]:
        """The bindings that a filter selects, sorted."""
        return sorted(filter(wanted.selects, self._rows.rows.values()))

    async def create(self, bindings: Iterable[AclBinding]) -> None:
        """Add bindings; one that is there already stays. They count here when this returns."""
        rows: dict[str, AclBinding | None] = {}
        for binding in bindings:
            check_binding(binding)
            rows[_row_of(binding).name()] = binding
        await self._rows.write(rows)

    async def delete(self, filters: Sequence[AclFilter]) -> list[list[AclBinding]]:
        """Remove what each filter selects; gives that."""
        await self._rows.load()  # another broker may just have added some
        found = [self.select(wanted) for wanted in filters]
        await self._rows.write({_row_of(one).name(): None for some in found for one in some})
        return found


def _row_of(binding: AclBinding) -> keys.AclRow:
    return keys.AclRow(
        resource_type=binding.kind.name,
        pattern_type=binding.pattern.name,
        resource_name=binding.name,
        principal=str(binding.principal),
        host=binding.host,
        operation=binding.operation.name,
        permission=binding.permission.name,
    )


def _encode(binding: AclBinding) -> bytes:
    return keys.encode(_row_of(binding))


def _decode(raw: bytes) -> AclBinding:
    row = keys.decode(keys.AclRow, raw)
    try:
        binding = AclBinding(
            ResourceType[row.resource_type],
            PatternType[row.pattern_type],
            row.resource_name,
            read_principal(row.principal),
            row.host,
            AccessOperation[row.operation],
            Permission[row.permission],
        )
        check_binding(binding)
    except (KeyError, InvalidAcl) as bad:
        raise CorruptObject(f"not an access control list: {bad}") from bad
    return binding
