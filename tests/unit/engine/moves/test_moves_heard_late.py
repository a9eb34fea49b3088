"""Moves that are heard of late: by brokers, by administrators, by producers."""

import msgspec
import pytest

from kafscale.log.writer.types import wait_for_commit
from kafscale.metadata.keys import MoveReport
from kafscale.model.errors import NotTheOwner, OutOfOrderSequence, TopicMoving, UnknownProducer
from kafscale.model.topics import Move, TopicDefaults
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.engine.engine_harness import EngineHarness, values_of
from tests.unit.engine.moves.test_moves import all_values, arrived, filled, move, seventh
from tests.unit.engine.topics.test_changes import adding

__all__ = ["filled"]


async def test_a_broker_that_hears_late_seals_nothing_in_the_new_place(
    filled: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, moves = filled.engine.topics.get("t"), filled.parts.moves
    old, defaults = topic.descriptor, TopicDefaults()
    await move(filled, "shared")
    new = topic.descriptor
    on_its_way = Move(
        move_id="0" * 16,
        layout=new.layout,
        folder=new.folder,
        logs=new.logs,
        shared=new.shared,
        sealing=True,
    )

    async def nothing_more(*_: object) -> dict[str, MoveReport]:
        """The topic arrives, and its reports are removed, while this broker asks for them."""
        topic.replace_descriptor(new, topic.version, defaults)
        return {}

    monkeypatch.setattr(moves._reports, "find", nothing_more)
    topic.replace_descriptor(
        msgspec.structs.replace(old, moving=on_its_way), topic.version, defaults
    )
    await moves.step(topic)
    assert topic.descriptor == new
    assert await filled.append("t", b"after") == 4


async def test_the_end_of_a_sealed_lane_is_told_to_no_reader(harness: EngineHarness) -> None:
    """Another broker may already serve the partition's next records from another log."""
    await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"last")
    topic = harness.engine.topics.get("t")
    log = await harness.parts.logs.open_log(topic.folder(0), topic)
    seal = log.seal(0)
    assert seal.committed is not None
    await wait_for_commit(seal.committed)
    on_its_way = Move(move_id="0" * 16, layout="shared", folder="", logs=1, shared=[], sealing=True)
    topic.replace_descriptor(
        msgspec.structs.replace(topic.descriptor, moving=on_its_way), topic.version, TopicDefaults()
    )
    assert values_of(await harness.read("t", 0))[0] == b"last"
    at_the_end = await harness.read("t", log.lane(0).high)
    assert isinstance(at_the_end.error, NotTheOwner)
    with pytest.raises(NotTheOwner):
        await harness.engine.partitions.bounds(topic, 0, -1)


async def test_a_broker_that_the_watch_does_not_tell_asks_whether_a_sealed_topic_has_arrived(
    filled: EngineHarness,
) -> None:
    topic = filled.engine.topics.get("t")
    old = topic.descriptor
    await move(filled, "shared")
    new = topic.descriptor
    on_its_way = Move(
        move_id="0" * 16,
        layout=new.layout,
        folder=new.folder,
        logs=new.logs,
        shared=new.shared,
        sealing=True,
    )
    # As if the last entry had been written by another broker and not been heard of here.
    topic.replace_descriptor(msgspec.structs.replace(old, moving=on_its_way), 0, TopicDefaults())
    filled.parts.moves._topics._versions["t"] = 0
    await filled.parts.moves.step(topic)
    assert topic.descriptor == new


async def test_a_wish_that_a_move_has_overtaken_is_refused(filled: EngineHarness) -> None:
    topic = filled.engine.topics.get("t")
    old = topic.descriptor
    await move(filled, "shared")
    new = topic.descriptor
    topic.replace_descriptor(old, topic.version, TopicDefaults())  # this broker has not heard of it
    with pytest.raises(TopicMoving):
        await filled.engine.topics.change_configs("t", adding("storage.placement", "dedicated"))
    topic.replace_descriptor(new, topic.version, TopicDefaults())
    await filled.engine.topics.change_configs("t", adding("retention.ms", "77"))
    assert topic.descriptor.moving is None
    assert topic.descriptor.layout == "shared"


async def test_what_was_sent_behind_a_refused_batch_does_not_come_before_it(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"of others")
    held = harness.plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*@shared/0/segment*"))
    await harness.engine.topics.change_configs("t", adding("storage.placement", "shared"))
    await held.reached.wait()
    topic = harness.engine.topics.get("t")
    log = await harness.parts.logs.open_log(topic.folder(0), topic)
    appended = log.seal(0)
    assert appended.committed is not None
    await wait_for_commit(appended.committed)
    with pytest.raises(NotTheOwner):
        await harness.append("t", b"first", **seventh(0))
    harness.plan.clear()
    await arrived(harness)
    with pytest.raises(OutOfOrderSequence):
        await harness.append("t", b"second", **seventh(1))
    await harness.append("t", b"first", **seventh(0))
    await harness.append("t", b"second", **seventh(1))
    with pytest.raises(UnknownProducer):  # the move does not make unknown producers known
        await harness.append("t", b"-", producer_id=8, producer_epoch=0, base_sequence=5)
    assert await all_values(harness) == [b"of others", b"first", b"second"]
