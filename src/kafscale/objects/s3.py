"""Objects in an S3 bucket, through obstore.

Here: the settings, the translation of errors, and the retries of put_new.
Next door: the same port on files (files.py), the check that a bucket is good enough (probe.py).
Never here: what the keys mean.

obstore retries reads, listings and deletions itself. It must not retry put_new: after an attempt
whose outcome is unknown, a refusal no longer means "not written", and only we can say so.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

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
from obstore.store import S3Store

from kafscale.model.errors import (
    ObjectExists,
    ObjectMissing,
    StoreError,
    StoreRefused,
    StoreUnavailable,
)
from kafscale.objects.names import check_folder, check_key
from kafscale.objects.store import Buffer, StoredObject

if TYPE_CHECKING:
    from obstore.store import S3Config  # exists in the type stubs only

CLOCK_KEY: Final = ".kafscale-clock"  # rewritten to learn the store's time
FIRST_PAUSE_S: Final = 0.1
LAST_PAUSE_S: Final = 2.0
PAGE: Final = 1000  # what S3 gives per listing request
EXIT_IDLE_S: Final = 0.05  # obstore's threads may abort an interpreter that ends right after a call

_DEFINITE: Final = (
    PermissionDeniedError,
    UnauthenticatedError,
    InvalidPathError,
    NotSupportedError,
    UnknownConfigurationKeyError,
)


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Where the bucket is and how patient we are. Without keys: AWS's usual credential chain."""

    bucket: str
    region: str = "us-east-1"
    endpoint: str = ""  # empty: AWS itself
    path_style: bool = False
    access_key: str = ""
    secret_key: str = ""
    session_token: str = ""
    max_retries: int = 3
    concurrency: int = 64  # requests in flight
    connect_timeout_s: float = 5.0
    request_timeout_s: float = 30.0  # one attempt, body included
    retry_timeout_s: float = 60.0  # all attempts of a read


class S3ObjectStore:
    """One bucket."""

    def __init__(self, settings: S3Settings) -> None:
        try:
            self._store = _open(settings, settings.max_retries)
            self._once = _open(settings, 0)
        except (BaseError, ValueError) as failed:
            raise StoreRefused(f"cannot use bucket {settings.bucket}: {failed}") from failed
        self._max_retries = settings.max_retries
        self._places = asyncio.Semaphore(settings.concurrency)

    async def put_new(self, key: str, body: Sequence[Buffer]) -> None:
        """Send one conditional PUT, again while its outcome is unknown."""
        check_key(key)
        buffers = list(body) or [b""]  # sent as they are: joining costs a tenth more CPU
        pause_s = FIRST_PAUSE_S
        for attempt in range(self._max_retries + 1):
            try:
                async with self._places:
                    await obstore.put_async(
                        self._once, key, buffers, mode="create", use_multipart=False
                    )
                return
            except (AlreadyExistsError, PreconditionError) as taken:
                raise ObjectExists(key) from taken
            except Exception as failed:
                error = _translated("put", key, failed)
                if isinstance(error, StoreRefused) and attempt == 0:
                    raise error from failed
                if attempt == self._max_retries or isinstance(error, StoreRefused):
                    raise StoreUnavailable(str(error)) from failed
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LAST_PAUSE_S)

    async def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Give a view of the answer's own memory."""
        check_key(key)
        async with self._places:
            try:
                if length is None:
                    return await self._read_from(key, start)
                if length > 0:
                    return memoryview(
                        await obstore.get_range_async(self._store, key, start=start, length=length)
                    )
            except (NotFoundError, FileNotFoundError) as failed:
                raise _missing(key, failed) from failed
            except Exception as failed:
                # A range past the end is an error to S3; the size tells whether it was that.
                if "416" not in str(failed) or start < await self._size(key):
                    raise _translated("get", key, failed) from failed
                return memoryview(b"")
            await self._size(key)
            return memoryview(b"")

    async def find(self, folder: str, after: str = "", before: str = "") -> list[StoredObject]:
        """List page by page; S3 gives keys in order, so a page beyond `before` is the last."""
        prefix = check_folder(folder) or None
        found: list[StoredObject] = []
        try:
            async with self._places:
                pages = obstore.list(self._store, prefix, offset=after or None, chunk_size=PAGE)
                async for page in pages:
                    for row in page:
                        modified_ms = int(row["last_modified"].timestamp() * 1000)
                        found.append(StoredObject(row["path"], row["size"], modified_ms))
                    if before and found and found[-1].key >= before:
                        break
        except Exception as failed:
            raise _translated("list", folder, failed) from failed
        found.sort()
        return [
            row
            for row in found
            if row.key > after and (not before or row.key < before) and row.key[0] != "."
        ]

    async def folders(self, folder: str) -> list[str]:
        """List with a delimiter."""
        prefix = check_folder(folder) or None
        try:
            async with self._places:
                found = await obstore.list_with_delimiter_async(self._store, prefix)
        except Exception as failed:
            raise _translated("list", folder, failed) from failed
        names = (path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"])
        return sorted(name for name in names if folder or not name.startswith("."))

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove in bulk."""
        paths = [check_key(key) for key in keys]
        if not paths:
            return
        try:
            async with self._places:
                await obstore.delete_async(self._store, paths)
        except Exception as failed:
            raise _translated("delete", paths[0], failed) from failed

    async def now_ms(self) -> int:
        """Write an object and look at its time: a bucket has no other way to tell it."""
        try:
            async with self._places:
                await obstore.put_async(self._store, CLOCK_KEY, b"", use_multipart=False)
                facts = await obstore.head_async(self._store, CLOCK_KEY)
        except Exception as failed:
            raise _translated("time", CLOCK_KEY, failed) from failed
        return int(facts["last_modified"].timestamp() * 1000)

    async def aclose(self) -> None:
        """Give obstore's threads the moment they need after the last call."""
        await asyncio.sleep(EXIT_IDLE_S)

    async def _read_from(self, key: str, start: int) -> memoryview:
        if start == 0:
            answer = await obstore.get_async(self._store, key)
        else:
            answer = await obstore.get_async(self._store, key, options={"range": {"offset": start}})
        return memoryview(await answer.bytes_async())

    async def _size(self, key: str) -> int:
        try:
            return (await obstore.head_async(self._store, key))["size"]
        except (NotFoundError, FileNotFoundError) as failed:
            raise _missing(key, failed) from failed
        except Exception as failed:
            raise _translated("get", key, failed) from failed


def _open(settings: S3Settings, max_retries: int) -> S3Store:
    endpoint = _endpoint(settings)
    config: S3Config = {
        "region": settings.region,
        "virtual_hosted_style_request": not settings.path_style,
    }
    if endpoint:
        config["endpoint"] = endpoint
    if settings.access_key:
        config["access_key_id"] = settings.access_key
        config["secret_access_key"] = settings.secret_key
    if settings.session_token:
        config["session_token"] = settings.session_token
    return S3Store(
        settings.bucket,
        config=config,
        client_options={
            "allow_http": endpoint.startswith("http://"),
            "connect_timeout": timedelta(seconds=settings.connect_timeout_s),
            "timeout": timedelta(seconds=settings.request_timeout_s),
        },
        retry_config={
            "max_retries": max_retries,
            "retry_timeout": timedelta(seconds=settings.retry_timeout_s),
            "backoff": {
                "init_backoff": timedelta(seconds=FIRST_PAUSE_S),
                "max_backoff": timedelta(seconds=LAST_PAUSE_S),
                "base": 2,
            },
        },
    )


def _endpoint(settings: S3Settings) -> str:
    """The address of the bucket in obstore's sense: with the bucket's name unless path style."""
    endpoint = settings.endpoint.rstrip("/")
    if not endpoint or settings.path_style:
        return endpoint
    parts = urlsplit(endpoint)
    return parts._replace(netloc=f"{settings.bucket}.{parts.netloc}").geturl()


def _missing(key: str, failed: Exception) -> StoreError:
    if "NoSuchBucket" in str(failed):
        return StoreRefused(f"get {key}: {_first_words(failed)}")
    return ObjectMissing(key)


def _translated(verb: str, key: str, failed: Exception) -> StoreError:
    """Most faults of a server arrive as one general error, so only the clear refusals are told."""
    if isinstance(failed, StoreError):
        return failed
    refused = isinstance(failed, (*_DEFINITE, NotFoundError, FileNotFoundError, PermissionError))
    error = StoreRefused if refused else StoreUnavailable
    return error(f"{verb} {key}: {_first_words(failed)}")


def _first_words(failed: Exception) -> str:
    """obstore appends a page of its inner state to every message."""
    return str(failed).split("\n\nDebug source", 1)[0]
