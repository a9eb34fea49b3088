"""The past of an open log, changed by one task at a time.

Here: the lock over the past, committing a change of it, and following changes of other writers.
Each change ends in a manifest. A task that changes the past does so inside `async with
log.history`.
Next door: the changes themselves (upkeep/), committing a manifest (protocol/commits.py).
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Self

import structlog

from kafscale.log.formats import manifest
from kafscale.log.formats.manifest import Manifest
from kafscale.log.protocol import commits
from kafscale.log.protocol.commits import LostRace
from kafscale.log.writer.committed import CommittedLog
from kafscale.model.clock import Clock, Dice, moment
from kafscale.objects.store import ObjectStore

logger = structlog.get_logger()


class History:
    """The right to change one log's past."""

    def __init__(
        self,
        store: ObjectStore,
        folder: str,
        committed: CommittedLog,
        *,
        author: str,
        clock: Clock,
        dice: Dice,
        is_open: Callable[[], bool],
        reopen: Callable[[str], Awaitable[None]],
    ) -> None:
        """The past that `committed` knows. `is_open`, `reopen`: of the log that has it."""
        self._store = store
        self._folder = folder
        self._committed = committed
        self._author = author
        self._clock = clock
        self._dice = dice
        self._is_open = is_open
        self._reopen = reopen
        self._lock = asyncio.Lock()
        self._deleted: set[str] = set()  # the next manifest need not list them as dropped
        self._swept: Manifest | None = None  # the one after which a sweep left nothing to do

    async def __aenter__(self) -> Self:
        """Wait until no other task changes the past."""
        await self._lock.acquire()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Let the next task change it."""
        self._lock.release()

    # -- sweeping --------------------------------------------------------------------------

    @property
    def sweep_is_due(self) -> bool:
        """Whether a sweep may find something to delete, now or after a grace period."""
        past = self._committed.manifest
        return self._swept is not past and past.generation > 0

    def note_sweep(self, deleted: Collection[str], *, is_finished: bool) -> None:
        """Remember which dropped objects are gone, and whether a further sweep is of use."""
        self._deleted = set(deleted)
        self._swept = self._committed.manifest if is_finished else None

    def ask_for_sweep(self) -> None:
        """Let the next sweep look at the bucket, whatever the last one found."""
        self._swept = None

    # -- changes ---------------------------------------------------------------------------

    async def commit(
        self,
        change: Callable[[Manifest], Manifest],
        is_in: Callable[[Manifest], bool],
        outputs: Sequence[str] = (),
    ) -> bool:
        """Commit a change of the past and load the result; False if another writer came between."""
        assert self._lock.locked()
        deleted = set(self._deleted)
        issued = moment(self._clock)
        try:
            newest = await commits.commit(
                self._store,
                self._folder,
                self._committed.manifest,
                lambda old: manifest.forget_dropped(change(old), deleted),
                is_in=is_in,
                author=self._author,
                clock=self._clock,
                dice=self._dice,
                outputs=outputs,
            )
        except LostRace as problem:
            logger.warning("history_race_lost", folder=self._folder, reason=str(problem))
            await self.follow()
            return False
        self._deleted -= deleted
        if not self._is_open() or newest.generation <= self._committed.manifest.generation:
            return True  # the log was closed or re-opened meanwhile and has loaded its own
        if newest.end in self._committed.boundaries():
            self._committed.take_manifest(newest, issued)
        else:
            await self.follow()
        return True

    async def follow(self) -> None:
        """Load the newest manifest: in place where our chain allows it, else by re-opening."""
        assert self._lock.locked()
        issued = moment(self._clock)
        newest = await commits.persist(
            lambda: commits.read_newest(self._store, self._folder), "manifest"
        )
        if not self._is_open() or newest.generation <= self._committed.manifest.generation:
            return
        if newest.end in self._committed.boundaries():
            self._committed.take_manifest(newest, issued)
        else:
            await self._reopen("a foreign manifest ends beyond our tail")
