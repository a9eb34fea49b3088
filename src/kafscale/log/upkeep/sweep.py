"""Sweeping: deleting objects that no reader can want any more (rules 9 and 10).

Here: one look at the bucket, one rule for each kind of object, and the sweep of a log's owner.
Nothing is deleted that a reader of any generation younger than the grace period could want.
Next door: the pipeline's sweeper (spark/jobs/retain.py), which deletes by the same plan.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafscale.log.formats import keys, manifest
from kafscale.log.formats.keys import Pin, SegmentName
from kafscale.log.formats.manifest import Dropped, Manifest
from kafscale.log.protocol import commits
from kafscale.log.writer.log import Log
from kafscale.log.writer.states import LogState
from kafscale.objects.store import ObjectStore, StoredObject


async def sweep(log: Log, now_ms: int | None = None) -> int:
    """Delete what no reader can want any more; gives how many objects were deleted.

    `now_ms`: by the store's clock, not later than now; without it the store is asked.
    """
    if not log.history.sweep_is_due or log.state is not LogState.OPEN:
        return 0
    async with log.history:
        examined = await examine(log.store, log.folder, log.settings.grace_s, now_ms)
        if examined is None:
            # Without any manifest there is nothing to sweep; else the next sweep tries again.
            if log.committed.manifest.generation == 0:
                log.history.note_sweep((), is_finished=True)
            return 0
        newest, plan = examined
        if plan.delete:
            await log.store.delete(plan.delete)
        log.history.note_sweep(plan.gone, is_finished=not plan.unfinished)
        if plan.orphans and newest.generation == log.committed.manifest.generation:
            await log.history.commit(*condemning(plan.orphans))
        return len(plan.delete)


class SweepPlan(NamedTuple):
    """What one look at the bucket found to do."""

    delete: list[str]
    gone: set[str]  # dropped names that are deleted by now or have been before
    orphans: list[str]  # to be put on the dropped list, deleted by a later sweep
    unfinished: bool  # something waits for its grace period


async def examine(
    store: ObjectStore, folder: str, grace_s: float, now_ms: int | None = None
) -> tuple[Manifest, SweepPlan] | None:
    """Look at a log and plan; None if there is no manifest, or if it changed meanwhile."""
    if now_ms is None:
        now_ms = await store.now_ms()
    listing = await store.find(folder)
    young_ms = now_ms - int(grace_s * 1000)
    generations = _generations(listing)
    if not generations:
        return None
    newest = await commits.read_generation(store, folder, max(generations))
    aged_one = max((g for g, ms in generations.items() if ms <= young_ms), default=0)
    aged = await commits.read_generation(store, folder, aged_one)
    # What was read must be what was listed: another sweeper may have deleted a manifest in
    # between, and a late PUT may have brought its name back with other contents.
    again = _generations(await _list_manifests(store, folder))
    if max(again, default=0) != newest.generation or again.get(aged_one) != generations.get(
        aged_one
    ):
        return None
    return newest, plan_sweep(listing, newest, aged, young_ms, now_ms)


def _generations(listing: Sequence[StoredObject]) -> dict[int, int]:
    """Manifest generations and when they were written."""
    return {
        generation: stored.modified_ms
        for stored in listing
        if (generation := keys.parse_generation(stored.key)) is not None
    }


async def _list_manifests(store: ObjectStore, folder: str) -> list[StoredObject]:
    return await store.find(
        folder, after=keys.manifest(folder, 0), before=keys.manifests_before(folder)
    )


# -- the plan, one rule per kind of object -------------------------------------------------------


def plan_sweep(
    listing: Sequence[StoredObject],
    newest: Manifest,
    aged: Manifest,
    young_ms: int,
    now_ms: int = 0,
) -> SweepPlan:
    """Decide what may go, from one listing, the newest manifest and the newest aged one.

    `aged` is at least a grace period old. It outlives its successor by the same period, so
    one exists as soon as any manifest is old enough, however often new ones are written.
    An object that a pin holds stays until the pin has expired, whatever the manifests say.
    """
    pins = [pin for stored in listing if (pin := keys.parse_pin(stored.key))]
    planner = _Planner(
        newest,
        aged,
        young_ms,
        named=newest.names(),
        dropped={row.name: row.generation for row in newest.dropped},
        listed={_name(stored) for stored in listing},
        pins=[pin for pin in pins if pin.expires_ms > now_ms],
    )
    for stored in listing:
        planner.look_at(stored)
    return planner.plan()


@dataclass(slots=True)
class _Planner:
    """Judges the objects of a listing one by one."""

    newest: Manifest
    aged: Manifest
    young_ms: int
    named: set[str]  # by the newest manifest
    dropped: dict[str, int]  # by the newest manifest: name, and the generation that dropped it
    listed: set[str]
    pins: list[Pin]  # that have not expired
    delete: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    pinned: set[str] = field(default_factory=set)
    unfinished: bool = False

    def plan(self) -> SweepPlan:
        gone = {
            name
            for name, generation in self.dropped.items()
            if generation <= self.aged.generation and name not in self.pinned
        }
        return SweepPlan(self.delete, gone, self.orphans, self.unfinished)

    def look_at(self, stored: StoredObject) -> None:
        """Find the kind of an object and apply its rule; other kinds of objects stay."""
        name = _name(stored)
        pin = keys.parse_pin(name)
        if pin is not None:
            self._pin(stored, pin)
            return
        generation = keys.parse_generation(name)
        if generation is not None:
            self._manifest(stored, generation)
            return
        segment = keys.parse_segment(name)
        if segment is not None:
            self._segment_or_index(stored, name, segment)

    def _pin(self, stored: StoredObject, pin: Pin) -> None:
        self._delete_if(stored, pin not in self.pins)

    def _manifest(self, stored: StoredObject, generation: int) -> None:
        """A manifest goes when a later one is a grace period old."""
        if generation < self.newest.generation:
            self._delete_if(stored, generation < self.aged.generation)

    def _segment_or_index(self, stored: StoredObject, name: str, parsed: SegmentName) -> None:
        owner = name.removesuffix(".index") + ".kfs" if parsed.is_index else name
        if owner in self.named:
            return
        if any(pin.holds(parsed, self.dropped.get(owner)) for pin in self.pins):
            self.pinned.add(owner)
        elif owner in self.dropped:
            self._dropped(stored, owner)
        elif parsed.generation is None:
            self._flush(stored, parsed)
        elif not parsed.is_index:
            self._orphan(stored, name)
        elif owner not in self.listed:
            self._lone_index(stored)

    def _dropped(self, stored: StoredObject, owner: str) -> None:
        """A dropped object goes when the manifest that dropped it is a grace period old."""
        self._delete_if(stored, self.dropped[owner] <= self.aged.generation)

    def _flush(self, stored: StoredObject, parsed: SegmentName) -> None:
        """A flush that a roll-up has merged goes when that manifest is a grace period old."""
        if parsed.base < self.newest.end:
            self._delete_if(stored, parsed.base < self.aged.end)

    def _orphan(self, stored: StoredObject, name: str) -> None:
        """Rewritten history that no manifest names: its job died, or has not committed yet."""
        if stored.modified_ms <= self.young_ms:
            self.orphans.append(name)
        self.unfinished = True

    def _lone_index(self, stored: StoredObject) -> None:
        """A reader rebuilt it too late, or a rewriter died. It is only a hint."""
        self._delete_if(stored, stored.modified_ms <= self.young_ms)

    def _delete_if(self, stored: StoredObject, may_go: bool) -> None:
        if may_go:
            self.delete.append(stored.key)
        else:
            self.unfinished = True


def _name(stored: StoredObject) -> str:
    return stored.key.rpartition("/")[2]


def is_pinned(listing: Iterable[str], now_ms: int) -> bool:
    """Whether a pin that has not expired is among these names of a log's objects."""
    pins = (keys.parse_pin(key) for key in listing)
    return any(pin.expires_ms > now_ms for pin in pins if pin is not None)


def condemning(
    orphans: Sequence[str],
) -> tuple[Callable[[Manifest], Manifest], Callable[[Manifest], bool]]:
    """Outputs that no manifest ever named are dropped by a generation of their own first.

    Gives the change of the manifest, and whether a later one contains it.
    """

    def change(old: Manifest) -> Manifest:
        known = old.names() | {row.name for row in old.dropped}
        rows = [Dropped(name, old.generation + 1) for name in orphans if name not in known]
        return manifest.drop(old, rows)

    def is_in(newer: Manifest) -> bool:
        return set(orphans) <= {row.name for row in newer.dropped} | newer.names()

    return change, is_in
