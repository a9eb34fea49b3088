"""What is special about objects in files."""

import asyncio
import errno
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from kafscale.model.errors import ObjectExists, StoreRefused, StoreUnavailable
from kafscale.objects import files
from kafscale.objects.files import CACHED_BYTES, INLINE_BYTES, LEFTOVER_AGE_S, FileObjectStore

BIG = b"x" * (INLINE_BYTES + 2)


def files_in(root: Path) -> list[str]:
    found = (path for path in root.rglob("*") if path.is_file() and path.name != "clock")
    return sorted(str(path.relative_to(root)) for path in found)


async def test_an_object_is_a_plain_file_at_its_key(tmp_path: Path) -> None:
    store = FileObjectStore(tmp_path)
    await store.put_new("ns/topic/0/segment-00.kfs", [b"one", b"two"])
    assert (tmp_path / "ns/topic/0/segment-00.kfs").read_bytes() == b"onetwo"
    assert files_in(tmp_path) == ["ns/topic/0/segment-00.kfs"]
    await store.aclose()


@pytest.mark.parametrize("body", [b"small", BIG])
async def test_a_full_disk_is_a_refusal_that_names_the_path_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    store = FileObjectStore(tmp_path)

    def full(target: int, buffers: Sequence[memoryview]) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "writev", full)
    with pytest.raises(StoreRefused, match=r"ns/a.*No space left"):
        await store.put_new("ns/a", [body])
    monkeypatch.undo()
    assert files_in(tmp_path) == []
    await store.put_new("ns/a", [body])
    assert bytes(await store.read("ns/a")) == body
    await store.aclose()


async def test_writes_cut_short_by_the_kernel_are_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileObjectStore(tmp_path)

    def seven_bytes(target: int, buffers: Sequence[memoryview]) -> int:
        return os.write(target, b"".join(buffers)[:7])

    monkeypatch.setattr(os, "writev", seven_bytes)
    body = [b"0123", b"", b"456789abcdefgh", b"ijklmnop", b""]
    await store.put_new("ns/a", body)
    assert bytes(await store.read("ns/a")) == b"".join(body)
    await store.aclose()


async def test_a_folder_that_may_not_be_written_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileObjectStore(tmp_path)

    def forbidden(source: str, target: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "link", forbidden)
    with pytest.raises(StoreRefused, match="ns/a"):
        await store.put_new("ns/a", [b"x"])
    await store.aclose()


async def test_a_link_that_fails_for_an_unclear_reason_has_an_unknown_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileObjectStore(tmp_path)

    def lost(source: str, target: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "link", lost)
    with pytest.raises(StoreUnavailable):
        await store.put_new("ns/a", [b"x"])
    await store.aclose()


def test_a_root_that_is_a_file_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreRefused, match="file"):
        FileObjectStore(tmp_path / "file")


async def test_old_leftovers_are_removed_at_open_and_young_ones_stay(tmp_path: Path) -> None:
    temp = tmp_path / ".tmp"
    temp.mkdir()
    for name in ("old", "young"):
        (temp / name).write_bytes(b"half an obj")
    long_ago = os.stat(temp / "young").st_mtime - LEFTOVER_AGE_S - 5
    os.utime(temp / "old", (long_ago, long_ago))
    store = FileObjectStore(tmp_path)
    assert files_in(tmp_path) == [".tmp/young"]
    assert await store.find("") == []
    await store.aclose()


async def test_two_stores_share_one_root(tmp_path: Path) -> None:
    stores = [FileObjectStore(tmp_path), FileObjectStore(tmp_path)]
    results = await asyncio.gather(
        *(store.put_new("ns/a", [BIG]) for store in stores * 4), return_exceptions=True
    )
    assert results.count(None) == 1
    assert all(isinstance(result, ObjectExists) for result in results if result is not None)
    for store in stores:
        await store.aclose()


async def test_puts_survive_their_folder_being_removed_as_empty(tmp_path: Path) -> None:
    store = FileObjectStore(tmp_path, fsync=True)  # with fsync all of it runs in threads

    async def come_and_go(number: int) -> None:
        for _ in range(20):
            await store.put_new(f"ns/topic/{number % 2}/{number}", [b"x"])
            await store.delete([f"ns/topic/{number % 2}/{number}"])

    await asyncio.gather(*(come_and_go(number) for number in range(8)))
    assert not (tmp_path / "ns").exists()
    await store.aclose()


async def test_fsync_reaches_the_file_before_the_link_and_the_folders_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileObjectStore(tmp_path, fsync=True)
    events: list[str] = []
    fsync, link = os.fsync, os.link

    def noted_fsync(target: int) -> None:
        name = os.readlink(f"/proc/self/fd/{target}").removeprefix(str(tmp_path))
        events.append("temp" if name.startswith("/.tmp") else f"folder {name}")
        fsync(target)

    def noted_link(source: str, target: str) -> None:
        link(source, target)
        events.append("link")

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "link", noted_link)
    await store.put_new("a/b/c", [b"x"])
    assert events == ["temp", "folder ", "folder /a", "link", "folder /a/b"]
    await store.aclose()


async def test_a_listing_asks_for_the_facts_of_no_file_outside_its_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileObjectStore(tmp_path)
    for name in ("0", "1", "2", "3", "4", "1x/deep", "4x/deep"):
        await store.put_new(f"ns/{name}", [b"x"])
    asked: list[str] = []
    scanned: list[str] = []
    lstat, scandir = os.lstat, os.scandir

    def noted_lstat(path: str) -> os.stat_result:
        asked.append(path.removeprefix(f"{tmp_path}/"))
        return lstat(path)

    def noted_scandir(path: str) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        scanned.append(path.removeprefix(f"{tmp_path}/"))
        return scandir(path)

    monkeypatch.setattr(os, "lstat", noted_lstat)
    monkeypatch.setattr(os, "scandir", noted_scandir)
    rows = await store.find("ns", after="ns/2", before="ns/4")
    assert [row.key for row in rows] == ["ns/3"]
    assert (asked, scanned) == (["ns/3"], ["ns/"])
    asked.clear()
    rows = await store.find("ns", after="ns/0", limit=2)
    assert [row.key for row in rows] == asked == ["ns/1", "ns/1x/deep"]
    await store.aclose()


async def test_a_folder_is_not_an_object(tmp_path: Path) -> None:
    store = FileObjectStore(tmp_path)
    await store.put_new("a/b/c", [b"x"])
    with pytest.raises(ObjectExists):
        await store.put_new("a/b", [b"x"])
    with pytest.raises(StoreRefused):
        await store.put_new("a/b/c/d", [b"x"])
    assert [row.key for row in await store.find("")] == ["a/b/c"]
    await store.aclose()


async def test_objects_are_there_when_the_folder_is_opened_again(tmp_path: Path) -> None:
    first = FileObjectStore(tmp_path)
    await first.put_new("ns/a", [BIG])
    await first.aclose()
    second = FileObjectStore(tmp_path)
    assert bytes(await second.read("ns/a")) == BIG
    await second.aclose()


WRITER = """
import asyncio, sys
from pathlib import Path
from kafscale.objects.files import FileObjectStore

async def write_without_end() -> None:
    store = FileObjectStore(Path(sys.argv[1]))
    for number in range(1_000_000):
        body = [bytes([number % 251]) * 50_000] * 40
        await store.put_new(f"ns/{number:06d}", body)
        print(number, flush=True)

asyncio.run(write_without_end())
"""


async def test_a_process_killed_while_writing_leaves_whole_objects_only(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
    with writer:
        assert writer.stdout is not None
        while int(writer.stdout.readline()) < 20:
            pass
        writer.kill()
        acknowledged = 20 + len(writer.stdout.read().split(b"\n")[:-1])
    store = FileObjectStore(tmp_path)
    rows = await store.find("ns")
    assert len(rows) > acknowledged
    for number, row in enumerate(rows):
        assert row.key == f"ns/{number:06d}"
        assert bytes(await store.read(row.key)) == bytes([number % 251]) * 2_000_000
    await store.aclose()


async def test_a_place_that_was_emptied_still_has_a_clock(tmp_path: Path) -> None:
    store = FileObjectStore(tmp_path / "place")
    before = await store.now_ms()
    shutil.rmtree(tmp_path / "place")
    assert await store.now_ms() >= before
    await store.aclose()


async def test_an_object_found_to_exist_is_on_the_disk_before_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be our own, whose folder could not be synced; or of a process that died before."""
    store = FileObjectStore(tmp_path, fsync=True)
    fsync, synced, faults = os.fsync, [], [OSError(errno.EIO, "planned")]

    def noted(target: int) -> None:
        folder = os.readlink(f"/proc/self/fd/{target}")
        if folder.endswith("/0"):
            if faults:
                raise faults.pop()
            synced.append(folder)
        fsync(target)

    monkeypatch.setattr(os, "fsync", noted)
    with pytest.raises(StoreUnavailable):
        await store.put_new("t/0/a", [b"x"])
    with pytest.raises(ObjectExists):
        await store.put_new("t/0/a", [b"x"])
    assert synced == [str(tmp_path / "t/0")]
    await store.aclose()


async def test_an_object_is_as_old_as_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleting goes by ages: what took long to be written, or slept on the way, is young."""
    store, write = FileObjectStore(tmp_path), files._write

    def slowly(path: str, body: Sequence[bytes], fsync: bool) -> None:
        write(path, body, fsync)
        an_hour_ago = os.stat(path).st_mtime - 3600
        os.utime(path, (an_hour_ago, an_hour_ago))

    monkeypatch.setattr(files, "_write", slowly)
    began_ms = await store.now_ms()
    await store.put_new("a/b", [b"x"])
    (row,) = await store.find("a")
    assert row.modified_ms >= began_ms
    await store.aclose()


def _not_in_the_page_cache(source: int, into: Sequence[bytearray], at: int, flags: int) -> int:
    raise BlockingIOError(errno.EAGAIN, "would wait for the disk")


def _partly_in_the_page_cache(source: int, into: Sequence[bytearray], at: int, flags: int) -> int:
    return len(into[0]) // 2


def _not_told_by_this_file_system(
    source: int, into: Sequence[bytearray], at: int, flags: int
) -> int:
    raise OSError(errno.EOPNOTSUPP, "Operation not supported")


def _all_in_the_page_cache(source: int, into: Sequence[bytearray], at: int, flags: int) -> int:
    into[0][:] = os.pread(source, len(into[0]), at)
    return len(into[0])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what the page cache holds")
@pytest.mark.parametrize(
    ("kernel", "body", "takes_a_thread"),
    [
        (_all_in_the_page_cache, b"small", False),
        (_all_in_the_page_cache, BIG, False),
        (_all_in_the_page_cache, bytes(CACHED_BYTES + 2), True),
        (_not_in_the_page_cache, b"small", True),
        (_partly_in_the_page_cache, BIG, True),
        (_not_told_by_this_file_system, b"small", False),
        (_not_told_by_this_file_system, BIG, True),
    ],
)
async def test_a_thread_reads_what_the_event_loop_would_have_to_wait_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kernel: Callable[[int, Sequence[bytearray], int, int], int],
    body: bytes,
    takes_a_thread: bool,
) -> None:
    store, readers = FileObjectStore(tmp_path), []
    read_range = files._read_range

    def noted(source: int, start: int, length: int) -> memoryview:
        readers.append(threading.current_thread())
        return read_range(source, start, length)

    await store.put_new("a/b", [body])
    monkeypatch.setattr(os, "preadv", kernel)
    monkeypatch.setattr(files, "_read_range", noted)
    assert bytes(await store.read("a/b")) == body
    assert bytes(await store.read("a/b", 1, len(body) - 1)) == body[1:]
    assert (readers[:1] not in ([], [threading.main_thread()])) == takes_a_thread
    await store.aclose()


async def test_symbolic_links_below_the_folder_are_refused(tmp_path: Path) -> None:
    root, outside = tmp_path / "data", tmp_path / "outside"
    (outside / "topic").mkdir(parents=True)
    (outside / "topic/secret").write_bytes(b"secret")
    store = FileObjectStore(root)
    await store.put_new("ns/a", [b"ours"])
    (root / "linked").symlink_to(outside)
    (root / "ns/file").symlink_to(outside / "topic/secret")
    for refused in (
        store.read("linked/topic/secret"),
        store.read("ns/file"),
        store.read("ns/file", 0, 3),
        store.put_new("linked/topic/new", [b"x"]),
        store.put_new("linked/new", [BIG]),
        store.delete(["linked/topic/secret"]),
        store.find("ns"),
        store.find("linked/topic"),
        store.folders(""),
        store.folders("linked"),
    ):
        with pytest.raises(StoreRefused, match="is a symbolic link"):
            await refused
    assert bytes(await store.read("ns/a")) == b"ours"
    assert [path.name for path in outside.rglob("*")] == ["topic", "secret"]
    await store.aclose()


async def test_the_data_folder_itself_may_be_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    store = FileObjectStore(tmp_path / "data")
    await store.put_new("ns/topic/0/a", [b"x"])
    assert [found.key for found in await store.find("ns")] == ["ns/topic/0/a"]
    await store.aclose()


async def test_a_folder_that_was_dropped_is_looked_at_again(tmp_path: Path) -> None:
    root, outside = tmp_path / "data", tmp_path / "outside"
    outside.mkdir()
    store = FileObjectStore(root)
    await store.put_new("ns/topic/a", [b"x"])
    await store.delete(["ns/topic/a"])
    (root / "ns").symlink_to(outside)
    with pytest.raises(StoreRefused, match="is a symbolic link"):
        await store.put_new("ns/a", [b"x"])
    await store.aclose()


def test_temporary_files_are_not_written_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/.tmp").symlink_to(tmp_path)
    with pytest.raises(StoreRefused, match="is a symbolic link"):
        FileObjectStore(tmp_path / "data")
