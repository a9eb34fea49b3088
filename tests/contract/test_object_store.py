"""What every object store must do."""

import asyncio

import pytest

from kafscale.model.errors import ObjectExists, ObjectMissing, StoreRefused
from kafscale.objects.capability_check import check_create_if_absent
from kafscale.objects.store import ObjectStore


async def keys(store: ObjectStore, folder: str, after: str = "", before: str = "") -> list[str]:
    return [row.key for row in await store.find(folder, after, before)]


async def test_a_listing_ends_at_its_limit_and_a_short_one_is_all(
    store: ObjectStore, folder: str
) -> None:
    await put_all(store, names := [f"{folder}/{number}/x" for number in range(5)])
    for limit in (1, 4, 5, 6, 1000):
        found = await store.find(folder, limit=limit)
        assert [row.key for row in found] == names[:limit]
    found = await store.find(folder, names[0], names[4], limit=2)
    assert [row.key for row in found] == names[1:3]


async def put_all(store: ObjectStore, names: list[str]) -> None:
    gate = asyncio.Semaphore(32)

    async def put(name: str) -> None:
        async with gate:
            await store.put_new(name, [name.encode()])

    await asyncio.gather(*(put(name) for name in names))


async def test_what_was_put_is_read_back(store: ObjectStore, folder: str) -> None:
    await store.put_new(f"{folder}/a", [b"one", bytearray(b" two"), memoryview(b" three")])
    assert bytes(await store.read(f"{folder}/a")) == b"one two three"
    assert isinstance(await store.read(f"{folder}/a"), memoryview)


async def test_a_taken_key_is_refused_and_keeps_its_bytes(store: ObjectStore, folder: str) -> None:
    await store.put_new(f"{folder}/a", [b"first"])
    with pytest.raises(ObjectExists):
        await store.put_new(f"{folder}/a", [b"second"])
    assert bytes(await store.read(f"{folder}/a")) == b"first"


@pytest.mark.parametrize("size", [10, 200_000])
async def test_of_eight_creators_at_once_exactly_one_wins(
    store: ObjectStore, folder: str, size: int
) -> None:
    for round_number in range(2):
        key = f"{folder}/{round_number}"
        bodies = [bytes([writer]) * size for writer in range(8)]
        results = await asyncio.gather(
            *(store.put_new(key, [body]) for body in bodies), return_exceptions=True
        )
        winners = [number for number, result in enumerate(results) if result is None]
        assert len(winners) == 1
        assert all(isinstance(result, ObjectExists) for result in results if result is not None)
        assert bytes(await store.read(key)) == bodies[winners[0]]


async def test_a_reader_sees_all_bytes_or_none(store: ObjectStore, folder: str) -> None:
    body = [bytes([number]) * 100_000 for number in range(20)]
    whole = b"".join(body)
    writing = asyncio.ensure_future(store.put_new(f"{folder}/a", body))
    seen_after_write = False
    while not seen_after_write:
        seen_after_write = writing.done()
        sizes = [row.size for row in await store.find(folder)]
        assert sizes in ([], [len(whole)])
        try:
            assert bytes(await store.read(f"{folder}/a")) == whole
        except ObjectMissing:
            assert not seen_after_write
        await asyncio.sleep(0)
    await writing


async def test_a_deleted_key_is_free_again(store: ObjectStore, folder: str) -> None:
    await store.put_new(f"{folder}/a", [b"first"])
    await store.delete([f"{folder}/a"])
    with pytest.raises(ObjectMissing):
        await store.read(f"{folder}/a")
    await store.put_new(f"{folder}/a", [b"second"])
    assert bytes(await store.read(f"{folder}/a")) == b"second"


async def test_a_missing_key_is_missing_however_it_is_read(store: ObjectStore, folder: str) -> None:
    for start, length in [(0, None), (5, None), (0, 10), (5, 10), (0, 0), (3, 0)]:
        with pytest.raises(ObjectMissing):
            await store.read(f"{folder}/nothing", start, length)


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [
        (0, None, b"0123456789"),
        (4, None, b"456789"),
        (2, 3, b"234"),
        (0, 10, b"0123456789"),
        (8, 100, b"89"),
        (9, 1, b"9"),
        (10, 1, b""),
        (10, None, b""),
        (11, 5, b""),
        (5000, None, b""),
        (3, 0, b""),
    ],
)
async def test_ranges_end_where_the_object_ends(
    store: ObjectStore, folder: str, start: int, length: int | None, expected: bytes
) -> None:
    await store.put_new(f"{folder}/a", [b"0123456789"])
    assert bytes(await store.read(f"{folder}/a", start, length)) == expected


async def test_an_empty_object_is_an_object(store: ObjectStore, folder: str) -> None:
    await store.put_new(f"{folder}/none", [])
    await store.put_new(f"{folder}/empty", [b""])
    for name in ("none", "empty"):
        assert bytes(await store.read(f"{folder}/{name}")) == b""
        assert bytes(await store.read(f"{folder}/{name}", 0, 10)) == b""
        with pytest.raises(ObjectExists):
            await store.put_new(f"{folder}/{name}", [b"x"])
    assert [row.size for row in await store.find(folder)] == [0, 0]


async def test_five_mebibytes_in_many_buffers_stay_in_order(
    store: ObjectStore, folder: str
) -> None:
    body = [number.to_bytes(4) * 640 for number in range(2048)]  # more than one writev takes
    whole = b"".join(body)
    assert len(whole) == 5 * 1024 * 1024
    await store.put_new(f"{folder}/big", body)
    assert bytes(await store.read(f"{folder}/big")) == whole
    assert (
        bytes(await store.read(f"{folder}/big", 1_000_001, 300_000)) == whole[1_000_001:1_300_001]
    )


async def test_a_listing_is_in_key_order_with_sizes(store: ObjectStore, folder: str) -> None:
    names = ["b/2", "b/10", "a", "b-x", "b.y", "c/d/e"]
    await put_all(store, [f"{folder}/{name}" for name in names])
    rows = await store.find(folder)
    assert [row.key for row in rows] == sorted(f"{folder}/{name}" for name in names)
    assert all(row.size == len(row.key) for row in rows)


async def test_after_and_before_are_exclusive(store: ObjectStore, folder: str) -> None:
    names = [f"{folder}/{number:02d}" for number in range(10)]
    await put_all(store, names)
    assert await keys(store, folder, after=names[3]) == names[4:]
    assert await keys(store, folder, before=names[3]) == names[:3]
    assert await keys(store, folder, after=names[3], before=names[6]) == names[4:6]
    assert await keys(store, folder, after=f"{folder}/03x") == names[4:]
    assert await keys(store, folder, after=names[9]) == []
    assert await keys(store, folder, after=names[5], before=names[5]) == []


async def test_after_and_before_reach_into_folders(store: ObjectStore, folder: str) -> None:
    names = [f"{folder}/{name}" for name in ("a/1", "a/2", "b/1", "b/2", "c")]
    await put_all(store, names)
    assert await keys(store, folder, after=f"{folder}/a/1", before=f"{folder}/b/2") == names[1:3]
    assert await keys(store, folder, after=f"{folder}/a/9", before=f"{folder}/c") == names[2:4]


async def test_a_folder_is_whole_path_segments(store: ObjectStore, folder: str) -> None:
    await put_all(store, [f"{folder}/{name}" for name in ("a/b/1", "a/bc/2", "a/b.d", "a/b-e/3")])
    assert await keys(store, f"{folder}/a/b") == [f"{folder}/a/b/1"]
    assert await keys(store, f"{folder}/a/b/1") == []
    assert await keys(store, f"{folder}/nothing") == []


async def test_more_keys_than_one_page_are_all_found(store: ObjectStore, folder: str) -> None:
    names = [f"{folder}/segment-{number:020d}.kfs" for number in range(1200)]
    await put_all(store, names)
    assert await keys(store, folder) == names
    assert await keys(store, folder, after=names[99], before=names[1150]) == names[100:1150]
    await store.delete(names)
    assert await keys(store, folder) == []


async def test_folders_are_named_once_and_only_one_level_down(
    store: ObjectStore, folder: str
) -> None:
    for key in ("b/1", "b/2", "a/deep/1", "a@1/x", "file"):
        await store.put_new(f"{folder}/{key}", [b"x"])
    assert await store.folders(folder) == ["a", "a@1", "b"]
    assert await store.folders(f"{folder}/a") == ["deep"]
    assert await store.folders(f"{folder}/nothing") == []
    assert folder.partition("/")[0] in await store.folders("")


async def test_deleting_what_is_gone_is_no_error(store: ObjectStore, folder: str) -> None:
    await store.put_new(f"{folder}/a", [b"x"])
    await store.delete([f"{folder}/never", f"{folder}/a", f"{folder}/deep/er"])
    await store.delete([f"{folder}/a"])
    await store.delete([])
    assert await keys(store, folder) == []


async def test_keys_may_hold_the_signs_topics_need(store: ObjectStore, folder: str) -> None:
    names = [
        f"{folder}/{name}" for name in ("a@b", "a=b", "a.b", "a-b", "a_b", "a%2Fb", "A", "..x")
    ]
    await put_all(store, names)
    assert await keys(store, folder) == sorted(names)
    for name in names:
        assert bytes(await store.read(name)) == name.encode()


@pytest.mark.parametrize(
    "key",
    [
        *("", "/", "/a", "a/", "a//b", "../a", "a/../b", "a/..", "./a", "a/.", ".tmp/a"),
        *("a b", "a\nb", "a\\b", "ä", "a\0b", "a\n", "x" * 256, "a/" * 600 + "a"),
    ],
)
async def test_a_key_that_could_escape_is_refused(store: ObjectStore, key: str) -> None:
    for attempt in (store.put_new(key, [b"x"]), store.read(key), store.delete([key])):
        with pytest.raises(StoreRefused):
            await attempt
    if key:
        with pytest.raises(StoreRefused):
            await store.find(key)


async def test_a_fresh_object_is_dated_by_the_stores_clock(store: ObjectStore, folder: str) -> None:
    earlier_ms = await store.now_ms()
    await store.put_new(f"{folder}/a", [b"x"])
    later_ms = await store.now_ms()
    [row] = await store.find(folder)
    # Times of a bucket come in whole seconds.
    assert earlier_ms - 1000 <= row.modified_ms <= later_ms + 1000


async def test_the_stores_own_objects_are_never_listed(store: ObjectStore, folder: str) -> None:
    await store.now_ms()
    await store.put_new(f"{folder}/a", [b"x"])
    found = await keys(store, "")
    assert f"{folder}/a" in found
    assert not [key for key in found if key.startswith(".")]


async def test_every_adapter_passes_the_start_up_probe(store: ObjectStore, folder: str) -> None:
    await check_create_if_absent(store, folder, "token")
    assert await keys(store, folder) == []
