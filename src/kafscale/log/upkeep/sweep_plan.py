"""Which objects of a log may go: rules 9 and 10 of the log protocol, for whoever deletes.

Here: one look at the bucket and what follows from it. Next door: the owner's sweeper (history.py)
and the pipeline's, which both delete by this plan and by nothing else.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kafscale.log.formats import keys, manifest
from kafscale.log.formats.manifest import Dropped, Manifest
from kafscale.log.protocol import commits
from kafscale.objects.store import ObjectStore, StoredObject


class Sweep(NamedTuple):
    """What a look at the bucket found to do."""

    delete: list[str]
    gone: set[str]  # dropped names that are deleted by now or have been before
    orphans: list[str]  # to be put on the dropped list, deleted by a later sweep
    unfinished: bool  # something is waiting for its grace period


async def examine(store: ObjectStore, folder: str, grace_s: float) -> tuple[Manifest, Sweep] | None:
    """Look at a log and plan; None if there is no manifest, or if it changed while we looked."""
    now_ms = await store.now_ms()
    listing = await store.find(folder)
    young = now_ms - int(grace_s * 1000)
    generations = _generations(listing)
    if not generations:
        return None
    newest = await commits.read_generation(store, folder, max(generations))
    aged_one = max((g for g, ms in generations.items() if ms <= young), default=0)
    aged = await commits.read_generation(store, folder, aged_one)
    # What was read must be what was listed: another sweeper may have deleted a manifest in
    # between, and a late PUT may have brought its name back with other contents.
    again = _generations(await _list_manifests(store, folder))
    if max(again, default=0) != newest.generation or again.get(aged_one) != generations.get(
        aged_one
    ):
        return None
    return newest, plan_sweep(listing, newest, aged, young, now_ms)


def _generations(listing: Sequence[StoredObject]) -> dict[int, int]:
    """Manifest generations and when they were written."""
    return {
        generation: row.modified_ms
        for row in listing
        if (generation := keys.parse_generation(row.key)) is not None
    }


async def _list_manifests(store: ObjectStore, folder: str) -> list[StoredObject]:
    return await store.find(
        folder, after=keys.manifest(folder, 0), before=keys.manifests_before(folder)
    )


def plan_sweep(
    listing: Sequence[StoredObject],
    newest: Manifest,
    aged: Manifest,
    young_ms: int,
    now_ms: int = 0,
) -> Sweep:
    """Decide what may go, from one listing, the newest manifest and the newest aged one.

    `aged` is at least a grace period old. It outlives its successor by the same period, so
    one exists as soon as any manifest is old enough, however often new ones are written.
    What a pin holds that has not expired stays, whatever the manifests say.
    """
    named = newest.names()
    dropped = {row.name: row.generation for row in newest.dropped}
    listed = {row.key.rpartition("/")[2] for row in listing}
    delete, orphans = [], []
    unfinished = False
    pins = {row.key: pin for row in listing if (pin := keys.parse_pin(row.key))}
    holding = [pin for pin in pins.values() if pin.expires_ms > now_ms]
    held: set[str] = set()
    for row in listing:
        name = row.key.rpartition("/")[2]
        if row.key in pins:
            if pins[row.key] in holding:
                unfinished = True
            else:
                delete.append(row.key)
            continue
        generation = keys.parse_generation(name)
        if generation is not None:
            if generation < aged.generation:
                delete.append(row.key)
            elif generation < newest.generation:
                unfinished = True
            continue
        found = keys.parse_segment(name)
        if found is None:
            continue
        owner = name.removesuffix(".index") + ".kfs" if found.is_index else name
        if owner in named:
            continue
        if any(pin.holds(found, dropped.get(owner)) for pin in holding):
            held.add(owner)
            continue
        if owner in dropped:
            if dropped[owner] <= aged.generation:
                delete.append(row.key)
            else:
                unfinished = True
        elif found.generation is None:
            if found.base < aged.end:
                delete.append(row.key)
            elif found.base < newest.end:
                unfinished = True
        elif not found.is_index:
            if row.modified_ms <= young_ms:
                orphans.append(name)
            unfinished = True
        elif owner not in listed:
            # A reader rebuilt it too late, or a rewriter died. Only a hint, needed by nobody.
            if row.modified_ms <= young_ms:
                delete.append(row.key)
            else:
                unfinished = True
    gone = {
        name
        for name, generation in dropped.items()
        if generation <= aged.generation and name not in held
    }
    return Sweep(delete, gone, orphans, unfinished)


def is_pinned(listing: Iterable[str], now_ms: int) -> bool:
    """Whether a snapshot that has not expired is among these names of a log's objects."""
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
