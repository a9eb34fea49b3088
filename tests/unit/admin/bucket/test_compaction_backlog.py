"""Topics that wait for the pipeline, as the bucket tells."""

from pathlib import Path

from kafscale.admin import diagnosis
from kafscale.admin.bucket.compaction_backlog import CompactionBacklog, read_backlog
from kafscale.log.catalog.descriptors import Descriptors, TopicSpec
from kafscale.log.upkeep import rollup
from kafscale.log.upkeep.cleanable import CompactionLimits
from kafscale.log.writer.log import Log
from kafscale.log.writer.tail_memory import TailMemory
from kafscale.log.writer.types import LogSettings
from kafscale.model.topics import LaneRange, TopicDefaults, TopicDescriptor
from kafscale.objects.store import ObjectStore
from kafscale.records import batch
from kafscale.records.record import Record, build_batch
from kafscale.settings.config import Config
from kafscale.settings.sections import BrokerSection, CompactionSection, StorageSection
from kafscale.settings.stores import open_store
from kafscale.settings.values import Size
from kafscale.system import SystemClock
from kafscale.testing.clock import SeededDice

LIMITS = CompactionLimits(log_bytes=2000, memory_bytes=1 << 20, cpu_share=0.1)
COMPACT = {"cleanup.policy": "compact"}
SHARED = [LaneRange("default/@shared", 0, 2, 1)]


async def add_topic(
    store: ObjectStore, name: str, configs: dict[str, str], shared: list[LaneRange] | None = None
) -> None:
    async def end(_: TopicDescriptor) -> None:
        raise AssertionError("no topic had this name")

    spec = TopicSpec(name, name.encode().hex().zfill(32), 2, configs, "2026-01-01T00:00:00Z")
    if shared:
        spec = spec._replace(shared=shared)
    await Descriptors(store, "default").create(spec, end)


async def fill(store: ObjectStore, folder: str, size: int, *lanes: int) -> None:
    """Write records of `size` bytes into lanes of a log, and roll it up."""
    clock = SystemClock()
    log = Log(
        store,
        folder,
        epoch=0,
        author="test",
        settings=LogSettings(flush_interval_s=0),
        memory=TailMemory(1 << 20),
        clock=clock,
        dice=SeededDice(1),
    )
    await log.open()
    for lane in lanes:
        record = Record(0, clock.now_ms(), b"key", b"x" * size)
        data = memoryview(bytearray(build_batch([record], base_offset=0)))
        appended = log.append(lane, batch.read_header(data), data, acknowledged=False)
        assert appended.committed is not None
        assert await appended.committed is None
    await rollup.roll_up(log)
    await log.aclose()


def config_of(folder: Path) -> Config:
    limits = CompactionSection(max_bytes=Size(LIMITS.log_bytes))
    return Config(
        broker=BrokerSection(data_dir=str(folder)), storage=StorageSection(compaction=limits)
    )


async def test_topics_with_large_logs_are_named_with_what_is_new(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    store = open_store(config)
    assert await diagnosis.check_compaction(config) == [], "no topic is compacted"
    await add_topic(store, "small", COMPACT)
    await fill(store, "default/small/0", 100, 0)
    (result,) = await diagnosis.check_compaction(config)
    assert result.verdict == "ok"
    await add_topic(store, "plain", {})
    await fill(store, "default/plain/0", 3000, 0)
    await add_topic(store, "large", COMPACT)
    await fill(store, "default/large/1", 3000, 0)
    await add_topic(store, "beside", COMPACT, SHARED)
    await fill(store, "default/@shared/0", 2500, 0, 7)  # lane 7 is another topic's
    found = await read_backlog(store, "default", TopicDefaults(), LIMITS)
    assert found.topics == 3
    assert sorted(found.too_large) == ["beside", "large"]
    assert 3000 < found.too_large["large"] < 3200
    assert 2500 < found.too_large["beside"] < 2700
    (result,) = await diagnosis.check_compaction(config)
    assert result == (
        "warn",
        "compaction",
        "large, beside: 5.51 KiB are new, too large for brokers; "
        "run kafscale pipeline compact --by-key --topic large",
    )
    await store.aclose()


async def test_what_is_not_due_is_not_named(tmp_path: Path) -> None:
    store = open_store(config_of(tmp_path))
    await add_topic(store, "young", COMPACT | {"min.compaction.lag.ms": "3600000"})
    await fill(store, "default/young/0", 3000, 0)
    found = await read_backlog(store, "default", TopicDefaults(), LIMITS)
    assert found == CompactionBacklog(1, {})
    await store.aclose()


async def test_without_a_folder_or_in_memory_there_is_nothing_to_look_at(tmp_path: Path) -> None:
    assert await diagnosis.check_compaction(config_of(tmp_path / "none")) == []
    assert not (tmp_path / "none").exists()
    assert await diagnosis.check_compaction(Config(use_memory_s3=True)) == []
