"""Checking finds what is broken, and nothing where nothing is."""

import msgspec
import pytest

from kafscale.admin.bucket import topic_lookup, verification
from kafscale.log.formats import keys
from kafscale.log.formats.segment import HEADER
from kafscale.records.batch import HEADER_SIZE
from tests.unit.admin.bucket_builder import LOG, TopicInMemory


async def problems(topic: TopicInMemory) -> list[str]:
    view = await topic_lookup.survey_log(topic.store, LOG)
    found = verification.check_joints(view)
    for piece in view.pieces:
        found += (await verification.check_piece(topic.store, piece, view.indexes)).problems
    return found


async def sound_topic() -> TopicInMemory:
    topic = TopicInMemory()
    await topic.commit(1, 10, await topic.rewrite(0, 5, 5))
    await topic.flush(10, 2, 3)
    await topic.flush(15, 1)
    return topic


async def test_a_sound_topic_has_no_problems_and_all_its_records() -> None:
    topic = await sound_topic()
    assert await problems(topic) == []
    view = await topic_lookup.survey_log(topic.store, LOG)
    found = [await verification.check_piece(topic.store, p, view.indexes) for p in view.pieces]
    assert sum(one.records for one in found) == 16


@pytest.mark.parametrize("at", [40, HEADER.size + HEADER_SIZE + 3, -20, -15])
async def test_any_changed_byte_of_a_segment_is_found(at: int) -> None:
    topic = await sound_topic()
    key = keys.segment(LOG, 10)
    size = len(await topic.store.read(key))
    await topic.spoil(key, at % size, 0xA5)
    found = await problems(topic)
    assert found
    assert all(text.startswith((key, keys.segment(LOG, 15))) for text in found)


async def test_a_missing_segment_of_the_past_is_found() -> None:
    topic = await sound_topic()
    key = f"{LOG}/{keys.rewritten_name(0, 1, 9)}"
    await topic.store.delete([key])
    assert await problems(topic) == [f"{key}: missing, though the manifest names it"]


async def test_another_object_under_the_right_name_is_found() -> None:
    topic = TopicInMemory()
    entry = await topic.rewrite(0, 5)
    await topic.commit(1, 5, msgspec.structs.replace(entry, token=1234))
    (text,) = await problems(topic)
    assert text.endswith("not the object that the manifest names: its content id differs")


async def test_a_hole_in_the_past_is_found() -> None:
    topic = TopicInMemory()
    entries = [await topic.rewrite(0, 5), await topic.rewrite(6, 4)]
    await topic.commit(1, 11, *entries)
    found = await problems(topic)
    assert found[0].endswith("begins at 6, the one before ends at 5")
    assert found[1] == f"{LOG}: manifest 1 ends at 11, its last segment at 10"


async def test_a_missing_and_a_wrong_index_are_found() -> None:
    topic = await sound_topic()
    key = keys.index_of(f"{LOG}/{keys.rewritten_name(0, 1, 9)}")
    await topic.spoil(key, -1 % len(await topic.store.read(key)), 0xA5)
    (text,) = await problems(topic)
    assert text.startswith(f"{key}: no batch of offset 5 at byte ")
    await topic.spoil(key, 0, 0x00)
    assert await problems(topic) == [f"{key}: not an index of a known version"]
    await topic.store.delete([key])
    assert await problems(topic) == [f"{key}: missing, though the manifest names it"]
