"""The object storage port.

Here: five verbs on keys (put_new, read, find, folders, delete) and the store's clock. The store
knows nothing of segments.
Next door: the adapters memory.py, files.py, s3.py and the wrappers around them.

The safety of the whole log rests on one property of `put_new`: if several writers create the same
free key, exactly one succeeds, and readers see all of its bytes or none.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from kafscale.model.buffers import Buffer

# The kinds of requests that a bucket's provider bills.
RequestKind = Literal["put", "get", "head", "list", "delete"]
# The kind of request, its key or folder, how many requests.
OnRequest = Callable[[RequestKind, str, int], None]
PAGE = 1000  # most keys that one listing gives or one deletion takes


class StoredObject(NamedTuple):
    """One row of a listing."""

    key: str
    size: int
    modified_ms: int  # by the store's clock


class ObjectStore(Protocol):
    """Keys to immutable bytes. All errors are kafscale.model.errors.StoreError."""

    async def put_new(self, key: str, body: Sequence[Buffer]) -> None:
        """Create `key` with the joined buffers, or raise ObjectExists.

        StoreUnavailable leaves open whether it happened; StoreRefused means it did not.
        A retry inside an adapter can meet the object of its own first attempt. So ObjectExists
        alone never proves that another writer created the key.
        """
        ...

    async def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Read from `start`, at most `length` bytes, fewer at the end. May raise ObjectMissing.

        A start at or past the end gives an empty view.
        """
        ...

    async def find(
        self, folder: str, after: str = "", before: str = "", limit: int = 0
    ) -> list[StoredObject]:
        """List all objects below `folder` (whole path segments) in key order.

        Only keys > `after` and, if given, < `before`: both are whole keys. With a `limit` the
        store lists at most that many. Up to PAGE objects are listed as of one moment. Fewer
        objects than `limit` mean that there are no more.
        """
        ...

    async def folders(self, folder: str) -> list[str]:
        """Names of the folders right below `folder`, sorted, without reading what is in them."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove the keys; a key that does not exist is no error."""
        ...

    async def now_ms(self) -> int:
        """The time by the store's own clock, which also writes `modified_ms`."""
        ...

    async def aclose(self) -> None:
        """Release connections and threads."""
        ...


@runtime_checkable
class CountsRequests(Protocol):
    """A store that may send several requests for one call, and reports each as it sends it."""

    on_request: OnRequest
