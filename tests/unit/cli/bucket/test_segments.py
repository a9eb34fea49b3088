"""What `kafscale segments` prints."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from kafscale.admin.bucket import topic_lookup
from kafscale.cli import main
from kafscale.cli.bucket import segments
from kafscale.log.catalog import checkpoints
from kafscale.log.formats import checkpoint, keys
from kafscale.metadata import keys as metadata_keys
from kafscale.objects.store import ObjectStore
from kafscale.settings.config import Config
from kafscale.testing.clock import SeededDice
from tests.unit.admin.bucket_builder import LOG, TopicInMemory

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
async def topic() -> TopicInMemory:
    topic = TopicInMemory()
    await topic.describe()
    await topic.commit(1, 10, await topic.rewrite(0, 5, 5))
    await topic.flush(10, 2, 3)
    return topic


@pytest.fixture
def run(
    topic: TopicInMemory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    @asynccontextmanager
    async def opened(config: Config) -> AsyncIterator[ObjectStore]:
        yield topic.store

    monkeypatch.setattr(topic_lookup, "opened", opened)

    def run(*words: str) -> tuple[int, str, str]:
        code = main.main(["segments", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_list_shows_one_line_per_segment(run: Run) -> None:
    code, out, _ = run("list", "orders")
    lines = [line.split() for line in out.splitlines()]
    assert code == 0
    assert lines[0] == ["log", "kind", "first", "last", "records", "bytes", "written", "key"]
    assert [line[:5] for line in lines[1:]] == [
        ["0", "history", "0", "9", "10"],
        ["0", "flush", "10", "14", "5"],
    ]
    assert lines[2][6:] == ["2023-11-14T22:13:20.000Z", keys.segment(LOG, 10)]


def test_list_as_json_is_one_line_per_segment(run: Run) -> None:
    rows = [json.loads(line) for line in run("list", "orders", "--json")[1].splitlines()]
    assert [(row["kind"], row["first"], row["last"]) for row in rows] == [
        ("history", 0, 9),
        ("flush", 10, 14),
    ]


def test_inspect_shows_the_batches_of_a_segment(run: Run) -> None:
    code, out, _ = run("inspect", keys.segment(LOG, 10))
    assert code == 0
    assert "  created  2023-11-14T22:13:20.000Z\n" in out
    rows = [line.split() for line in out.splitlines()][-2:]
    assert [(row[2], row[3], row[6], row[-1]) for row in rows] == [
        ("10", "11", "none", "ok"),
        ("12", "14", "none", "ok"),
    ]


def test_inspect_as_json_holds_the_same(run: Run) -> None:
    facts = json.loads(run("inspect", keys.segment(LOG, 10), "--json")[1])
    assert (facts["records"], facts["token"]) == (5, "00000007")
    assert [row["records"] for row in facts["batches"]] == [2, 3]
    assert facts["batches"][0]["producer"] is None


def test_inspect_reads_indexes_manifests_and_descriptors(run: Run) -> None:
    key = keys.index_of(f"{LOG}/{keys.rewritten_name(0, 1, 9)}")
    entries = json.loads(run("inspect", key, "--json")[1])["entries"]
    assert [entry["offset"] for entry in entries] == [0, 5]
    assert "lane  offset  byte" in run("inspect", key)[1]
    assert json.loads(run("inspect", keys.manifest(LOG, 1))[1])["end"] == 10
    described = run("inspect", keys.descriptor("default/orders", 1), "--json")[1]
    assert json.loads(described)["name"] == "orders"


async def take_checkpoint(topic: TopicInMemory) -> str:
    """One whose groups are in a part and whose numbers are in the head; gives its key."""
    member = metadata_keys.GroupMemberRow(
        client_id="c",
        client_host="h",
        heartbeat_at="now",
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
    )
    group = metadata_keys.GroupRow(
        group_id="a/b",
        state="Stable",
        protocol_type="consumer",
        protocol="range",
        leader="m",
        generation_id=4,
        members={"m": member},
    )
    offset = metadata_keys.CommittedOffset(offset=7, committed_at="2023-11-14T22:13:20Z")
    rows = {
        metadata_keys.group_metadata("a/b"): metadata_keys.encode(group),
        metadata_keys.group_offset("a/b", "orders", 2): metadata_keys.encode(offset),
        metadata_keys.group_offset("alone", "orders", 0): metadata_keys.encode(offset),
        metadata_keys.group_offset("broken", "orders", 0): b'{"offset":"seven"}',
    }
    part = checkpoints.PartBlocks()
    found = [checkpoint.row(key, value) for key, value in rows.items()]
    part.add(checkpoint.encode_rows(found), len(found))
    mark = metadata_keys.encode(metadata_keys.Mark(next=1000))
    head = checkpoint.CheckpointHead(
        number=3,
        created_ms=1_700_000_000_000,
        author="broker 1",
        cluster_id="ours",
        groups=2,
        offsets=2,
        rows=[checkpoint.row(metadata_keys.PRODUCER_IDS, mark)],
    )
    assert await checkpoints.write(topic.store, "default", head, [part], SeededDice(1))
    return keys.checkpoint("default", 3)


async def test_inspect_shows_who_had_committed_what_in_a_checkpoint(
    topic: TopicInMemory, run: Run
) -> None:
    key = await take_checkpoint(topic)
    code, out, _ = await asyncio.to_thread(run, "inspect", key)
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["checkpoint", key]
    assert ["number", "3"] in lines
    assert ["taken", "2023-11-14T22:13:20.000Z"] in lines
    assert ["next", "of", "producer-ids", "1000"] in lines
    assert ["a/b", "Stable", "4", "1"] in lines
    assert ["a/b", "orders", "2", "7", "2023-11-14T22:13:20Z", "-"] in lines


async def test_inspect_as_json_holds_all_of_a_checkpoint(topic: TopicInMemory, run: Run) -> None:
    key = await take_checkpoint(topic)
    found = json.loads((await asyncio.to_thread(run, "inspect", key, "--json"))[1])
    assert (found["number"], found["author"], found["cluster"]) == (3, "broker 1", "ours")
    assert [row["group"] for row in found["groups"]] == ["a/b", "alone", "broken"]
    assert [(row["group"], row["offset"]) for row in found["offsets"]] == [("a/b", 7), ("alone", 7)]
    assert found["marks"] == {"producer-ids": 1000}
    broken = metadata_keys.group_offset("broken", "orders", 0)
    assert found["others"] == {broken: {"offset": "seven"}}  # as it is


async def test_inspect_reads_a_part_alone_and_says_when_it_is_missing(
    topic: TopicInMemory, run: Run
) -> None:
    key = await take_checkpoint(topic)
    [part] = [row.key for row in await topic.store.find("default/@checkpoints") if row.key != key]
    found = json.loads((await asyncio.to_thread(run, "inspect", part, "--json"))[1])
    assert (found["number"], len(found["offsets"]), found["marks"]) == (3, 2, {})
    await topic.store.delete([part])
    code, out, err = await asyncio.to_thread(run, "inspect", key)
    assert (code, out) == (1, "")
    assert "not whole" in err


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (keys.segment(LOG, 99), "no such object"),
        ("../etc/passwd", "../etc/passwd"),
    ],
)
def test_inspect_refuses_what_is_no_object(run: Run, key: str, words: str) -> None:
    code, out, err = run("inspect", key)
    assert (code, out) == (1, "")
    assert words in err
    assert "unexpected" not in err


def test_verify_of_a_sound_topic_says_so(run: Run) -> None:
    code, out, _ = run("verify", "orders")
    assert code == 0
    assert out.startswith("orders: 1 logs, 2 segments, 15 records, ")
    assert out.endswith("all sound\n")
    told = json.loads(run("verify", "orders", "--json")[1])
    assert (told["records"], told["problems"]) == (15, [])


async def test_verify_of_a_broken_topic_names_the_object_and_fails(
    topic: TopicInMemory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @asynccontextmanager
    async def opened(config: Config) -> AsyncIterator[ObjectStore]:
        yield topic.store

    monkeypatch.setattr(topic_lookup, "opened", opened)
    key = keys.segment(LOG, 10)
    await topic.spoil(key, 120, 0xA5)
    args = main.Parser()
    segments.add_arguments(args)
    parsed = args.parse_args(["verify", "orders"])
    assert await segments._verify(parsed, Config()) == 1
    out = capsys.readouterr().out
    assert f"{key}: the checksum over the segment's batches does not match\n" in out
    assert "1 problems" in out


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [(0, "1970-01-01T00:00:00.000Z"), (1700000000123, "2023-11-14T22:13:20.123Z"),
     (-1, None), (None, None), (2**62, None)],
)  # fmt: skip
def test_times_are_written_for_people(timestamp_ms: int | None, text: str | None) -> None:
    assert segments.iso(timestamp_ms) == text
