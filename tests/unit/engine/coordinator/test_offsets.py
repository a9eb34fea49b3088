import asyncio
from typing import Any

import pytest

from kafscale.engine.coordinator.claims import Claims
from kafscale.engine.coordinator.offsets import (
    LARGEST_METADATA_BYTES,
    LONGEST_GROUP_ID,
    OffsetCommit,
    Offsets,
)
from kafscale.metadata import keys
from kafscale.metadata.store import MAX_OPERATIONS, Entry, MetadataStore, Put
from kafscale.model.errors import (
    CorruptObject,
    InvalidGroupId,
    KafscaleError,
    MetadataUnavailable,
    OffsetMetadataTooLarge,
    UnknownTopic,
)
from tests.unit.engine.engine_harness import EngineHarness
from tests.unit.engine.small_metadata import Narrow


class GatedMetadata:
    """Lets commits through one at a time, when told to, and remembers how large they were."""

    def __init__(self, inner: MetadataStore) -> None:
        self._inner = inner
        self.sizes: list[int] = []
        self.gate = asyncio.Semaphore(0)

    async def get(self, key: str) -> Entry | None:
        return await self._inner.get(key)

    async def find(self, prefix: str, *, after: str = "", limit: int | None = None) -> list[Entry]:
        return await self._inner.find(prefix, after=after, limit=limit)

    async def commit(self, writes: Any, guards: Any = ()) -> int:
        self.sizes.append(len(writes))
        await self.gate.acquire()
        return await self._inner.commit(writes, guards)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def claims_of(harness: EngineHarness) -> Claims:
    """Where the broker itself takes its groups; it has these already."""
    claims = harness.engine.offsets._claims
    for group in ("g", "h", "g0", "g1", "g2"):
        await claims.claim(group)
    return claims


def kinds(problems: list[KafscaleError | None]) -> list[type]:
    return [type(problem) for problem in problems]


async def offsets_of(harness: EngineHarness, group: str) -> dict[tuple[str, int], int]:
    found = await harness.engine.offsets.committed(group)
    return {place: value.offset for place, value in found.items()}


async def stored(harness: EngineHarness) -> list[str]:
    """The keys of all committed offsets, whether they count or not."""
    rows = await harness.metadata.find(keys.CONSUMERS)
    return [row.key for row in rows if keys.place_committed_by(row.key) is not None]


async def test_what_is_committed_is_there_after_a_restart(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 2, {})
    wishes = [OffsetCommit("t", 0, 5, 3, "note"), OffsetCommit("t", 1, 1 << 62)]
    assert await harness.engine.offsets.commit("g", wishes) == [None, None]
    await harness.reopen()
    found = await harness.engine.offsets.committed("g")
    assert [
        (place, row.offset, row.leader_epoch, row.metadata) for place, row in found.items()
    ] == [
        (("t", 0), 5, 3, "note"),
        (("t", 1), 1 << 62, -1, ""),
    ]
    assert found["t", 0].committed_at == "2023-11-14T22:13:20.000Z"
    assert await offsets_of(harness, "other") == {}


async def test_it_lies_where_the_schema_says_under_the_names_the_schema_says(
    harness: EngineHarness,
) -> None:
    topic = await harness.engine.topics.create("t", 1, {})
    await harness.engine.offsets.commit("a/offsets", [OffsetCommit("t", 0, 5)])
    entry = await harness.metadata.get("/kafscale/consumers/a%2Foffsets/offsets/t/0")
    assert entry is not None
    assert entry.value == (
        b'{"offset":5,"metadata":"","committed_at":"2023-11-14T22:13:20.000Z","leader_epoch":-1,'
        b'"topic_id":"' + topic.descriptor.topic_id.encode() + b'"}'
    )
    assert await offsets_of(harness, "a/offsets") == {("t", 0): 5}
    assert await offsets_of(harness, "a") == {}


async def test_only_the_wanted_places_are_given(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 12, {})
    await harness.engine.offsets.commit("g", [OffsetCommit("t", at, at) for at in range(12)])
    found = await harness.engine.offsets.committed("g", {("t", 1), ("t", 11), ("missing", 0)})
    assert {place: row.offset for place, row in found.items()} == {("t", 1): 1, ("t", 11): 11}


async def test_one_bad_wish_does_not_spoil_the_others(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 2, {})
    problems = await harness.engine.offsets.commit(
        "g",
        [
            OffsetCommit("missing", 0, 1),
            OffsetCommit("t", 2, 1),
            OffsetCommit("t", -1, 1),
            OffsetCommit("t", 0, 1, -1, "ä" * (LARGEST_METADATA_BYTES // 2) + "x"),
            OffsetCommit("t", 0, 7, -1, "ä" * (LARGEST_METADATA_BYTES // 2)),
        ],
    )
    assert kinds(problems) == [
        UnknownTopic,
        UnknownTopic,
        UnknownTopic,
        OffsetMetadataTooLarge,
        type(None),
    ]
    assert await offsets_of(harness, "g") == {("t", 0): 7}


async def test_of_two_wishes_for_one_partition_the_later_one_counts(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.engine.offsets.commit("g", [OffsetCommit("t", 0, 9), OffsetCommit("t", 0, 4)])
    assert await offsets_of(harness, "g") == {("t", 0): 4}


@pytest.mark.parametrize("group", ["", "g" * (LONGEST_GROUP_ID + 1)])
async def test_a_group_without_a_proper_name_cannot_commit(
    harness: EngineHarness, group: str
) -> None:
    await harness.engine.topics.create("t", 1, {})
    with pytest.raises(InvalidGroupId):
        await harness.engine.offsets.commit(group, [OffsetCommit("t", 0, 1)])
    assert await stored(harness) == []


async def test_any_other_name_is_a_groups(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    for group in ("é" * LONGEST_GROUP_ID, "/", "a%2Fb", " ", "\0"):
        await harness.engine.offsets.commit(group, [OffsetCommit("t", 0, 1)])
        assert await offsets_of(harness, group) == {("t", 0): 1}


# -- writing ---------------------------------------------------------------------------------


async def test_many_offsets_go_in_transactions_the_store_takes(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 300, {})
    gated = GatedMetadata(harness.metadata)
    offsets = Offsets(
        gated,
        harness.engine.topics._registry,
        harness.engine.cluster,
        await claims_of(harness),
        harness.clock,
        harness.parts.lag,
    )
    commit = asyncio.ensure_future(
        offsets.commit("g", [OffsetCommit("t", at, at) for at in range(300)])
    )
    for _ in range(3):
        gated.gate.release()
    assert await commit == [None] * 300
    assert gated.sizes == [MAX_OPERATIONS, MAX_OPERATIONS, 300 - 2 * MAX_OPERATIONS]
    assert len(await offsets_of(harness, "g")) == 300


async def test_who_comes_while_the_store_is_busy_is_written_together_and_the_latest_counts(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 1, {})
    gated = GatedMetadata(harness.metadata)
    offsets = Offsets(
        gated,
        harness.engine.topics._registry,
        harness.engine.cluster,
        await claims_of(harness),
        harness.clock,
        harness.parts.lag,
    )
    commits = [
        asyncio.ensure_future(offsets.commit(group, [OffsetCommit("t", 0, at)]))
        for at in range(10)
        for group in ("g", "h")
    ]
    gated.gate.release()
    await asyncio.wait(commits, return_when=asyncio.FIRST_COMPLETED)
    assert [commit.done() for commit in commits] == [True] + [False] * 19, "none before its time"
    gated.gate.release()
    assert await asyncio.gather(*commits) == [[None]] * 20
    assert gated.sizes == [1, 2]
    assert [await offsets_of(harness, group) for group in "gh"] == [{("t", 0): 9}] * 2


async def test_a_cancelled_commit_does_not_cancel_the_others(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    gated = GatedMetadata(harness.metadata)
    offsets = Offsets(
        gated,
        harness.engine.topics._registry,
        harness.engine.cluster,
        await claims_of(harness),
        harness.clock,
        harness.parts.lag,
    )
    first, second, third = [
        asyncio.ensure_future(offsets.commit(f"g{at}", [OffsetCommit("t", 0, at)]))
        for at in range(3)
    ]
    gated.gate.release()
    await first
    while len(gated.sizes) < 2:
        await asyncio.sleep(0)
    second.cancel()
    gated.gate.release()
    assert await third == [None]
    assert await offsets_of(harness, "g2") == {("t", 0): 2}
    await asyncio.wait([second])
    assert second.cancelled()


async def test_a_sick_store_is_told_to_all_who_waited_and_the_next_succeeds(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 1, {})
    gated = GatedMetadata(harness.metadata)
    offsets = Offsets(
        gated,
        harness.engine.topics._registry,
        harness.engine.cluster,
        await claims_of(harness),
        harness.clock,
        harness.parts.lag,
    )
    commits = [
        asyncio.ensure_future(offsets.commit("g", [OffsetCommit("t", 0, at)])) for at in range(3)
    ]
    harness.metadata.refuse_commits = 2
    await asyncio.sleep(0)  # all have begun
    for _ in range(3):
        gated.gate.release()
    answers = await asyncio.gather(*commits, return_exceptions=True)
    assert gated.sizes == [1, 1], "the second and third went together"
    assert [type(answer) for answer in answers] == [MetadataUnavailable] * 3
    assert await offsets_of(harness, "g") == {}
    assert await offsets.commit("g", [OffsetCommit("t", 0, 7)]) == [None]
    assert await offsets_of(harness, "g") == {("t", 0): 7}


async def test_what_cannot_be_read_is_not_taken_for_never_committed(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.metadata.commit([Put(keys.group_offset("g", "t", 0), b"{}")])
    with pytest.raises(CorruptObject):
        await harness.engine.offsets.committed("g")


# -- deleted topics --------------------------------------------------------------------------


async def test_a_deleted_topic_takes_its_committed_offsets_along(harness: EngineHarness) -> None:
    for topic in ("t", "kept"):
        await harness.engine.topics.create(topic, 200, {})
    wishes = [OffsetCommit(topic, at, at) for topic in ("t", "kept") for at in range(200)]
    for group in ("g", "h"):
        await harness.engine.offsets.commit(group, wishes)
    await harness.engine.topics.delete("t")
    assert set(await offsets_of(harness, "g")) == {("kept", at) for at in range(200)}, "at once"
    await harness.parts.removals.remove_deleted_topics()
    assert sorted(await stored(harness)) == sorted(
        keys.group_offset(group, "kept", at) for group in ("g", "h") for at in range(200)
    )


async def test_a_topic_created_again_begins_without_committed_offsets(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 2, {})
    await harness.engine.offsets.commit("g", [OffsetCommit("t", 0, 5), OffsetCommit("t", 1, 5)])
    await harness.engine.topics._lifecycle.delete("t")  # what it left behind is still there
    await harness.engine.topics.create("t", 2, {})
    assert len(await stored(harness)) == 2
    assert await offsets_of(harness, "g") == {}
    await harness.engine.offsets.commit("g", [OffsetCommit("t", 1, 2)])
    await harness.parts.removals.remove_deleted_topics()
    assert await offsets_of(harness, "g") == {("t", 1): 2}
    assert await stored(harness) == [keys.group_offset("g", "t", 1)]


async def test_a_commit_that_comes_late_goes_when_the_removal_ends(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 1, {})
    await harness.engine.topics.delete("t")
    await harness.parts.removals.remove_deleted_topics()
    late = keys.CommittedOffset(
        offset=1, committed_at="2026-01-01T00:00:00Z", topic_id=topic.descriptor.topic_id
    )
    await harness.metadata.commit([Put(keys.group_offset("g", "t", 0), keys.encode(late))])
    harness.clock.advance_ms(86_400_000)
    await harness.parts.removals.remove_deleted_topics()
    assert await stored(harness) == []
    assert await harness.metadata.find(keys.REMOVALS) == []


async def test_a_removal_that_met_a_sick_store_is_done_after_a_restart(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.engine.offsets.commit("g", [OffsetCommit("t", 0, 5)])
    topic = await harness.engine.topics._lifecycle.delete("t")
    harness.metadata.refuse_commits = 1
    with pytest.raises(MetadataUnavailable):
        await harness.parts.removals.remove_deleted_topics()
    assert await stored(harness) != []
    await harness.reopen()
    await harness.parts.removals.remove_deleted_topics()
    assert await stored(harness) == []
    assert topic.name not in [known.name for known in harness.engine.topics.all()]


async def test_what_is_rewritten_while_it_is_being_forgotten_stays(harness: EngineHarness) -> None:
    old = await harness.engine.topics.create("t", 2, {})
    await harness.engine.offsets.commit("g", [OffsetCommit("t", 0, 5), OffsetCommit("t", 1, 5)])
    await harness.engine.topics._lifecycle.delete("t")
    await harness.engine.topics.create("t", 2, {})
    gated = GatedMetadata(harness.metadata)
    offsets = Offsets(
        gated,
        harness.engine.topics._registry,
        harness.engine.cluster,
        await claims_of(harness),
        harness.clock,
        harness.parts.lag,
    )
    forgetting = asyncio.ensure_future(offsets.remove_topic("t", old.descriptor.topic_id))
    while not gated.sizes:
        await asyncio.sleep(0)
    await harness.engine.offsets.commit("g", [OffsetCommit("t", 1, 8)])
    gated.gate.release()
    gated.gate.release()
    await forgetting
    assert gated.sizes == [2, 1], "refused, looked again"
    assert await offsets_of(harness, "g") == {("t", 1): 8}
    assert len(await stored(harness)) == 1


async def test_a_corrupt_offset_does_not_keep_a_topic_from_being_removed(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 2, {})
    await harness.engine.offsets.commit("g", [OffsetCommit("t", 0, 5)])
    await harness.metadata.commit([Put(keys.group_offset("g", "t", 1), b"{}")])
    await harness.engine.topics.delete("t")
    await harness.parts.removals.remove_deleted_topics()
    assert await stored(harness) == [keys.group_offset("g", "t", 1)]


async def test_what_was_committed_counts_though_we_have_not_heard_of_the_topic_yet(
    harness: EngineHarness,
) -> None:
    """Told that there is nothing, a consumer would begin anew."""
    topic = await harness.engine.topics.create("t", 2, {})
    assert (
        await harness.engine.offsets.commit("g", [OffsetCommit("t", 0, 5), OffsetCommit("t", 1, 6)])
        == [None] * 2
    )
    harness.engine.topics._registry.remove(topic, 0)  # as with a broker whose watch is behind
    found = await harness.engine.offsets.committed("g")
    assert {place: row.offset for place, row in found.items()} == {("t", 0): 5, ("t", 1): 6}


async def test_what_was_committed_counts_though_we_know_only_an_earlier_topic_of_the_name(
    harness: EngineHarness,
) -> None:
    before = await harness.engine.topics.create("t", 1, {})
    old = before.descriptor
    await harness.engine.offsets.commit("g", [OffsetCommit("t", 0, 5)])
    await harness.engine.topics.delete("t")
    assert await harness.engine.offsets.committed("g") == {}
    await harness.engine.topics.create("t", 1, {})
    await harness.engine.offsets.commit("g", [OffsetCommit("t", 0, 7)])
    harness.engine.topics._registry.add(old, 1, 0)
    found = await harness.engine.offsets.committed("g")
    assert [row.offset for row in found.values()] == [7]


async def test_notes_that_grow_in_the_store_are_committed_in_as_many_steps_as_etcd_needs(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.engine.topics.create("wide", 100, {})
    monkeypatch.setattr(harness.engine.offsets, "_metadata", Narrow(harness.metadata))
    note = "\1" * LARGEST_METADATA_BYTES  # six characters each in JSON
    wishes = [OffsetCommit("wide", partition, 5, -1, note) for partition in range(100)]
    assert not any(await harness.engine.offsets.commit("g", wishes))
    assert len(await harness.engine.offsets.committed("g")) == 100
