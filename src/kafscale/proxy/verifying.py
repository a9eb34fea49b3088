"""`kafscale proxy verify`: does what proxies wrote down agree with the upstream's log?

Here: every batch of a topic is read, checked and counted anew, without the checkpoint. Then both
are compared. Nothing is written.
"""

import asyncio
from typing import NamedTuple

import uvloop

from kafscale.model.clock import Clock
from kafscale.model.errors import CorruptBatch, KafscaleError
from kafscale.proxy.coordination.topics import KEY, MappedTopic, TopicMap, TopicPin
from kafscale.proxy.main import open_upstream
from kafscale.proxy.partitions.open_partitions import state_key
from kafscale.proxy.settings import ProxySettings
from kafscale.proxy.state.checkpoints import read_checkpoint
from kafscale.proxy.state.lanes import PhysicalLog, PlaceMark
from kafscale.proxy.upstream.cluster import Upstream
from kafscale.proxy.upstream.fetching import EARLIEST, LATEST, fetch_block, list_offset
from kafscale.proxy.upstream.ledger import Ledger
from kafscale.records.batch import check_crc, walk
from kafscale.system import SystemClock, SystemDice
from kafscale.tasks import Tasks


class NothingToVerify(KafscaleError):
    """There is no mapped topic of this name."""


class PartitionReport(NamedTuple):
    """What was found in one physical partition."""

    topic: str
    partition: int
    batches: int
    records: int
    lanes: int
    void: int
    plain: int
    checkpoint: int | None  # how far it has read
    problems: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether index and log agree."""
        return not self.problems

    def __str__(self) -> str:
        """One line for a person."""
        facts = (
            f"{self.topic}-{self.partition}: {self.batches} batches, {self.records} records in "
            f"{self.lanes} virtual partitions, {self.void} that do not count, {self.plain} of "
            f"plain producers"
        )
        if self.problems:
            return f"{facts}; WRONG: {'; '.join(self.problems)}"
        if self.checkpoint is None:
            return f"{facts}; sound, no checkpoint"
        return f"{facts}; sound, agrees with the checkpoint at {self.checkpoint}"


def run_verification(settings: ProxySettings, names: list[str]) -> list[PartitionReport]:
    """Verify topics, all mapped ones if none is named."""
    return uvloop.run(_verify(settings, names))


async def _verify(settings: ProxySettings, names: list[str]) -> list[PartitionReport]:
    clock, tasks = SystemClock(), Tasks()
    upstream = open_upstream(settings, clock, SystemDice())
    try:
        await upstream.refresh(settings.ledger_topic)
        ledger = Ledger(upstream, clock, tasks, settings.ledger_topic)
        topics = TopicMap(settings.rules, upstream, ledger)
        if await upstream.topic(settings.ledger_topic) is None:
            raise NothingToVerify("no proxy has ever served this upstream")
        await ledger.open()
        known = sorted(key[len(KEY) :].decode() for key in ledger.rows if key.startswith(KEY))
        reports = []
        for name in names or known:
            topic = await _topic(upstream, topics, name)
            if topic is None and names:
                raise NothingToVerify(f"{name} is no mapped topic that a proxy has served")
            if topic is not None:
                reports += [
                    await verify_partition(upstream, ledger, topic, index, clock)
                    for index in range(topic.physical)
                ]
        return reports
    finally:
        await tasks.aclose()
        upstream.close()
        await asyncio.sleep(0)


async def _topic(upstream: Upstream, topics: TopicMap, name: str) -> MappedTopic | None:
    facts = await upstream.topic(name)
    pin: TopicPin | None = None if facts is None else topics.pin_of(name, facts.topic_id)
    if facts is None or pin is None:
        return None
    return MappedTopic(name, facts.topic_id, pin.virtual, pin.physical)


async def verify_partition(
    upstream: Upstream, ledger: Ledger, topic: MappedTopic, index: int, clock: Clock
) -> PartitionReport:
    """Read one physical partition and compare."""
    start = await list_offset(upstream, topic.name, index, EARLIEST)
    end = await list_offset(upstream, topic.name, index, LATEST)
    row = ledger.rows.get(state_key(topic.topic_id, index))
    kept = None if row is None else read_checkpoint(row)
    seen = _Seen(start, kept, clock)
    place = start
    while place < end:
        block = await fetch_block(upstream, topic.name, index, place)
        if block.end <= place:
            break
        seen.take(block.data, place, end)
        place = block.end
    if kept is not None and kept.next_place > end:
        seen.problems.append(f"the checkpoint is at {kept.next_place}, the log ends at {end}")
    return PartitionReport(
        topic.name,
        index,
        seen.batches,
        seen.records,
        sum(lane.next > lane.start for lane in seen.log.lanes.values()),
        seen.log.void_batches,
        seen.log.plain_batches,
        None if kept is None else kept.next_place,
        tuple(seen.problems),
    )


class _Seen:
    """A physical partition, as far as it has been read."""

    def __init__(self, start: int, kept: PhysicalLog | None, clock: Clock) -> None:
        self.log = PhysicalLog()
        self.batches = self.records = 0
        self.problems: list[str] = []
        self._clock = clock
        self._kept = kept
        self._marks: dict[int, tuple[int, PlaceMark]] = {}
        if start:
            self.log.begin_at(start)
        if kept is not None:
            self._marks = {
                place: (number, PlaceMark(offset, place))
                for number, lane in kept.lanes.items()
                for offset, place, _, _ in lane.marks
            }
            # Batches of plain producers carry no offset: what came before the start is known
            # from the checkpoint alone.
            if start and 0 in kept.lanes:
                self.log.lane(0).next = self.log.lane(0).start = kept.lanes[0].start
                self.log.lane(0).is_sure = True

    def take(self, data: memoryview, place: int, end: int) -> None:
        """Count the batches of a block."""
        for at, header in walk(data):
            if header.next_offset <= place or header.base_offset >= end:
                continue
            batch = data[at : at + header.size]
            if not check_crc(batch):
                self.problems.append(f"the batch at {header.base_offset} has a wrong checksum")
            self.batches += 1
            try:
                applied = self.log.apply(header, batch, self._clock.now_ms())
            except CorruptBatch as problem:
                self.problems.append(f"the batch at {header.base_offset}: {problem}")
                continue
            if applied is not None:
                self.records += header.record_count
                said = self._marks.get(header.base_offset)
                if said is not None and said != (
                    applied.lane,
                    PlaceMark(applied.offset, said[1].place),
                ):
                    self.problems.append(
                        f"the batch at {header.base_offset} is offset {applied.offset} of lane "
                        f"{applied.lane}, by the checkpoint {said[1].offset} of lane {said[0]}"
                    )
            if self._kept is not None and self.log.next_place == self._kept.next_place:
                self._compare(self._kept)

    def _compare(self, kept: PhysicalLog) -> None:
        for number, lane in self.log.lanes.items():
            said = kept.lanes.get(number)
            if lane.is_sure and (said is None or said.next != lane.next):
                found = "nothing" if said is None else said.next
                self.problems.append(
                    f"lane {number} ends at {lane.next}, by the checkpoint at {found}"
                )
