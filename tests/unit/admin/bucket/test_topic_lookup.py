"""Which objects of a topic count."""

from pathlib import Path

import pytest

from kafscale.admin.bucket import topic_lookup
from kafscale.admin.errors import AdminError
from kafscale.log.formats import keys
from kafscale.model.topics import TopicDescriptor
from kafscale.settings.config import Config
from kafscale.settings.sections import BrokerSection
from tests.unit.admin.bucket_builder import LOG, TOPIC, TopicInMemory
from tests.unit.admin.shared_builder import CLICKS, LOGS


async def test_a_log_is_its_history_and_then_the_chain_of_flushes() -> None:
    topic = TopicInMemory()
    entry = await topic.rewrite(0, 5, 5)
    await topic.commit(3, 10, entry)
    await topic.flush(10, 2)
    await topic.flush(12, 1, 1)
    view = await topic_lookup.survey_log(topic.store, LOG)
    assert [(p.kind, p.base, p.end, p.records) for p in view.pieces] == [
        ("history", 0, 10, 10),
        ("flush", 10, 12, 2),
        ("flush", 12, 14, 2),
    ]
    assert view.manifest.generation == 3
    assert (view.problems, view.leftovers) == ([], [])
    assert len(view.indexes) == 1


async def test_what_history_replaced_is_left_over_and_does_not_count() -> None:
    topic = TopicInMemory()
    replaced = [await topic.flush(0, 5), await topic.flush(5, 5)]
    await topic.commit(1, 0)
    await topic.commit(2, 10, await topic.rewrite(0, 10))
    view = await topic_lookup.survey_log(topic.store, LOG)
    assert [piece.base for piece in view.pieces] == [0]
    assert {row.key for row in view.leftovers} == {*replaced, keys.manifest(LOG, 1)}


async def test_an_empty_log_has_no_pieces() -> None:
    view = await topic_lookup.survey_log(TopicInMemory().store, LOG)
    assert (view.pieces, view.leftovers, view.problems) == ([], [], [])


async def test_a_flush_the_chain_does_not_reach_is_a_problem() -> None:
    topic = TopicInMemory()
    await topic.flush(0, 5)
    lost = await topic.flush(7, 1)
    view = await topic_lookup.survey_log(topic.store, LOG)
    assert view.problems == [f"{lost}: not reached by the chain, which ends at 5"]


async def test_a_cut_off_flush_ends_the_chain_with_a_problem() -> None:
    topic = TopicInMemory()
    await topic.flush(0, 5)
    key = keys.segment(LOG, 5)
    await topic.store.put_new(key, [b"KAFS"])
    view = await topic_lookup.survey_log(topic.store, LOG)
    assert view.problems == [f"{key}: too short to be a segment"]
    assert len(view.pieces) == 1


async def test_a_flush_under_the_wrong_name_is_a_problem() -> None:
    topic = TopicInMemory()
    right = await topic.flush(3, 1)
    body = await topic.store.read(right)
    await topic.store.put_new(keys.segment(LOG, 0), [body])
    view = await topic_lookup.survey_log(topic.store, LOG)
    assert view.problems == [f"{keys.segment(LOG, 0)}: says it begins at 3"]


async def test_the_newest_descriptor_of_a_topic_counts() -> None:
    topic = TopicInMemory()
    await topic.describe()
    later = TopicDescriptor.decode(TOPIC.encode().replace(b'"partitions": 1', b'"partitions": 4'))
    await topic.store.put_new(keys.descriptor("default/orders", 2), [later.encode()])
    assert (await topic_lookup.find_topic(topic.store, "default", "orders")).partitions == 4


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing", "nothing: no such topic in namespace default"),
        ("a/b", "a name is"),
        ("gone", "gone: the topic was deleted"),
    ],
)
async def test_a_topic_that_is_not_there_is_refused(name: str, words: str) -> None:
    topic = TopicInMemory()
    deleted = TOPIC.encode().replace(b'"deleted": false', b'"deleted": true')
    await topic.store.put_new(keys.descriptor("default/gone", 1), [deleted])
    with pytest.raises(AdminError, match=words):
        await topic_lookup.find_topic(topic.store, "default", name)


def test_a_partition_that_is_not_there_is_refused() -> None:
    assert topic_lookup.log_folders(TOPIC, None) == topic_lookup.log_folders(TOPIC, 0) == [LOG]
    with pytest.raises(AdminError, match="orders: no partition 1, only 0 to 0"):
        topic_lookup.log_folders(TOPIC, 1)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (Config(use_memory_s3=True), "cannot be seen from outside"),
        (Config(broker=BrokerSection(data_dir="nowhere")), "nowhere: no such data folder"),
    ],
)
async def test_a_store_that_cannot_be_looked_at_is_refused_and_not_created(
    config: Config, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AdminError, match=words):
        async with topic_lookup.opened(config):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_shared_topic_is_looked_at_where_its_lanes_are() -> None:
    assert topic_lookup.log_folders(CLICKS, None) == LOGS
    assert topic_lookup.log_folders(CLICKS, 3) == [LOGS[1]]
    assert topic_lookup.place_of(CLICKS, 3) == (LOGS[1], 1)
