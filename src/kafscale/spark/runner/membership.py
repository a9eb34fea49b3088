"""Which runners are alive: leases in the bucket, made with create-if-absent.

Here: a runner's lease is an object that it replaces by the next one before it expires. All ages are
by the store's clock. A lease decides who should do some work, never what counts: a runner that was
paused for longer than its lease does work twice, and tables and logs take it once.
Next door: how work is shared among the living (planner.py).
"""

import os
import socket
from typing import Final

import msgspec

from kafscale.log.formats import keys
from kafscale.model.errors import ObjectMissing
from kafscale.objects.store import ObjectStore, StoredObject
from kafscale.spark.bucket import Bucket

LEASE_MS: Final = 30_000
_FORGOTTEN_MS: Final = 20 * LEASE_MS  # leases of the dead are deleted then


class RunnerLease(msgspec.Struct, frozen=True, kw_only=True):
    """What a lease says."""

    runner: str
    host: str
    pid: int
    started_ms: int


class RunnerMembership:
    """One runner's place among the others."""

    def __init__(self, bucket: Bucket, lease_ms: int = LEASE_MS) -> None:
        """Choose a name that no other runner has; nothing is written yet."""
        self._bucket = bucket
        self._lease_ms = lease_ms
        self._number = 0
        self.runner = bucket.dice.token(8).hex()
        self._body = msgspec.json.encode(
            RunnerLease(
                runner=self.runner,
                host=socket.gethostname(),
                pid=os.getpid(),
                started_ms=bucket.clock.now_ms(),
            )
        )

    @property
    def renew_every_s(self) -> float:
        """Three tries before the lease ends."""
        return self._lease_ms / 3000

    def renew(self) -> list[str]:
        """Write the next lease; give the names of all runners that are alive, this one too."""
        return self._bucket.run(self._renew)

    def leave(self) -> None:
        """Give the lease up: the others take over at once."""
        self._bucket.run(self._leave)

    async def _renew(self, store: ObjectStore) -> list[str]:
        namespace = self._bucket.namespace
        self._number += 1
        await store.put_new(keys.runner_lease(namespace, self.runner, self._number), [self._body])
        rows = await store.find(keys.runners_folder(namespace))
        now_ms = await store.now_ms()
        doomed = [
            row.key
            for row in rows
            if now_ms - row.modified_ms > _FORGOTTEN_MS
            or (_runner_of(row) == self.runner and _number_of(row) < self._number)
        ]
        if doomed:
            await store.delete(doomed)
        alive = {_runner_of(row) for row in rows if now_ms - row.modified_ms <= self._lease_ms}
        return sorted(alive | {self.runner})

    async def _leave(self, store: ObjectStore) -> None:
        rows = await store.find(keys.runners_folder(self._bucket.namespace))
        mine = [row.key for row in rows if _runner_of(row) == self.runner]
        if mine:
            await store.delete(mine)


def alive_runners(bucket: Bucket, lease_ms: int = LEASE_MS) -> list[RunnerLease]:
    """The runners that are alive, as their leases say."""

    async def look(store: ObjectStore) -> list[RunnerLease] | None:
        rows = await store.find(keys.runners_folder(bucket.namespace))
        now_ms = await store.now_ms()
        newest = {_runner_of(row): row.key for row in rows if now_ms - row.modified_ms <= lease_ms}
        found = []
        for key in newest.values():
            try:
                found.append(msgspec.json.decode(await store.read(key), type=RunnerLease))
            except ObjectMissing:
                return None  # it was renewed or given up since: look again
        return found

    while (alive := bucket.run(look)) is None:
        continue
    return alive


def _runner_of(row: StoredObject) -> str:
    return row.key.rpartition("/")[2].partition("-")[0]


def _number_of(row: StoredObject) -> int:
    number = row.key.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0
