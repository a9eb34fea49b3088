import asyncio

import msgspec
import pytest

from kafscale.log.formats import keys, manifest
from kafscale.log.formats.manifest import Manifest, SegmentEntry
from kafscale.log.protocol import commits
from kafscale.log.protocol.commits import LostRace, empty_manifest
from kafscale.model.errors import ObjectExists, StoreUnavailable
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.log.log_harness import FOLDER, LogHarness, dropped_names


def entry(name: str) -> SegmentEntry:
    return SegmentEntry(name, 0, 1, 1, 1, 0, 0, 0, 0, False)


async def add(harness: LogHarness, base: Manifest, name: str, **how: object) -> Manifest:
    """Commit one more entry."""

    def change(old: Manifest) -> Manifest:
        if any(row.name == f"not {name}" for row in old.segments):
            raise LostRace("it no longer fits")
        return msgspec.structs.replace(old, segments=[*old.segments, entry(name)])

    return await commits.commit(
        harness.store,
        FOLDER,
        base,
        change,
        is_in=lambda newer: name in newer.names(),
        author=f"who adds {name}",
        clock=harness.clock,
        dice=harness.dice,
        **how,  # type: ignore[arg-type]
    )


async def put(harness: LogHarness, generation: int, *names: str, drop: str = "") -> Manifest:
    """Another author's manifest."""
    made = Manifest(
        generation=generation,
        commit_id="theirs",
        created_ms=0,
        author="they",
        end=0,
        segments=[entry(name) for name in names],
        dropped=[manifest.Dropped(drop, generation)] if drop else [],
    )
    await harness.inner.put_new(keys.manifest(FOLDER, generation), [manifest.encode(made)])
    return made


async def test_the_first_manifest_follows_the_one_before_any(harness: LogHarness) -> None:
    assert await commits.read_newest(harness.store, FOLDER) == empty_manifest()
    made = await add(harness, empty_manifest(), "a")
    assert (made.generation, made.author) == (1, "who adds a")
    assert made.names() == {"a"}
    assert await commits.read_newest(harness.store, FOLDER) == made


async def test_the_newest_generation_is_found_by_listing(harness: LogHarness) -> None:
    """Rule 4: the generation after ours may have been deleted already."""
    for generation in (1, 2, 3):
        await put(harness, generation)
    await harness.inner.delete([keys.manifest(FOLDER, 2)])
    assert await commits.newest_generation(harness.store, FOLDER, 1) == 3
    assert await commits.newest_generation(harness.store, FOLDER, 3) == 3


async def test_a_newest_that_is_deleted_between_list_and_read_is_looked_for_again(
    harness: LogHarness,
) -> None:
    await put(harness, 1)
    stall = harness.plan.add(Rule(Fault.STALL_AFTER, "find", times=1))
    reading = asyncio.ensure_future(commits.read_newest(harness.store, FOLDER))
    await stall.reached.wait()
    newest = await put(harness, 2)
    await harness.inner.delete([keys.manifest(FOLDER, 1)])
    stall.release()
    assert await reading == newest


async def test_the_loser_of_a_race_applies_its_change_to_the_winners(harness: LogHarness) -> None:
    await put(harness, 1, "theirs")
    made = await add(harness, empty_manifest(), "ours")
    assert (made.generation, made.names()) == (2, {"theirs", "ours"})


async def test_a_change_that_no_longer_fits_is_lost(harness: LogHarness) -> None:
    await put(harness, 1, "not ours")
    with pytest.raises(LostRace):
        await add(harness, empty_manifest(), "ours")


@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.FAIL_AFTER])
async def test_an_unknown_outcome_is_resolved_by_the_commit_id(
    harness: LogHarness, fault: Fault
) -> None:
    harness.plan.add(Rule(fault, "put_new", times=3))
    made = await add(harness, empty_manifest(), "ours")
    assert (made.generation, made.names()) == (1, {"ours"})
    assert await commits.newest_generation(harness.inner, FOLDER) == 1


async def test_a_timed_out_put_that_happened_is_found_in_its_successor(harness: LogHarness) -> None:
    """Rule 6: the answer is lost, another writer builds on our manifest, ours is deleted."""
    failing = harness.plan.add(Rule(Fault.FAIL_AFTER, "put_new", times=1))
    stall = harness.plan.add(Rule(Fault.STALL_BEFORE, "put_new", times=1))
    adding = asyncio.ensure_future(add(harness, empty_manifest(), "ours"))
    await failing.reached.wait()
    await stall.reached.wait()
    successor = await put(harness, 2, "ours", "theirs")
    stall.release()
    assert await adding == successor


async def test_a_deleted_name_that_comes_back_commits_nothing(harness: LogHarness) -> None:
    """Rule 6: our generation was written by others and swept long ago; only the newest counts."""
    await put(harness, 7, "theirs")
    with pytest.raises(LostRace):
        await add(harness, empty_manifest(), "ours")
    newest = await commits.read_newest(harness.inner, FOLDER)
    assert newest.generation == 7


@pytest.mark.parametrize("fate", ["condemned", "gone", "both"])
async def test_outputs_that_were_swept_are_not_named_again(harness: LogHarness, fate: str) -> None:
    """Rule 7: in this order, condemned or deleted, the attempt is over."""
    if fate == "condemned":
        await harness.inner.put_new(f"{FOLDER}/ours", [b"x"])
    await put(harness, 1, drop="" if fate == "gone" else "ours")
    with pytest.raises(LostRace, match="gone" if fate == "gone" else "swept"):
        await add(harness, empty_manifest(), "ours", outputs=["ours"])
    newest = await commits.read_newest(harness.inner, FOLDER)
    assert newest.generation == 1
    assert "ours" not in newest.names()
    assert dropped_names(newest) == (set() if fate == "gone" else {"ours"})


async def test_outputs_that_are_still_there_are_named_in_a_later_generation(
    harness: LogHarness,
) -> None:
    await harness.inner.put_new(f"{FOLDER}/ours", [b"x"])
    await put(harness, 1, "theirs")
    made = await add(harness, empty_manifest(), "ours", outputs=["ours"])
    assert made.names() == {"theirs", "ours"}


async def test_persisting_asks_until_the_answer_is_definite() -> None:
    answers = [StoreUnavailable("1"), StoreUnavailable("2"), ObjectExists("3")]

    async def ask() -> None:
        raise answers.pop(0)

    with pytest.raises(ObjectExists):
        await commits.persist(ask, "test")
    assert answers == []
