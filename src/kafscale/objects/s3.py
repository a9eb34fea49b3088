"""Objects in a bucket, through obstore.

Here: the verbs, the translation of errors, and the retries.
Next door: the client and its settings (bucket_client.py), the same port on files (files.py), the
check that a bucket is good enough (probe.py).
Never here: what the keys mean.

Attempts are counted and repeated here, not by obstore: every one costs money and is told, and
after a put whose outcome is unknown, a refusal no longer means "not written", which only we can
say. Uploads in parts are the exception: obstore repeats their parts.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    NotFoundError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)

from kafscale.model.buffers import Buffer
from kafscale.model.clock import Dice
from kafscale.model.errors import (
    ObjectExists,
    ObjectMissing,
    StoreError,
    StoreRefused,
    StoreUnavailable,
)
from kafscale.objects.bucket_client import FIRST_PAUSE_S, LAST_PAUSE_S, S3Settings, open_client
from kafscale.objects.names import check_folder, check_key
from kafscale.objects.store import PAGE, OnRequest, RequestKind, StoredObject
from kafscale.retry import Backoff, RetryPolicy

if TYPE_CHECKING:
    from obstore import Attributes  # exists in the type stubs only

__all__ = ["S3ObjectStore", "S3Settings"]

CLOCK_KEY: Final = ".kafscale-clock"  # rewritten to learn the store's time
JITTER: Final = 0.3  # of a pause is added by chance, so that not all come back at once
CLASS_FROM: Final = 1 << 20  # smaller objects are merged soon; moving them elsewhere costs more
PARTS_AT_ONCE: Final = 4
EXIT_IDLE_S: Final = 0.05  # obstore's threads may abort an interpreter that ends right after a call

_DEFINITE: Final = (
    PermissionDeniedError,
    UnauthenticatedError,
    InvalidPathError,
    NotSupportedError,
    UnknownConfigurationKeyError,
    StoreRefused,
)
_PAST_THE_END: Final = " 416 "

T = TypeVar("T")


def _never(_key: str) -> bool:
    return False


class S3ObjectStore:
    """One bucket.

    `is_unique` tells names that no other writer ever chooses: such objects may be uploaded in
    parts, which rules out the condition that the name be free.
    """

    def __init__(
        self,
        settings: S3Settings,
        is_unique: Callable[[str], bool] = _never,
        dice: Dice | None = None,
    ) -> None:
        try:
            self._client = open_client(settings, 0)
            self._patient = open_client(settings, settings.max_retries)
        except (BaseError, ValueError) as failed:
            raise StoreRefused(f"cannot use bucket {settings.bucket}: {failed}") from failed
        self._settings = settings
        self._is_unique = is_unique
        self._places = asyncio.Semaphore(settings.concurrency)
        self._retry = RetryPolicy(
            FIRST_PAUSE_S, LAST_PAUSE_S, jitter=JITTER, deadline_s=settings.retry_timeout_s
        )
        self._dice = dice
        self._deletes_in_bulk = settings.scheme == "s3"
        self.on_request: OnRequest = lambda _request, _key, _count: None

    async def put_new(self, key: str, body: Sequence[Buffer]) -> None:
        """Send one conditional PUT, again while its outcome is unknown."""
        check_key(key)
        buffers = list(body) or [b""]  # sent as they are: joining costs a tenth more CPU
        size = sum(map(len, buffers))
        attributes: Attributes | None = None
        if self._settings.storage_class and size >= CLASS_FROM:
            attributes = {"Storage-Class": self._settings.storage_class}
        if size > self._settings.part_size and self._is_unique(key):
            await self._put_parts(key, buffers, size, attributes)
            return

        async def send() -> None:
            await obstore.put_async(
                self._client,
                key,
                buffers,
                mode="create",
                use_multipart=False,
                attributes=attributes,
            )

        await self._tried("put", key, send)

    async def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Give a view of the answer's own memory."""
        check_key(key)
        if length == 0:
            await self._tried("head", key, lambda: self._size(key))
            return memoryview(b"")

        async def send() -> memoryview:
            try:
                if length is not None:
                    return memoryview(
                        await obstore.get_range_async(self._client, key, start=start, length=length)
                    )
                if start:
                    answer = await obstore.get_async(
                        self._client, key, options={"range": {"offset": start}}
                    )
                else:
                    answer = await obstore.get_async(self._client, key)
                return memoryview(await answer.bytes_async())
            except BaseError as failed:
                # A range past the end is an error to S3; the size tells whether it was that.
                if _PAST_THE_END not in str(failed):
                    raise
                self.on_request("head", key, 1)
                if start < await self._size(key):
                    raise
                return memoryview(b"")

        return await self._tried("get", key, send)

    async def find(
        self, folder: str, after: str = "", before: str = "", limit: int = 0
    ) -> list[StoredObject]:
        """List page by page; S3 gives keys in order, so a page beyond `before` is the last."""
        prefix = check_folder(folder) or None
        found: list[StoredObject] = []

        async def send() -> None:
            # A second attempt goes on where the first one broke off.
            offset = found[-1].key if found else after
            pages = obstore.list(self._client, prefix, offset=offset or None, chunk_size=PAGE)
            number = 0
            async for page in pages:
                number += 1
                if number > 1:
                    self.on_request("list", folder, 1)
                for row in page:
                    modified_ms = int(row["last_modified"].timestamp() * 1000)
                    if row["path"][0] != ".":
                        found.append(StoredObject(row["path"], row["size"], modified_ms))
                is_last = len(page) < PAGE  # asking once more would be a hop for nothing
                is_beyond = before and found and found[-1].key >= before
                if is_last or is_beyond or (limit and len(found) >= limit):
                    break

        await self._tried("list", folder, send)
        found.sort()
        wanted = [row for row in found if row.key > after and (not before or row.key < before)]
        return wanted[: limit or None]

    async def folders(self, folder: str) -> list[str]:
        """List with a delimiter."""
        prefix = check_folder(folder) or None
        found = await self._tried(
            "list", folder, lambda: obstore.list_with_delimiter_async(self._client, prefix)
        )
        rows = len(found["common_prefixes"]) + len(found["objects"])
        if rows > PAGE:
            self.on_request("list", folder, (rows - 1) // PAGE)
        names = (path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"])
        return sorted(name for name in names if folder or not name.startswith("."))

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove in bulk, as many at a time as S3 takes."""
        paths = [check_key(key) for key in keys]
        for at in range(0, len(paths), PAGE):
            page = paths[at : at + PAGE]
            if not self._deletes_in_bulk and len(page) > 1:
                self.on_request("delete", page[0], len(page) - 1)
            await self._tried("delete", page[0], partial(self._delete, page))

    async def now_ms(self) -> int:
        """Write an object and look at its time: a bucket has no other way to tell it."""

        async def write() -> None:
            await obstore.put_async(self._client, CLOCK_KEY, b"", use_multipart=False)

        async def look() -> int:
            facts = await obstore.head_async(self._client, CLOCK_KEY)
            return int(facts["last_modified"].timestamp() * 1000)

        await self._tried("put", CLOCK_KEY, write)
        return await self._tried("head", CLOCK_KEY, look)

    async def aclose(self) -> None:
        """Give obstore's threads the moment they need after the last call."""
        await asyncio.sleep(EXIT_IDLE_S)

    async def _put_parts(
        self, key: str, buffers: list[Buffer], size: int, attributes: "Attributes | None"
    ) -> None:
        part_size = self._settings.part_size
        # One to begin, one for each part, one to end.
        self.on_request("put", key, -(-size // part_size) + 2)
        try:
            async with self._places:
                await obstore.put_async(
                    self._patient,
                    key,
                    buffers,
                    use_multipart=True,
                    chunk_size=part_size,
                    max_concurrency=PARTS_AT_ONCE,
                    attributes=attributes,
                )
        except Exception as failed:
            raise _translated("put", key, failed) from failed

    async def _delete(self, paths: Sequence[str]) -> None:
        await obstore.delete_async(self._client, paths)

    async def _size(self, key: str) -> int:
        return (await obstore.head_async(self._client, key))["size"]

    async def _tried(self, request: RequestKind, key: str, send: Callable[[], Awaitable[T]]) -> T:
        """Send a request; while its outcome is unknown, send it again after a pause."""
        began_s = asyncio.get_running_loop().time()
        backoff = Backoff(self._retry, self._dice)
        for attempt in range(self._settings.max_retries + 1):
            self.on_request(request, key, 1)
            try:
                async with self._places:
                    return await send()
            except Exception as failed:
                error = _translated(request, key, failed)
                if isinstance(error, StoreRefused) and request == "put" and attempt > 0:
                    error = StoreUnavailable(str(error))  # an earlier attempt may have got through
                    raise error from failed
                is_last = attempt == self._settings.max_retries
                too_late = not backoff.allows(asyncio.get_running_loop().time() - began_s)
                if not isinstance(error, StoreUnavailable) or is_last or too_late:
                    raise error from failed
            await asyncio.sleep(backoff.next_s())
        raise AssertionError("the last attempt returns or raises")


def _translated(request: RequestKind, key: str, failed: Exception) -> StoreError:
    """Most faults of a server arrive as one general error, so only the clear answers are told."""
    if isinstance(failed, StoreError):
        return failed
    words = f"{request} {key}: {_first_words(failed)}"
    if isinstance(failed, AlreadyExistsError | PreconditionError):
        return ObjectExists(key)
    if isinstance(failed, NotFoundError | FileNotFoundError):
        is_reading = request in ("get", "head") and "NoSuchBucket" not in words
        return ObjectMissing(key) if is_reading else StoreRefused(words)
    if isinstance(failed, (*_DEFINITE, PermissionError)):
        return StoreRefused(words)
    return StoreUnavailable(words)


def _first_words(failed: Exception) -> str:
    """obstore appends a page of its inner state to every message."""
    return str(failed).split("\n\nDebug source", 1)[0]
