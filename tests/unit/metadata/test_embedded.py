"""What is special about the embedded store: one file, one process."""

import os
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.metadata.store import Put
from kafscale.model.errors import MetadataConflict, MetadataUnavailable
from kafscale.testing.clock import ManualClock

HOLDER = """
import sys
from pathlib import Path
from kafscale.metadata.embedded import EmbeddedMetadataStore
store = EmbeddedMetadataStore(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_told_who_uses_the_file(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(MetadataUnavailable, match=rf"in use by process {holder.pid}\b"):
            EmbeddedMetadataStore(path)
        holder.kill()


async def test_a_killed_process_leaves_no_lock_behind(tmp_path: Path) -> None:
    test_a_second_process_is_told_who_uses_the_file(tmp_path)
    store = EmbeddedMetadataStore(tmp_path / "metadata.sqlite")
    assert await store.find("") == []
    await store.aclose()


async def test_a_second_store_in_the_same_process_is_kept_out_until_the_first_is_closed(
    tmp_path: Path,
) -> None:
    first = EmbeddedMetadataStore(tmp_path / "metadata.sqlite")
    with pytest.raises(MetadataUnavailable, match=str(os.getpid())):
        EmbeddedMetadataStore(tmp_path / "metadata.sqlite")
    await first.aclose()
    second = EmbeddedMetadataStore(tmp_path / "metadata.sqlite")
    await second.aclose()


async def test_a_file_that_is_no_database_is_refused_and_not_held(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    path.write_bytes(b"this is a letter to a friend, not a database" * 50)
    for _ in range(2):
        with pytest.raises(MetadataUnavailable, match="not a database"):
            EmbeddedMetadataStore(path)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(MetadataUnavailable, match="file"):
        EmbeddedMetadataStore(tmp_path / "file" / "metadata.sqlite")


@pytest.mark.parametrize(("mode", "number"), [("OFF", 0), ("NORMAL", 1), ("FULL", 2), ("EXTRA", 3)])
async def test_the_synchronous_setting_reaches_the_database(
    tmp_path: Path, mode: str, number: int
) -> None:
    store = EmbeddedMetadataStore(tmp_path / "metadata.sqlite", mode)
    assert store._writer.execute("PRAGMA synchronous").fetchone() == (number,)
    assert store._writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    await store.aclose()


def test_a_misspelt_synchronous_setting_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="NORMAL"):
        EmbeddedMetadataStore(tmp_path / "metadata.sqlite", "normal")


async def test_a_full_disk_is_reported_and_survived(tmp_path: Path) -> None:
    store = EmbeddedMetadataStore(tmp_path / "metadata.sqlite")
    version = await store.commit([Put("/a", b"1")])
    pages = store._writer.execute("PRAGMA page_count").fetchone()[0]
    store._writer.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(MetadataUnavailable, match="full"):
        await store.commit([Put("/b", b"x" * 100_000)])
    assert await store.find("") == [("/a", b"1", version)]
    store._writer.execute("PRAGMA max_page_count = 1000000")
    assert await store.commit([Put("/b", b"x" * 100_000)]) == version + 1
    await store.aclose()


LEASED = """
import asyncio, os, sys
from pathlib import Path
from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.metadata.store import Put
from kafscale.system import SystemClock

async def die_with_a_lease() -> None:
    store = EmbeddedMetadataStore(Path(sys.argv[1]), clock=SystemClock())
    lease = await store.lease(3600.0)
    await store.commit([Put("/mine", b"1", lease.id), Put("/all", b"1")])
    os._exit(9)

asyncio.run(die_with_a_lease())
"""


async def test_what_a_killed_process_held_under_a_lease_goes_when_the_next_one_comes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "metadata.sqlite"
    assert subprocess.run([sys.executable, "-c", LEASED, str(path)], check=False).returncode == 9
    store = EmbeddedMetadataStore(path)
    assert [entry.key for entry in await store.find("")] == ["/all"]
    await store.aclose()


async def test_a_process_that_stood_still_has_lost_its_lease(tmp_path: Path) -> None:
    clock = ManualClock()
    store = EmbeddedMetadataStore(tmp_path / "metadata.sqlite", clock=clock)
    lease = await store.lease(0.1)
    await store.commit([Put("/mine", b"1", lease.id)])
    clock.advance_ms(100)
    with pytest.raises(MetadataConflict, match="lost"):
        await store.commit([Put("/more", b"1", lease.id)])
    async with aclosing(store.watch("/")) as watch:
        await lease.lost()
        while await store.get("/mine") is not None:
            await anext(watch)
    await store.aclose()


async def test_a_store_without_a_clock_has_no_leases(tmp_path: Path) -> None:
    store = EmbeddedMetadataStore(tmp_path / "metadata.sqlite")
    with pytest.raises(ValueError, match="clock"):
        await store.lease(1.0)
    await store.aclose()
