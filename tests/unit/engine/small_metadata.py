"""A metadata store with the largest request of etcd."""

from collections.abc import Sequence
from typing import Any

from kafscale.metadata.store import Compare, MetadataStore, Put, Remove
from kafscale.model.errors import MetadataUnavailable


class Narrow:
    """Takes no more in one commit than etcd does."""

    def __init__(self, inner: MetadataStore) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def commit(self, writes: Sequence[Put | Remove], guards: Sequence[Compare] = ()) -> int:
        if sum(len(write.value) for write in writes if isinstance(write, Put)) > 3 << 19:
            raise MetadataUnavailable("request is too large")
        return await self._inner.commit(writes, guards)
