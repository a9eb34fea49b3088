"""What is shown of logs and partitions, and how little it takes."""

from collections.abc import AsyncIterator, Mapping

import pytest

from kafscale.engine.metrics.log_gauges import LogGauges
from kafscale.engine.metrics.series import BrokerMetrics
from kafscale.engine.topics.topic import Topic
from kafscale.log.upkeep import retention, rollup
from kafscale.log.writer.log import Log
from kafscale.model.metrics.meters import Registry
from kafscale.model.topics import LaneRange, TopicDefaults, TopicDescriptor
from kafscale.objects.memory import MemoryObjectStore
from tests.support.exposition import Series, parse, series
from tests.unit.engine.engine_harness import EngineHarness
from tests.unit.log.log_harness import LogHarness, make_batch, write

SHARED = "default/@shared/0"
SIZE = len(make_batch(b"x"))


def topic(name: str, partitions: int, logs: int, layout: str = "virtual") -> Topic:
    shared = [LaneRange("default/@shared", 0, partitions, 1)] if layout == "shared" else []
    descriptor = TopicDescriptor(
        name=name,
        topic_id="00112233445566778899aabbccddeeff",
        incarnation=1,
        folder=f"default/{name}",
        partitions=partitions,
        logs=logs,
        layout=layout,  # type: ignore[arg-type]
        shared=shared,
        created_at="2023-11-14T22:13:20Z",
    )
    return Topic(descriptor, 1, TopicDefaults())


class Office:
    """Open logs, and whose their lanes are."""

    def __init__(self, log_harness: LogHarness) -> None:
        self.log_harness = log_harness
        self.open: list[tuple[Topic | None, Log]] = []
        self.lanes: dict[int, tuple[Topic, int]] = {}
        self.revision = 0

    async def add(self, owner: Topic | None, folder: str) -> Log:
        log = await self.log_harness.open(folder)
        self.open.append((owner, log))
        return log

    def residents(self, folder: str) -> Mapping[int, tuple[Topic, int]]:
        assert folder == SHARED
        return self.lanes

    def gauges(self, most_logs: int = 10, most_partitions: int = 10) -> LogGauges:
        return LogGauges(
            lambda: self.open, self.residents, lambda: self.revision, most_logs, most_partitions
        )


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    log_harness = LogHarness(MemoryObjectStore)
    yield Office(log_harness)
    await log_harness.aclose()


def shown(gauges: LogGauges) -> dict[Series, float]:
    metrics = BrokerMetrics(Registry())
    metrics.sample_logs(gauges)
    return dict(parse(metrics.registry.render()))


async def test_a_log_shows_its_lanes_its_end_its_tail_and_its_bytes(office: Office) -> None:
    log = await office.add(topic("t", 4, 2), "default/t/1")
    for lane in (0, 1):
        await write(log, b"x", lane=lane)
    await rollup.roll_up(log)
    await retention.raise_starts(log, {0: 1})
    await write(log, b"x", lane=1)
    samples = shown(office.gauges())

    def of(name: str) -> float:
        return samples[series(f"kafscale_log_{name}", topic="t", log="1")]

    assert (of("lanes"), of("end_position"), of("tail_objects")) == (2, 3, 1)
    assert (of("live_bytes"), of("dead_bytes")) == (2 * SIZE, SIZE)
    assert samples[series("kafscale_partition_records", topic="t", partition="1")] == 0
    assert samples[series("kafscale_partition_records", topic="t", partition="3")] == 2
    assert samples[series("kafscale_partition_bytes", topic="t", partition="3")] == 2 * SIZE


async def test_lanes_of_a_shared_log_are_shown_as_their_topics_partitions(office: Office) -> None:
    log = await office.add(None, SHARED)
    clicks, views = topic("clicks", 2, 0, "shared"), topic("views", 1, 0, "shared")
    office.lanes = {0: (clicks, 0), 1: (clicks, 1), 2: (views, 0)}
    for lane in (1, 2, 3):  # the topic of lane 3 is gone
        await write(log, b"x", lane=lane)
    samples = shown(office.gauges())
    assert samples[series("kafscale_log_lanes", topic="@shared", log="0")] == 3
    assert {
        labels: value
        for (name, labels), value in samples.items()
        if name == "kafscale_partition_records"
    } == {
        series("", topic="clicks", partition="1")[1]: 1,
        series("", topic="views", partition="0")[1]: 1,
    }
    assert samples[series("kafscale_partitions_untracked")] == 0


async def test_rows_follow_logs_lanes_and_topics_that_come_and_go(office: Office) -> None:
    owner = topic("t", 4, 2)
    first = await office.add(owner, "default/t/0")
    gauges = office.gauges()

    def names() -> set[str]:
        gauges.update()
        return {labels[1] for labels, _ in gauges.records()}

    assert names() == set()
    await write(first, b"x", lane=1)
    assert names() == {"2"}
    await office.add(owner, "default/t/1")
    office.open[1][1].lane(0)
    assert names() == {"2", "1"}
    office.open[0] = (
        owner,
        await office.log_harness.open("default/t/0"),
    )  # closed and opened again
    await write(office.open[0][1], b"x", lane=1)
    assert names() == {"2", "1"}
    assert dict(gauges.records())["t", "2"] == 2
    shared = await office.add(None, SHARED)
    shared.lane(0)
    assert names() == {"2", "1"}
    office.lanes, office.revision = {0: (owner, 3)}, 1
    assert names() == {"2", "1", "3"}


async def test_rows_are_bounded_and_the_rest_is_counted(office: Office) -> None:
    for number in range(4):
        log = await office.add(topic(f"t{number}", 3, 1), f"default/t{number}/0")
        for lane in range(3):
            log.lane(lane)
    (await office.add(None, SHARED)).lane(0)
    samples = shown(office.gauges(most_logs=2, most_partitions=5))
    assert samples[series("kafscale_logs_untracked")] == 3
    assert samples[series("kafscale_partitions_untracked")] == 7
    assert series("kafscale_log_lanes", topic="@shared", log="0") in samples  # these come first
    assert sum(name == "kafscale_log_lanes" for name, _ in samples) == 2
    assert sum(name == "kafscale_partition_bytes" for name, _ in samples) == 5


async def test_a_scrape_settles_again_only_when_something_has_changed(office: Office) -> None:
    log = await office.add(None, SHARED)
    office.lanes = {0: (topic("t", 1, 0, "shared"), 0)}
    log.lane(0)
    asked: list[str] = []

    def residents(folder: str) -> Mapping[int, tuple[Topic, int]]:
        asked.append(folder)
        return office.lanes

    gauges = LogGauges(lambda: office.open, residents, lambda: 0)
    for _ in range(3):
        await write(log, b"x")
        assert list(gauges.lanes()) == [(("@shared", "0"), 1)]
    assert [value for _, value in gauges.records()] == [3]
    assert asked == [SHARED]


async def test_a_broker_shows_its_own_and_forgets_topics_that_are_deleted(
    harness: EngineHarness,
) -> None:
    def rows(name: str) -> set[tuple[str, str]]:
        found = [dict(labels) for seen, labels in parse(harness.broker.metrics()) if seen == name]
        return {(row["topic"], row.get("log") or row["partition"]) for row in found}

    for name in ("a", "b"):
        await harness.engine.topics.create(name, 2, {"storage.placement": "shared"})
        await harness.append(name, b"x", partition=1)
    await harness.engine.topics.create("own", 1, {})
    await harness.append("own", b"x")
    assert rows("kafscale_log_dead_bytes") == {("@shared", "0"), ("own", "0")}
    assert rows("kafscale_partition_bytes") == {("a", "1"), ("b", "1"), ("own", "0")}
    assert {("@shared", "0"), ("own", "0")} <= rows("kafscale_log_puts_total")
    await harness.engine.topics.delete("a")
    await harness.engine.topics.delete("own")
    assert rows("kafscale_partition_bytes") == {("b", "1")}
    assert rows("kafscale_log_puts_total") == {("@shared", "0")}
