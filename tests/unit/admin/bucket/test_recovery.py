"""A metadata store that was lost is rebuilt from the bucket."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kafscale.access.acls import EVERYBODY, AclBinding, PatternType, Permission
from kafscale.access.quotas import QuotaKey, entity_of
from kafscale.access.scram import SCRAM_SHA_256
from kafscale.admin.bucket import recovery
from kafscale.admin.bucket.pairing import require_pair
from kafscale.admin.bucket.recovery import Plan
from kafscale.engine.access.acls import AclRules, Acls
from kafscale.engine.access.credentials import Credentials, NewCredential
from kafscale.engine.access.quotas import Quotas
from kafscale.engine.access.tokens import Tokens
from kafscale.engine.coordinator.offsets import OffsetCommit
from kafscale.log.catalog import bucket_scan
from kafscale.log.catalog.bucket_scan import (
    SPARE_BROKER_IDS,
    SPARE_EPOCHS,
    SPARE_PRODUCER_IDS,
    Evidence,
)
from kafscale.log.upkeep import rollup
from kafscale.metadata import keys
from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.metadata.store import Entry, Put
from kafscale.model.errors import MetadataConflict, MetadataUnavailable
from kafscale.model.security.access import AccessOperation, Principal, ResourceType
from kafscale.model.topics import TopicDefaults
from kafscale.objects.memory import MemoryObjectStore
from kafscale.testing.clock import SeededDice
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from tests.unit.engine.engine_harness import EngineHarness, FaultyMetadata, values_of
from tests.unit.engine.small_metadata import Narrow
from tests.unit.gateways.kafka.caller import make_batch

NAMESPACE = "default"
OWNER = Principal("User", "alice")


@pytest.fixture
async def fresh(tmp_path: Path) -> AsyncIterator[FaultyMetadata]:
    store = FaultyMetadata(EmbeddedMetadataStore(tmp_path / "fresh.db", "OFF"))
    yield store
    await store.aclose()


async def gathered(harness: EngineHarness) -> Evidence:
    return await bucket_scan.gather(harness.objects, NAMESPACE, harness.clock)


async def planned(harness: EngineHarness, metadata: Any) -> Plan:
    return await recovery.plan(metadata, await gathered(harness), TopicDefaults())


async def recovered(harness: EngineHarness, metadata: Any) -> Plan:
    wanted = await planned(harness, metadata)
    await recovery.carry_out(metadata, wanted, NAMESPACE, harness.clock)
    return wanted


async def contents(metadata: Any) -> dict[str, bytes]:
    return {entry.key: entry.value for entry in await metadata.find("/kafscale/")}


def without(contents: dict[str, bytes], *prefixes: str) -> dict[str, bytes]:
    return {key: value for key, value in contents.items() if not key.startswith(prefixes)}


async def mark(metadata: Any, key: str) -> int:
    entry: Entry | None = await metadata.get(key)
    assert entry is not None
    return keys.decode(keys.Mark, entry.value).next


async def append_as(
    harness: EngineHarness, producer_id: int, topic: str = "t", sequence: int = 0
) -> int:
    """Append a batch of an idempotent producer; gives its first offset."""
    found = harness.engine.topics.get(topic)
    await harness.parts.logs.open(found, 0)
    raw = make_batch(b"x", producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    records = memoryview(bytearray(raw))
    stored = harness.engine.partitions.append(found, 0, records, acknowledged=True)
    if stored.appended.committed is not None:
        assert await stored.appended.committed is None
    return stored.first


async def busy(harness: EngineHarness) -> None:
    """Topics, one of them changed, one deleted, one made again; groups; producers."""
    engine = harness.engine
    await engine.topics.create("t", 2, {"retention.ms": "1000"})
    await engine.topics.create("changed", 1, {})
    await engine.topics.create_partitions("changed", 3)
    for name in ("gone", "again"):
        await engine.topics.create(name, 1, {})
        await harness.append(name, b"old")
        await engine.topics.delete(name)
    await engine.topics.create("again", 1, {"cleanup.policy": "compact"})
    await append_as(harness, await engine.partitions.fresh_producer_id())
    wishes = [
        OffsetCommit("t", 0, 1, 0, "note"),
        OffsetCommit("t", 1, 99),
        OffsetCommit("again", 0, 0),
    ]
    assert await engine.offsets.commit("g", wishes) == [None] * 3
    denied = AclBinding(
        ResourceType.TOPIC,
        PatternType.LITERAL,
        "t",
        EVERYBODY,
        "*",
        AccessOperation.ALL,
        Permission.DENY,
    )
    await Acls(harness.metadata, AclRules()).create([denied])
    await logins_and_quotas(harness)
    await engine._parts.checkpoints.write()


async def logins_and_quotas(harness: EngineHarness) -> None:
    credentials = Credentials(harness.metadata)
    await credentials.load_decoy_secret(SeededDice(11))
    alice = NewCredential("alice", SCRAM_SHA_256, 4096, b"salt of alice", b"x" * 32)
    await credentials.change([alice], [])
    tokens = Tokens(harness.metadata, harness.clock, SeededDice(11), b"a secret of all brokers")
    await tokens.create(OWNER, OWNER, [], -1)
    quota = {QuotaKey.PRODUCED_BYTES: 1000.0}
    await Quotas(harness.metadata, harness.clock).alter(entity_of([("user", "alice")]), quota)


async def test_everything_that_counts_is_as_it_was(
    harness: EngineHarness, fresh: FaultyMetadata
) -> None:
    await busy(harness)
    wanted = await recovered(harness, fresh)
    before, after = await contents(harness.metadata), await contents(fresh)
    apart = (keys.MARKS, keys.REMOVALS)
    claims = {key for key in before if keys.is_claim(key)}
    assert without(after, *apart) == without(before, *apart, *claims)
    assert (wanted.topics, wanted.offsets, wanted.problems) == (3, 3, [])
    assert (wanted.acls, wanted.credentials, wanted.tokens, wanted.quotas) == (1, 1, 1, 1)
    assert wanted.offsets_beyond_end == 1


async def test_numbers_rise_above_all_that_was_given_out(
    harness: EngineHarness, fresh: FaultyMetadata
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.metadata.commit([Put(keys.BROKER_IDS, b'{"next":1005}')])
    await harness.parts.checkpoints.write()
    # Two blocks of ids are given out after the checkpoint, and an id of them is written with.
    await harness.metadata.commit([Put(keys.PRODUCER_IDS, b'{"next":7000}')])
    assert await harness.engine.partitions.fresh_producer_id() == 7000
    await append_as(harness, 7000)
    await recovered(harness, fresh)
    assert await mark(fresh, keys.PRODUCER_IDS) == 7001 + SPARE_PRODUCER_IDS
    assert await mark(fresh, keys.EPOCHS) == 1 + SPARE_EPOCHS
    assert await mark(fresh, keys.BROKER_IDS) == 1005 + SPARE_BROKER_IDS


async def test_producers_are_found_in_manifests_too(
    harness: EngineHarness, fresh: FaultyMetadata
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await append_as(harness, 123456)
    (log,) = [log for _, log in harness.parts.logs.each()]
    await rollup.roll_up(log)
    found = await gathered(harness)
    assert (found.producer_id, found.epoch) == (123456, harness.engine.identity.epoch)
    assert log.committed.manifest.generation == 1


async def test_recovery_skips_a_producer_id_that_no_broker_can_have_given_out(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await append_as(harness, (1 << 62) - 1)
    await append_as(harness, 5)
    assert (await gathered(harness)).producer_id == 5
    (log,) = [log for _, log in harness.parts.logs.each()]
    await rollup.roll_up(log)
    assert (await gathered(harness)).producer_id == 5


async def test_doing_it_again_changes_nothing(
    harness: EngineHarness, fresh: FaultyMetadata
) -> None:
    await busy(harness)
    await recovered(harness, fresh)
    after = await contents(fresh)
    harness.clock.advance_ms(1000)
    again = await planned(harness, fresh)
    assert again.writes == []
    assert again.topics_before == 3
    assert await contents(fresh) == after


async def test_cut_short_anywhere_it_goes_on(harness: EngineHarness, tmp_path: Path) -> None:
    await busy(harness)
    wishes = [OffsetCommit("t", 0, 1)]
    for number in range(300):  # more than one commit can take
        await harness.engine.offsets.commit(f"g{number}", wishes)
    await harness.parts.checkpoints.write()
    whole = FaultyMetadata(EmbeddedMetadataStore(tmp_path / "whole.db", "OFF"))
    await recovered(harness, whole)
    for die_at in range(5):
        halved = FaultyMetadata(EmbeddedMetadataStore(tmp_path / f"{die_at}.db", "OFF"))
        halved.refuse_after(die_at)
        with pytest.raises(MetadataUnavailable):
            await recovered(harness, halved)
        if die_at:
            with pytest.raises(MetadataUnavailable, match="half rebuilt"):
                await require_pair(halved, harness.objects, NAMESPACE)
        resumed = await recovered(harness, halved)
        assert resumed.is_resumed == bool(die_at)
        await require_pair(halved, harness.objects, NAMESPACE)
        assert await contents(halved) == await contents(whole)
        await halved.aclose()
    await whole.aclose()


async def test_a_metadata_store_of_another_bucket_or_namespace_is_refused(
    harness: EngineHarness,
) -> None:
    await require_pair(harness.metadata, MemoryObjectStore(), NAMESPACE)  # no topics yet
    for name in ("a", "b", "c", "d"):
        await harness.engine.topics.create(name, 1, {})
    with pytest.raises(MetadataUnavailable, match="topic c, and namespace default of the bucket"):
        await require_pair(harness.metadata, MemoryObjectStore(), NAMESPACE)
    with pytest.raises(MetadataUnavailable, match="namespace other of the bucket never had it"):
        await require_pair(harness.metadata, harness.objects, "other")
    await harness.engine.topics.delete("a")
    await require_pair(harness.metadata, harness.objects, NAMESPACE)


async def test_large_groups_are_restored_in_as_many_commits_as_etcd_needs(
    harness: EngineHarness, fresh: FaultyMetadata
) -> None:
    member = keys.GroupMemberRow(
        client_id="c" * 20_000,
        client_host="",
        heartbeat_at="",
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
    )
    for number in range(100):
        name = f"g{number}"
        group = keys.GroupRow(
            group_id=name,
            state="Stable",
            protocol_type="",
            protocol="",
            leader="m",
            generation_id=1,
            members={"m": member},
        )
        await harness.metadata.commit([Put(keys.group_metadata(name), keys.encode(group))])
    await harness.parts.checkpoints.write()
    assert (await recovered(harness, Narrow(fresh))).groups == 100


async def test_the_bucket_is_only_read(harness: EngineHarness, fresh: FaultyMetadata) -> None:
    await busy(harness)
    before = await harness.objects.find("")
    await recovered(harness, fresh)
    assert await harness.objects.find("") == before


async def test_deleted_topics_stay_deleted_and_what_they_left_goes(
    harness: EngineHarness, fresh: FaultyMetadata
) -> None:
    await busy(harness)
    wanted = await recovered(harness, fresh)
    assert wanted.removals == 2
    noted = [keys.decode(keys.Removal, entry.value) for entry in await fresh.find(keys.REMOVALS)]
    assert {(row.name, row.folder, row.logs) for row in noted} == {
        ("again", "default/again", 1),
        ("gone", "default/gone", 1),
    }
    assert await fresh.get(keys.topic_config("gone")) is None


async def test_what_was_deleted_long_ago_is_noted_only_if_something_is_left(
    harness: EngineHarness,
) -> None:
    await busy(harness)
    await harness.parts.removals.remove_deleted_topics()
    harness.clock.advance_ms(2 * 86_400_000)
    found = await gathered(harness)
    assert (found.ended, found.removals) == ({"gone"}, [])
    await harness.objects.put_new("default/gone/0/segment-00000000000000000000.kfs", [b"late"])
    assert [row.name for row in (await gathered(harness)).removals] == ["gone"]


async def test_offsets_of_deleted_topics_are_not_restored(
    harness: EngineHarness, fresh: FaultyMetadata
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.engine.offsets.commit("g", [OffsetCommit("t", 0, 5)])
    await harness.parts.checkpoints.write()
    await harness.engine.topics.delete("t")
    await harness.engine.topics.create("t", 1, {})
    wanted = await recovered(harness, fresh)
    assert (wanted.offsets, wanted.offsets_without_topic) == (0, 1)
    assert await fresh.find(keys.group_offsets("g")) == []


async def test_offsets_that_the_log_does_not_have_are_kept_and_counted(
    harness: EngineHarness, fresh: FaultyMetadata
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"a", b"b", b"c")
    await harness.engine.partitions.delete_records(harness.engine.topics.get("t"), 0, 2)
    for group, offset in (("below", 1), ("first", 2), ("next", 3), ("beyond", 4)):
        await harness.engine.offsets.commit(group, [OffsetCommit("t", 0, offset)])
    await harness.parts.checkpoints.write()
    wanted = await recovered(harness, fresh)
    assert (wanted.offsets, wanted.offsets_beyond_end, wanted.offsets_below_start) == (4, 1, 1)
    entry = await fresh.get(keys.group_offset("beyond", "t", 0))
    assert entry is not None
    assert keys.decode(keys.CommittedOffset, entry.value).offset == 4


async def test_what_the_store_has_stays_and_what_it_lacks_is_added(
    harness: EngineHarness, fresh: FaultyMetadata
) -> None:
    await busy(harness)
    theirs = keys.encode(keys.CommittedOffset(offset=77, committed_at=""))
    stale = keys.TopicRow(
        name="gone",
        partitions=1,
        retention_ms=1,
        retention_bytes=1,
        segment_bytes=1,
        created_at="",
        topic_id="0" * 32,
        folder="default/gone",
    )
    await fresh.commit(
        [
            Put(keys.group_offset("g", "t", 0), theirs),
            Put(keys.PRODUCER_IDS, b'{"next":99000000}'),
            Put(keys.CLUSTER, b'{"cluster_id":"accident","created_at":""}'),
            Put(keys.topic_config("gone"), keys.encode(stale)),
            Put(keys.topic_config("mine"), keys.encode(stale)),
        ]
    )
    wanted = await recovered(harness, fresh)
    after = await contents(fresh)
    assert after[keys.group_offset("g", "t", 0)] == theirs
    assert await mark(fresh, keys.PRODUCER_IDS) == 99_000_000
    assert (wanted.topics_before, wanted.topics, wanted.topics_removed) == (2, 3, 1)
    assert (wanted.offsets, wanted.offsets_kept) == (2, 1)
    assert keys.topic_config("gone") not in after
    assert wanted.problems == ["topic mine: not in the bucket; left as it is"]
    # Else every checkpoint in the bucket would count as another cluster's.
    cluster = keys.decode(keys.ClusterRow, after[keys.CLUSTER])
    assert cluster.cluster_id == harness.engine.identity.cluster_id


async def test_who_else_writes_is_noticed(harness: EngineHarness, fresh: FaultyMetadata) -> None:
    await busy(harness)
    wanted = await planned(harness, fresh)
    await fresh.commit([Put(keys.group_offset("g", "t", 0), b"{}")])
    with pytest.raises(MetadataConflict):
        await recovery.carry_out(fresh, wanted, NAMESPACE, harness.clock)


async def test_what_cannot_be_read_is_named_and_the_rest_restored(
    harness: EngineHarness, fresh: FaultyMetadata
) -> None:
    await busy(harness)
    await harness.objects.put_new("default/t/descriptor-00000000000000000009", [b"nonsense"])
    await harness.objects.put_new("default/@checkpoints/00000000000000000009", [b"nonsense"])
    await harness.objects.put_new("default/changed/0/manifest-00000000000000000009", [b"nonsense"])
    wanted = await recovered(harness, fresh)
    assert sorted(problem.split(":")[0] for problem in wanted.problems) == [
        "checkpoint 9 cannot be used",
        "default/changed/0",
        "topic t",
    ]
    assert (wanted.topics, wanted.offsets, wanted.offsets_without_topic) == (2, 1, 2)


async def test_a_bucket_without_a_checkpoint_gives_topics_and_numbers(
    harness: EngineHarness, fresh: FaultyMetadata
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await append_as(harness, 12)
    wanted = await recovered(harness, fresh)
    assert (wanted.topics, wanted.groups, wanted.offsets) == (1, 0, 0)
    assert wanted.marks == {
        "producer-ids": 13 + SPARE_PRODUCER_IDS,
        "epochs": 1 + SPARE_EPOCHS,
    }


async def test_a_broker_goes_on_from_there(tmp_path: Path) -> None:
    async with EngineHarness() as harness:
        await busy(harness)
        topic_id = harness.engine.topics.get("t").descriptor.topic_id
        cluster_id, epoch = harness.engine.identity.cluster_id, harness.engine.identity.epoch
        await append_as(harness, 5, sequence=0)
        metadata = EmbeddedMetadataStore(tmp_path / "fresh.db", "OFF", harness.clock)
        broker = InProcessBroker(
            config=FOR_TESTS, store=harness.objects, metadata=metadata, clock=harness.clock
        )
        with pytest.raises(MetadataUnavailable, match="recover --from-bucket"):
            await broker.start()
        await recovered(harness, metadata)
        async with broker:
            engine = broker.engine
            assert engine.topics.get("t").descriptor.topic_id == topic_id
            assert engine.topics.get("t").settings.retention_ms == 1000
            assert engine.identity.cluster_id == cluster_id
            assert engine.identity.epoch > epoch
            assert (await engine.offsets.committed("g"))["t", 0].metadata == "note"
            assert await engine.partitions.fresh_producer_id() >= SPARE_PRODUCER_IDS
            # A repeated batch is known again: producers are remembered by the log.
            raw = make_batch(b"x", producer_id=5, producer_epoch=0, base_sequence=0)
            topic = engine.topics.get("t")
            await engine._parts.logs.open(topic, 0)
            stored = engine.partitions.append(
                topic, 0, memoryview(bytearray(raw)), acknowledged=True
            )
            assert stored.first == 1
            assert len(values_of(await harness.read("t"))) == 2
        await metadata.aclose()
