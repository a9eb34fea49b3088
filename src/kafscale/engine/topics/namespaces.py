"""Tenants and namespaces as things of their own: made, listed, removed.

Here: what the metadata store says of them. A namespace is there if it was made, or if it has a
topic. Where the settings want namespaces to be made first, a topic of another one is refused.
Next door: the forms of a topic's name (model/tenancy.py), creating topics (topics.py).
"""

from kafscale.metadata import keys
from kafscale.metadata.store import Compare, MetadataStore, Put, Remove
from kafscale.model.errors import (
    InvalidTopicName,
    MetadataConflict,
    NamespaceExists,
    UnknownNamespace,
)
from kafscale.model.names import check_short_name


class Namespaces:
    """Those that were made; topics have others."""

    def __init__(self, metadata: MetadataStore, *, on_demand: bool) -> None:
        """`on_demand`: a topic makes its namespace."""
        self._metadata = metadata
        self._on_demand = on_demand

    async def require(self, topic: str) -> None:
        """Raise InvalidTopicName if a topic of this name may not be created."""
        tenant, slash, rest = topic.partition("/")
        if self._on_demand or not slash:
            return
        namespace = rest.partition("/")[0]
        if await self._metadata.get(keys.namespace(tenant, namespace)) is None:
            raise InvalidTopicName(f"there is no namespace {tenant}/{namespace}")

    async def by_tenant(self) -> dict[str, set[str]]:
        """The namespaces of every tenant."""
        found: dict[str, set[str]] = {}
        for entry in await self._metadata.find(keys.TENANTS):
            tenant, namespace = keys.namespace_named_by(entry.key)
            found.setdefault(tenant, set()).update({namespace} if namespace else ())
        return found

    async def add_tenant(self, tenant: str) -> None:
        """Make a tenant. Raises NamespaceExists, InvalidTopicName."""
        check_short_name(tenant)
        await self._add(keys.tenant(tenant), tenant)

    async def add(self, tenant: str, namespace: str) -> None:
        """Make a namespace. Raises UnknownNamespace without its tenant, NamespaceExists."""
        check_short_name(namespace)
        await self._require_tenant(tenant)
        await self._add(keys.namespace(tenant, namespace), f"{tenant}/{namespace}")

    async def _require_tenant(self, tenant: str) -> None:
        if await self._metadata.get(keys.tenant(tenant)) is None:
            raise UnknownNamespace(f"there is no tenant {tenant}")

    async def _add(self, key: str, name: str) -> None:
        try:
            await self._metadata.commit([Put(key, b"{}")], [Compare(key, 0)])
        except MetadataConflict:
            raise NamespaceExists(f"{name} exists already") from None

    async def remove(self, tenant: str, namespace: str = "") -> None:
        """Remove a namespace, or a tenant that has none. Raises UnknownNamespace."""
        key = keys.namespace(tenant, namespace) if namespace else keys.tenant(tenant)
        if await self._metadata.get(key) is None:
            raise UnknownNamespace(f"there is no {tenant}{'/' if namespace else ''}{namespace}")
        await self._metadata.commit([Remove(key)])
