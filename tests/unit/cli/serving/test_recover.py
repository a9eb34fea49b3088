"""What `kafscale recover` takes, refuses and prints."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kafscale.cli import main
from kafscale.cli.serving.recover import source_of
from kafscale.cli.terminal.errors import CommandError, UsageError
from kafscale.engine.coordinator.offsets import OffsetCommit
from kafscale.metadata import keys
from kafscale.metadata.embedded import EmbeddedMetadataStore, peek
from kafscale.metadata.store import MetadataStore, Put
from kafscale.objects.files import FileObjectStore
from kafscale.settings.config import Config
from kafscale.settings.loading import load
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker

Run = Callable[..., tuple[int, str, str]]


async def use(data: Path) -> None:
    """A broker runs on a data folder, and stops."""
    store = FileObjectStore(data / "objects")
    metadata = EmbeddedMetadataStore(data / "metadata.db", "OFF")
    async with InProcessBroker(config=FOR_TESTS, store=store, metadata=metadata) as broker:
        await broker.engine.topics.create("orders", 2, {"retention.ms": "1000"})
        await broker.engine.topics.create("gone", 1, {})
        await broker.engine.topics.delete("gone")
        await broker.engine.offsets.commit("g", [OffsetCommit("orders", 0, 5)])
    await metadata.aclose()
    await store.aclose()


async def change(file: Path, *writes: Put) -> None:
    metadata: MetadataStore = EmbeddedMetadataStore(file, "OFF")
    await metadata.commit(writes)
    await metadata.aclose()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder whose metadata file is lost."""
    folder = tmp_path / "data"
    folder.mkdir()
    asyncio.run(use(folder))
    (folder / "metadata.db").unlink()
    return folder


@pytest.fixture
def run(data: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main.main(["recover", "--data-dir", str(data), *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_person_is_told_what_was_written_and_as_of_when(run: Run, data: Path) -> None:
    code, out, err = run("--from-bucket")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[:4] == [
        "written:",
        "  topics   1 of 1, 2 logs read",
        "           1 names stay deleted, 1 removals noted again",
        "  groups   0, offsets 1",
    ]
    assert lines[4].startswith("           as of 20")
    assert "checkpoint 1 of cluster" in lines[4]
    assert lines[5:] == [
        "           1 beyond log end",
        "  next     producer-ids 10000000, epochs 1001",
    ]
    assert keys.group_offset("g", "orders", 0) in {
        entry.key for entry in peek(data / "metadata.db", "/kafscale/")
    }


def test_a_second_time_there_is_nothing_to_do(run: Run) -> None:
    assert run("--from-bucket")[0] == 0
    code, out, _ = run("--from-bucket")
    assert code == 0
    assert out.splitlines()[-1] == "nothing to do: the metadata store has all of it"


def test_a_program_is_told_the_same(run: Run) -> None:
    code, out, _ = run("--from-bucket", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["topics"] == {
        "found": 1,
        "written": 1,
        "deleted": 1,
        "taken_out": 0,
        "removals_noted": 1,
    }
    assert found["offsets"]["written"] == 1
    assert found["checkpoint"]["number"] == 1
    assert found["next"] == {"producer-ids": 10_000_000, "epochs": 1001}


def test_a_dry_run_writes_nothing_not_even_a_file(run: Run, data: Path) -> None:
    before = sorted(data.rglob("*"))
    code, out, _ = run("--from-bucket", "--dry-run")
    assert code == 0
    assert out.startswith("would write:\n  topics   1 of 1")
    assert sorted(data.rglob("*")) == before


def test_a_dry_run_leaves_a_store_that_is_there_as_it_is(run: Run, data: Path) -> None:
    asyncio.run(change(data / "metadata.db", Put("/kafscale/x", b"1")))
    assert run("--from-bucket", "--dry-run")[0] == 0
    assert [entry.key for entry in peek(data / "metadata.db", "")] == ["/kafscale/x"]


def test_a_store_with_topics_needs_force(run: Run, data: Path) -> None:
    row = keys.TopicRow(
        name="mine",
        partitions=1,
        retention_ms=1,
        retention_bytes=1,
        segment_bytes=1,
        created_at="",
        topic_id="0" * 32,
        folder="default/mine",
    )
    asyncio.run(change(data / "metadata.db", Put(keys.topic_config("mine"), keys.encode(row))))
    code, out, err = run("--from-bucket")
    assert (code, out) == (1, "")
    assert err.startswith("kafscale: the metadata store has 1 topics already; --force adds")
    assert len(peek(data / "metadata.db", "")) == 1
    code, out, _ = run("--from-bucket", "--force")
    assert code == 1  # one thing is odd, and everything is done
    assert "problem: topic mine: not in the bucket; left as it is" in out
    names = {keys.topic_named_by(entry.key) for entry in peek(data / "metadata.db", keys.TOPICS)}
    assert names == {"mine", "orders"}


def test_a_recovery_cut_short_is_finished_without_force(run: Run, data: Path) -> None:
    note = keys.encode(keys.Recovery(namespace="default", started_at=""))
    assert run("--from-bucket")[0] == 0
    asyncio.run(change(data / "metadata.db", Put(keys.RECOVERY, note)))
    assert run("--from-bucket")[0] == 0
    assert peek(data / "metadata.db", keys.RECOVERY) == []


def test_brokers_must_be_stopped_first(run: Run, data: Path) -> None:
    asyncio.run(change(data / "metadata.db", Put(keys.broker(3), b"{}")))
    code, _, err = run("--from-bucket")
    assert code == 1
    assert "1 brokers run on this metadata store: stop them" in err


def test_what_cannot_be_read_is_named(run: Run, data: Path) -> None:
    (data / "objects/default/orders/descriptor-00000000000000000007").write_bytes(b"nonsense")
    for file in (data / "objects/default/@checkpoints").iterdir():
        file.write_bytes(b"nonsense")
    code, out, _ = run("--from-bucket")
    assert code == 1
    assert "  groups   none: there is no checkpoint in the bucket that can be read" in out
    assert out.count("problem: ") == 2


def test_where_from_must_be_said(run: Run) -> None:
    code, _, err = run()
    assert code == 2
    assert "--from-bucket" in err


def test_objects_in_memory_cannot_be_recovered_from(run: Run) -> None:
    code, _, err = run("--from-bucket", "--memory")
    assert code == 1
    assert "cannot be seen from outside" in err


def config(**flags: object) -> Config:
    return load(None, {}, flags)


def test_a_url_names_a_bucket_and_a_namespace() -> None:
    given = config(**{"storage.namespace": "mine", "broker.dataDir": "/d"})
    found = source_of(given, "s3://there/tenant/ns")
    assert (found.s3.bucket, found.storage.namespace) == ("there", "tenant/ns")
    assert source_of(given, "s3://there").storage.namespace == "mine"
    assert source_of(given, None) is given


def test_a_url_names_a_folder_of_objects_or_the_one_above(tmp_path: Path) -> None:
    (tmp_path / "a b/objects").mkdir(parents=True)
    given = config(**{"s3.bucket": "mine"})
    for url in (f"{tmp_path}/a b", f"file://{tmp_path}/a%20b/objects"):
        found = source_of(given, url)
        assert (found.broker.data_dir, found.s3.bucket) == (f"{tmp_path}/a b", None)
    with pytest.raises(CommandError, match="no broker has kept objects"):
        source_of(given, str(tmp_path))


@pytest.mark.parametrize("url", ["gs://bucket", "s3://", "file://host/path"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(UsageError, match="expected s3://bucket/namespace or a folder"):
        source_of(config(), url)
