"""The object storage port.

Here: four verbs on keys, a clock, and what may go wrong. The store knows nothing of segments.
Next door: the adapters memory.py, files.py, s3.py and the wrappers around them.

Safety of the whole log rests on one property of one verb: of any number of `put_new` for a
key that is free, exactly one succeeds, and readers see all of its bytes or none.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from kafscale.model.buffers import Buffer

# What can be written without being joined first. memoryview and bytearray are passed through.


# What a request to a bucket is, as its provider counts them.
RequestKind = Literal["put", "get", "head", "list", "delete"]
# request, the key or folder it is about, how many of them
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
        A retry inside an adapter can make our own object look like somebody else's, so
        ObjectExists alone never proves that another writer was here.
        """
        ...

    async def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Give the bytes from `start`, at most `length`; fewer at the end; ObjectMissing if none.

        A start at or past the end gives an empty view.
        """
        ...

    async def find(
        self, folder: str, after: str = "", before: str = "", limit: int = 0
    ) -> list[StoredObject]:
        """List all objects below `folder` (whole path segments) in key order.

        Only keys > `after` and, where given, < `before`: both are whole keys. With a `limit` only
        the first so many, as of one moment if it is not above PAGE; fewer mean that this was all.
        """
        ...

    async def folders(self, folder: str) -> list[str]:
        """Names of the folders right below `folder`, sorted, without reading what is in them."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove the keys; those that are gone already are no error."""
        ...

    async def now_ms(self) -> int:
        """The store's own idea of the time, the one `modified_ms` is written by."""
        ...

    async def aclose(self) -> None:
        """Release connections and threads."""
        ...


@runtime_checkable
class SaysRequests(Protocol):
    """A store that may need several requests for one call, and tells of each as it is sent."""

    on_request: OnRequest
