"""A sequence that does not follow what this broker knows, when another one may have written."""

import asyncio

import pytest

from kafscale.engine.partitions.appends import Stored
from kafscale.model.errors import NotTheOwner, NotWritten, OutOfOrderSequence, UnknownProducer
from kafscale.records import batch
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.engine.cluster.test_fleet import theirs
from tests.unit.engine.fleet_harness import FleetHarness, Member, eventually, with_topic
from tests.unit.gateways.kafka.caller import make_batch


def numbered(sequence: int) -> memoryview:
    raw = make_batch(b"%d" % sequence, producer_id=7, producer_epoch=0, base_sequence=sequence)
    return memoryview(bytearray(raw))


def append(member: Member, partition: int, sequence: int) -> Stored:
    topic = member.engine.topics.get("t")
    return member.engine.partitions.append(topic, partition, numbered(sequence), acknowledged=False)


async def committed(member: Member, partition: int, sequence: int) -> int:
    stored = append(member, partition, sequence)
    if stored.appended.committed is not None:
        assert await stored.appended.committed is None
    return stored.first


async def zombie_writes(fleet: FleetHarness, member: Member, partition: int, sequence: int) -> None:
    """As a broker does that was paused before its PUT."""
    other = next(one for one in fleet.members if one is not member)
    topic = other.engine.topics.get("t")
    zombie = other.parts.logs._make(topic, topic.folder(partition))
    await zombie.open()
    data = numbered(sequence)
    appended = zombie.append(0, batch.read_header(data), data, acknowledged=False)
    assert appended.committed is not None
    assert await appended.committed is None
    await zombie.abandon()


async def test_what_another_has_written_is_taken_up_before_a_sequence_is_called_wrong(
    fleet: FleetHarness,
) -> None:
    members = await with_topic(fleet, 2, 4)
    partition = theirs(fleet, members[0], 4)
    await members[0].append("t", partition, b"first")
    assert await committed(members[0], partition, 0) == 1
    await zombie_writes(fleet, members[0], partition, 1)
    with pytest.raises(NotTheOwner):
        append(members[0], partition, 2)
    with pytest.raises(NotTheOwner):
        append(members[0], partition, 2)  # still looking
    log = members[0].parts.logs.resolve(members[0].engine.topics.get("t"), partition)
    assert log is not None
    await eventually(lambda: log[0].committed.end == 3)
    assert await committed(members[0], partition, 2) == 3
    assert await committed(members[0], partition, 1) == 2, "known now, and stored once"


async def test_a_sequence_that_is_wrong_is_called_so_after_the_look(fleet: FleetHarness) -> None:
    members = await with_topic(fleet, 2, 4)
    partition = theirs(fleet, members[0], 4)
    await members[0].append("t", partition, b"first")
    assert await committed(members[0], partition, 0) == 1
    with pytest.raises(NotTheOwner):
        append(members[0], partition, 5)
    await eventually(lambda: not members[0].parts.logs._catching_up)
    with pytest.raises(OutOfOrderSequence):
        append(members[0], partition, 5)


async def test_a_look_that_failed_says_nothing(fleet: FleetHarness) -> None:
    members = await with_topic(fleet, 2, 4)
    partition = theirs(fleet, members[0], 4)
    await members[0].append("t", partition, b"first")
    members[0].plan.add(Rule(Fault.FAIL_BEFORE, "find"))
    for _ in range(2):
        with pytest.raises(NotTheOwner):
            append(members[0], partition, 5)
        await eventually(lambda: not members[0].parts.logs._catching_up)
    members[0].plan.clear()
    with pytest.raises(NotTheOwner):
        append(members[0], partition, 5)
    await eventually(lambda: not members[0].parts.logs._catching_up)
    await asyncio.sleep(0)
    with pytest.raises(UnknownProducer):
        append(members[0], partition, 5)


async def test_a_reader_is_not_told_that_records_are_not_there_by_a_look_that_failed(
    fleet: FleetHarness,
) -> None:
    members = await with_topic(fleet, 2, 4)
    partition = theirs(fleet, members[0], 4)
    await members[0].append("t", partition, b"first")
    await zombie_writes(fleet, members[0], partition, 0)
    members[0].plan.add(Rule(Fault.FAIL_BEFORE, "find", times=1))
    assert isinstance((await members[0].read("t", partition, 2)).error, NotWritten)
    part = await members[0].read("t", partition, 2)
    assert part.error is None
    assert part.high == 2


async def test_a_reader_is_not_told_that_records_are_not_there_while_another_looks(
    fleet: FleetHarness,
) -> None:
    members = await with_topic(fleet, 2, 4)
    partition = theirs(fleet, members[0], 4)
    await members[0].append("t", partition, b"first")
    await zombie_writes(fleet, members[0], partition, 0)
    slow = members[0].plan.add(Rule(Fault.STALL_BEFORE, "find", times=1))
    readers = [asyncio.create_task(members[0].read("t", partition, 2))]
    await slow.reached.wait()
    readers += [asyncio.create_task(members[0].read("t", partition, 2)) for _ in range(3)]
    await asyncio.sleep(0)
    slow.release()
    for part in await asyncio.gather(*readers):
        assert part.error is None
        assert part.high == 2
