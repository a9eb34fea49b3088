"""Notices: a process that is no broker tells the brokers what it has changed in a namespace.

Here: numbered objects, each with the logs and topics that were changed, and the store that notes
such changes while a job writes. A notice is a hint. Without it brokers still serve what is right
(rule 26); with it they serve what is newest, soon, and no broker has to ask every log.
Next door: a broker that reads them (engine/upkeep/foreign_changes.py), the jobs (spark/bucket.py).
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from kafscale.log.formats import keys
from kafscale.model.buffers import Buffer
from kafscale.model.errors import CorruptObject, ObjectExists, ObjectMissing
from kafscale.objects.store import ObjectStore, StoredObject

KEPT: Final = 100


class Notice(msgspec.Struct, frozen=True):
    """What one process has changed."""

    logs: list[str] = []  # folders that got a manifest
    topics: list[str] = []  # names that got a descriptor


async def list_numbers(store: ObjectStore, namespace: str) -> list[int]:
    """The numbers of the notices that are kept, in order."""
    listed = await store.find(keys.notice_folder(namespace))
    parsed = (keys.parse_notice(stored.key) for stored in listed)
    return [number for number in parsed if number is not None]


async def read(store: ObjectStore, namespace: str, number: int) -> Notice | None:
    """The notice of that number; None if there is none, or none yet."""
    key = keys.notice(namespace, number)
    try:
        return _DECODER.decode(await store.read(key))
    except ObjectMissing:
        return None
    except (msgspec.DecodeError, msgspec.ValidationError) as problem:
        raise CorruptObject(f"{key} is no notice: {problem}") from problem


_DECODER = msgspec.json.Decoder(Notice)


async def write(store: ObjectStore, namespace: str, notice: Notice) -> int:
    """Write the next notice and delete those that are older than the last hundred or two."""
    body = msgspec.json.encode(notice)
    while True:
        numbers = await list_numbers(store, namespace)
        number = numbers[-1] + 1 if numbers else 1
        try:
            await store.put_new(keys.notice(namespace, number), [body])
        except ObjectExists:
            continue  # of another process, or our own attempt: a notice may come twice
        if len(numbers) >= 2 * KEPT:
            await store.delete([keys.notice(namespace, old) for old in numbers[:-KEPT]])
        return number


class ChangeRecorder:
    """A store that passes every call on and remembers which logs and topics were changed."""

    def __init__(self, inner: ObjectStore) -> None:
        """Record what is created in `inner`."""
        self._inner = inner
        self._logs: set[str] = set()
        self._topics: set[str] = set()

    @property
    def has_changes(self) -> bool:
        """Whether anything was changed since the last `take`."""
        return bool(self._logs or self._topics)

    def take(self) -> Notice | None:
        """What was changed since the last call; None if nothing was."""
        if not self.has_changes:
            return None
        notice = Notice(sorted(self._logs), sorted(self._topics))
        self._logs.clear()
        self._topics.clear()
        return notice

    async def put_new(self, key: str, body: Sequence[Buffer]) -> None:
        """Create the object; whatever the answer, it may be there afterwards."""
        try:
            await self._inner.put_new(key, body)
        finally:
            self._record(key)

    def _record(self, key: str) -> None:
        folder, _, name = key.rpartition("/")
        if keys.parse_generation(key) is None:
            return
        if name.startswith("manifest-"):
            self._logs.add(folder)
        elif name.startswith("descriptor-"):
            self._topics.add(folder.rpartition("/")[2])

    async def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Read from the store inside."""
        return await self._inner.read(key, start, length)

    async def find(
        self, folder: str, after: str = "", before: str = "", limit: int = 0
    ) -> list[StoredObject]:
        """List the store inside."""
        return await self._inner.find(folder, after, before, limit)

    async def folders(self, folder: str) -> list[str]:
        """List the store inside."""
        return await self._inner.folders(folder)

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete from the store inside."""
        await self._inner.delete(keys)

    async def now_ms(self) -> int:
        """The time of the store inside."""
        return await self._inner.now_ms()

    async def aclose(self) -> None:
        """Close the store inside."""
        await self._inner.aclose()
