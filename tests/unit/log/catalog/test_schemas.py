"""Schemas of topics: versions that every broker agrees on."""

import asyncio

import pytest

from kafscale.log.catalog.schemas import MOST_BYTES, TopicSchema, TopicSchemas
from kafscale.model.errors import InvalidRequest
from kafscale.objects.memory import MemoryObjectStore

ID = "00" * 16
FIRST = TopicSchema("orders", 2, b'{"type": "record"}', {"owner": "me"})
SECOND = TopicSchema("orders", 2, b'{"type": "string"}')


async def test_a_schema_keeps_its_version() -> None:
    schemas = TopicSchemas(MemoryObjectStore(), "default")
    assert await schemas.newest(ID) is None
    versions = [await schemas.add(ID, one) for one in (FIRST, SECOND, FIRST, SECOND)]
    assert versions == [0, 1, 0, 1]
    assert await schemas.newest(ID) == (1, SECOND)
    assert await schemas.get(ID, 0) == FIRST
    assert [await schemas.get(ID, number) for number in (-1, 2, 1 << 63)] == [None] * 3
    assert await schemas.newest("11" * 16) is None


async def test_another_broker_sees_what_was_added() -> None:
    store = MemoryObjectStore()
    here, there = TopicSchemas(store, "default"), TopicSchemas(store, "default")
    assert await here.add(ID, FIRST) == 0
    assert await there.get(ID, 0) == FIRST
    assert await there.add(ID, SECOND) == 1
    assert await here.newest(ID) == (1, SECOND)
    assert await here.all_of(ID) == [FIRST, SECOND]


async def test_the_schemas_of_a_deleted_topic_are_removed() -> None:
    store = MemoryObjectStore()
    schemas = TopicSchemas(store, "default")
    await schemas.add(ID, FIRST)
    await schemas.add("11" * 16, SECOND)
    await schemas.remove(ID)
    assert await schemas.newest(ID) is None
    assert [row.key for row in await store.find("default")] == [
        f"default/@schemas/{'11' * 16}/{0:020d}"
    ]


async def test_brokers_that_add_at_once_give_each_schema_one_version() -> None:
    store = MemoryObjectStore()
    made = [TopicSchema("s", 1, b"%d" % number) for number in range(5)]
    wishes = [
        brokers.add(ID, one)
        for brokers in (TopicSchemas(store, "n"), TopicSchemas(store, "n"))
        for one in made
    ]
    versions = await asyncio.gather(*wishes)
    assert sorted(versions[:5]) == list(range(5))
    assert versions[:5] == versions[5:]


async def test_a_schema_that_is_too_large_is_refused() -> None:
    schemas = TopicSchemas(MemoryObjectStore(), "default")
    with pytest.raises(InvalidRequest, match="bytes"):
        await schemas.add(ID, TopicSchema("s", 1, bytes(MOST_BYTES)))
