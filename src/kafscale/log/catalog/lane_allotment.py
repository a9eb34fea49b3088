"""The shared logs of a namespace, and which topic gets which of their lanes.

Here: giving out slots. Each time, a small object that says so is created in the bucket, if absent,
before a topic uses the slots. So a lane never belongs to two topics, even if two brokers ask at
once or an answer is lost. Slots that were given out and never used stay unused: there are plenty.
Next door: what slots mean (formats/places.py).
"""

import msgspec

from kafscale.log.formats import keys
from kafscale.log.protocol import commits
from kafscale.model.errors import CorruptObject
from kafscale.model.topics import LaneRange
from kafscale.objects.store import ObjectStore


class Allotment(msgspec.Struct, frozen=True, kw_only=True):
    """How many shared logs there are, and the first slot that is free."""

    logs: int = 0
    next: int = 0


class SharedLogs:
    """Gives out lanes of one namespace's shared logs."""

    def __init__(self, store: ObjectStore, namespace: str) -> None:
        self._store = store
        self.folder = keys.shared_folder(namespace)
        self._seen = 0  # the newest version known here: older ones need not be listed again

    async def newest(self) -> tuple[int, Allotment]:
        """What has been given out so far, and the version that says so."""
        listed = await self._store.find(
            self.folder,
            after=keys.allotment(self.folder, max(self._seen - 1, 0)),
            before=keys.allotments_before(self.folder),
        )
        if not listed:
            return 0, Allotment()
        newest = listed[-1].key
        self._seen = version = keys.parse_generation(newest) or 0
        try:
            body = await self._store.read(newest)
            return version, msgspec.json.decode(body, type=Allotment)
        except msgspec.DecodeError as bad:
            raise CorruptObject(f"{newest}: not an allotment: {bad}") from bad

    async def allot(self, count: int, logs: int) -> LaneRange:
        """Slots for `count` partitions on `logs` logs, or on more if there are more already."""
        while True:
            version, old = await self.newest()
            wide = max(logs, old.logs)
            # With more logs the same lane numbers would be other slots: begin above all lanes.
            first = old.next if wide == old.logs else -(-old.next // max(old.logs, 1)) * wide
            wanted = Allotment(logs=wide, next=first + count)
            body = msgspec.json.encode(wanted)
            key = keys.allotment(self.folder, version + 1)
            # If an answer is lost, the loop gives out other slots, from the next one on.
            if await commits.put_same(self._store, key, [body], "allotment"):
                return LaneRange(self.folder, first, count, wide)
