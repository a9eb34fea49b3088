"""Where partitions lie and what they take, read from buckets laid down by hand."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from kafscale.admin.bucket import holdings, topic_lookup
from kafscale.admin.bucket.holdings import Holding
from kafscale.admin.errors import AdminError
from kafscale.model.names import topic_id_from_hex, topic_id_text
from kafscale.objects.store import ObjectStore
from kafscale.settings.config import Config
from tests.unit.admin.bucket_builder import TOPIC, TopicInMemory
from tests.unit.admin.shared_builder import (
    CLICKS,
    LOGS,
    VIEWS,
    SharedInMemory,
    built,
    size_of,
    two_topics,
)

ID = topic_id_text(topic_id_from_hex(TOPIC.topic_id))


async def test_partitions_of_a_shared_topic_are_lanes_above_their_starts() -> None:
    made = await two_topics()
    assert await holdings.list_holdings(made.store, CLICKS) == {
        0: Holding("@shared/0", 0, 2, size_of(0, 5) + size_of(5, 2)),
        1: Holding("@shared/1", 0, 0, 0),
        2: Holding("@shared/0", 1, 0, 0),  # all of it was deleted, the object stays for others
        3: Holding("@shared/1", 1, 1, size_of(0, 6)),
    }
    assert await holdings.list_holdings(made.store, VIEWS) == {
        0: Holding("@shared/0", 2, 2, size_of(0, 4) + size_of(4, 1)),
        1: Holding("@shared/1", 2, 0, 0),
    }


async def test_topics_on_shared_logs_are_counted_together() -> None:
    made = await two_topics()
    await made.describe(TOPIC)  # has logs of its own
    assert await holdings.list_shared_bytes(made.store, "default") == {
        "clicks": size_of(0, 5) + size_of(5, 2) + size_of(0, 6),
        "views": size_of(0, 4) + size_of(4, 1),
    }


async def test_a_topic_with_logs_of_its_own_is_counted_without_opening_its_objects() -> None:
    topic = TopicInMemory()
    entry = await topic.rewrite(0, 5, 5)
    await topic.commit(1, 10, entry)
    await topic.flush(3, 7)  # rolled up meanwhile, waits to be deleted
    await topic.flush(10, 2, 3)
    wanted = {0: Holding(0, 0, 2, size_of(0, 5) + size_of(5, 5) + size_of(10, 2) + size_of(12, 3))}
    assert await holdings.list_holdings(topic.store, TOPIC) == wanted


async def test_virtual_partitions_are_counted_by_lane() -> None:
    made = SharedInMemory()
    topic = msgspec.structs.replace(TOPIC, partitions=3, logs=2, layout="virtual")
    await made.store.put_new(
        f"{TOPIC.folder}/0/segment-{0:020d}.kfs", built(0, {0: (0, 1), 1: (0, 2)}).body
    )
    assert await holdings.list_holdings(made.store, topic) == {
        0: Holding(0, 0, 1, size_of(0, 1)),
        1: Holding(1, 0, 0, 0),
        2: Holding(0, 1, 1, size_of(0, 2)),
    }


@pytest.fixture
async def bucket_of(monkeypatch: pytest.MonkeyPatch) -> SharedInMemory:
    made = await two_topics()

    @asynccontextmanager
    async def opened(config: Config) -> AsyncIterator[ObjectStore]:
        yield made.store

    monkeypatch.setattr(topic_lookup, "opened", opened)
    return made


async def test_a_topic_of_another_cluster_is_told_by_its_id(bucket_of: SharedInMemory) -> None:
    assert (await holdings.read_topic(Config(), "views", ID)).partitions[0].objects == 2
    with pytest.raises(AdminError, match="in this bucket is another one"):
        await holdings.read_topic(Config(), "views", "x" + ID[1:])


def test_where_no_setting_names_a_bucket_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("KAFSCALE_DATA_DIR", "KAFSCALE_S3_BUCKET", "KAFSCALE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    found, _, reason = holdings.find_holdings(None, {}, "clicks", ID)
    assert found == {}
    assert reason == "--config with the broker's file says which bucket it uses"
    assert "--config" in reason
    with pytest.raises(AdminError, match="elsewhere: no such data folder"):
        holdings.find_holdings(None, {"broker.dataDir": "elsewhere"}, "clicks", ID)


def test_settings_alone_say_where_partitions_with_own_logs_lie() -> None:
    assert holdings.place_by_configs({}, 5, 8) == Holding(5, 0)
    assert holdings.place_by_configs({"physical.partitions": "3"}, 5, 8) == Holding(2, 1)
    assert holdings.place_by_configs({"storage.placement": "shared"}, 5, 8) == Holding(None, None)


def test_logs_have_the_names_people_know() -> None:
    assert topic_lookup.log_name(CLICKS, LOGS[1]) == "@shared/1"
    assert topic_lookup.log_name(TOPIC, "default/orders/0") == 0
