"""Jobs on logs that topics share: they keep each topic's rules and touch no other topic."""

import random
from pathlib import Path

import msgspec
import pytest

from kafscale.log.catalog.descriptors import Descriptors
from kafscale.log.formats import keys, manifest, places
from kafscale.log.protocol import commits
from kafscale.model.topics import Move, TopicDescriptor
from kafscale.objects.store import ObjectStore
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs import retain
from kafscale.spark.jobs.audit import audit, claimed_twice
from kafscale.spark.jobs.compact import compact
from kafscale.spark.jobs.compaction import commit_waves
from kafscale.spark.jobs.compaction.by_key import compact_by_key
from kafscale.spark.jobs.logs import removal
from kafscale.spark.jobs.stats import gather
from tests.unit.spark.jobs.place import local
from tests.unit.spark.shared import Owner, SharedNamespace

GONE, ALIVE = "gone", "alive"
BIG = b"x" * 500


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_waves, "run_units", local)


@pytest.fixture
def shared(tmp_path: Path) -> SharedNamespace:
    return SharedNamespace(tmp_path)


def context(shared: SharedNamespace, *topics: str, dry_run: bool = False) -> Context:
    return Context(shared.bucket, topics, dry_run, session=object())  # type: ignore[arg-type]


def run(shared: SharedNamespace, *topics: str, dry_run: bool = False, **how: float) -> Report:
    how = {"grace_s": 0, "tail_idle_s": 1000, **how}
    return retain.retain(context(shared, *topics, dry_run=dry_run), **how)  # type: ignore[arg-type]


def filled(shared: SharedNamespace, *, merge: bool = False, flushes: int = 6) -> None:
    """Two topics in the same objects, the first with most of the bytes."""
    shared.create(GONE, 2)
    shared.create(ALIVE, 4, retention_ms="-1")
    shared.write(
        [
            {(GONE, n): [(b"g", BIG * 4)] for n in range(2)}
            | {(ALIVE, n): [(b"a%d" % turn, BIG)] for n in range(4)}
            for turn in range(flushes)
        ],
        merge=merge,
    )


# -- deleted topics --------------------------------------------------------------------------


@pytest.mark.parametrize("merge", [False, True])
def test_a_deleted_neighbour_goes_and_the_living_stay_byte_for_byte(
    shared: SharedNamespace, merge: bool
) -> None:
    filled(shared, merge=merge)
    before, size = shared.raw(ALIVE), shared.stored_bytes()
    shared.delete(GONE)
    for _ in range(3):
        run(shared)
        assert shared.raw(ALIVE) == before
        assert [shared.pairs(ALIVE, n) for n in range(4)] == [
            shared.written[ALIVE, n] for n in range(4)
        ]
    assert shared.stored_bytes() < size * 0.6, "its bytes are gone"
    for log in range(2):
        past = shared.manifest(log)
        mark = past.lanes[0]  # slots 0 and 1 were the first topic's
        assert mark.start == mark.next == 6
        assert all(span.lane != 0 for entry in past.segments for span in entry.spans())
    assert run(shared).facts["objects_written"] == 0
    assert audit(context(shared)).exit_code == 0


def test_an_object_with_little_of_a_deleted_topic_is_rewritten_too(shared: SharedNamespace) -> None:
    shared.create(GONE, 1)
    shared.create(ALIVE, 3)
    shared.write([{(GONE, 0): [(None, b"1")]} | {(ALIVE, n): [(None, BIG)] for n in range(3)}])
    before = shared.raw(ALIVE)
    shared.delete(GONE)
    assert run(shared, dry_run=True).facts["objects_to_rewrite"] == 1
    assert run(shared).facts["objects_written"] == 1
    assert shared.raw(ALIVE) == before


def test_nothing_ends_before_the_grace_period_or_when_topics_are_named(
    shared: SharedNamespace,
) -> None:
    filled(shared)
    shared.delete(GONE)
    past = [shared.manifest(log) for log in range(2)]
    run(shared, grace_s=600)
    run(shared, ALIVE)
    assert [shared.manifest(log) for log in range(2)] == past


def test_the_name_s_next_topic_has_lanes_of_its_own(shared: SharedNamespace) -> None:
    filled(shared)
    old = shared.bucket.topic(GONE)
    shared.delete(GONE)
    shared.written = {place: rows for place, rows in shared.written.items() if place[0] != GONE}
    shared.create(GONE, 2)
    shared.write([{(GONE, n): [(b"new", b"1")] for n in range(2)}])
    before = shared.raw(GONE), shared.raw(ALIVE)
    run(shared)
    run(shared)
    assert (shared.raw(GONE), shared.raw(ALIVE)) == before
    assert shared.pairs(GONE, 1) == shared.written[GONE, 1]
    for log in range(2):
        lanes = {span.lane for e in shared.manifest(log).segments for span in e.spans()}
        assert not lanes_of_place(old, shared.folder(log)) & lanes, "those of the one before"


def test_a_lane_that_a_living_topic_claims_never_ends(shared: SharedNamespace) -> None:
    filled(shared)
    alive = shared.bucket.topic(ALIVE)
    liar = msgspec.structs.replace(
        alive, name="liar", folder="default/liar", partitions=4, deleted=True
    )
    shared.bucket.run(lambda store: Descriptors(store, "default").put(liar, 1))
    before = shared.raw(ALIVE)
    run(shared)
    run(shared)
    assert shared.raw(ALIVE) == before


def test_a_lane_that_no_topic_claims_is_left_alone(shared: SharedNamespace) -> None:
    """The lane may belong to a topic that a broker is creating: it has no descriptor yet."""
    filled(shared)
    made = shared.bucket.topic(GONE)
    shared.bucket.run(lambda store: store.delete([f"default/{GONE}/descriptor-{1:020d}"]))
    run(shared)
    shared.bucket.run(lambda store: Descriptors(store, "default").put(made, 1))
    assert [shared.pairs(GONE, n) for n in range(2)] == [shared.written[GONE, n] for n in range(2)]


def test_a_tombstone_with_own_logs_never_points_into_shared_ones(shared: SharedNamespace) -> None:
    filled(shared)
    odd = msgspec.structs.replace(
        shared.bucket.topic(GONE), name="odd", folder="default/@shared", logs=2, deleted=True,
        shared=[],
    )  # fmt: skip
    shared.bucket.run(lambda store: Descriptors(store, "default").put(odd, 1))
    before = shared.raw(ALIVE)
    assert removal.remove_deleted(context(shared), 0) == {}
    assert shared.raw(ALIVE) == before


def test_what_a_topic_leaves_when_it_moves_goes_and_where_it_goes_stays(
    shared: SharedNamespace,
) -> None:
    filled(shared)
    old = shared.bucket.topic(GONE)
    held = shared.create("spare", 2).shared
    shared.write([{("spare", n): [(b"copy", BIG)] for n in range(2)}])
    place = shared.bucket.topic("spare")
    shared.bucket.run(lambda store: store.delete([f"default/spare/descriptor-{1:020d}"]))
    move = Move(move_id="1", layout="shared", folder="default/gone@1", logs=0, shared=held)

    def put(version: int, topic: TopicDescriptor) -> None:
        assert shared.bucket.run(lambda store: Descriptors(store, "default").put(topic, version))

    moving = msgspec.structs.replace(old, moving=move)
    put(2, moving)
    before = shared.raw(ALIVE), shared.raw(GONE)
    run(shared)
    assert (shared.raw(ALIVE), shared.raw(GONE)) == before
    put(3, moving.after_move())
    copied = shared.raw(GONE)
    assert copied != before[1]
    run(shared, grace_s=600)
    assert removal.ended_lanes(context(shared), 600) == {}
    run(shared)
    run(shared)
    assert (shared.raw(ALIVE), shared.raw(GONE)) == (before[0], copied)
    for log in range(2):
        lanes = {span.lane for e in shared.manifest(log).segments for span in e.spans()}
        assert 0 not in lanes, "the old lane is gone"
        assert lanes_of_place(place, shared.folder(log)) <= lanes
    put(4, msgspec.structs.replace(moving.after_move(), deleted=True))
    run(shared)
    run(shared)
    assert shared.raw(ALIVE) == before[0]
    for log in range(2):
        lanes = {span.lane for e in shared.manifest(log).segments for span in e.spans()}
        assert not lanes_of_place(place, shared.folder(log)) & lanes


def lanes_of_place(topic: TopicDescriptor, folder: str) -> set[int]:
    return {place.lane for place in removal.lanes_of(topic) if place.folder == folder}


def test_homes_that_topics_have_left() -> None:
    def at(folder: str, *, to: str = "", deleted: bool = False) -> TopicDescriptor:
        move = Move(move_id="1", layout="virtual", folder=to, logs=1) if to else None
        return TopicDescriptor(
            name="t", topic_id="1", incarnation=1, folder=folder, partitions=1, logs=1,
            created_at="", moving=move, deleted=deleted,
        )  # fmt: skip

    def left(*versions: TopicDescriptor) -> dict[str, int]:
        rows = [(topic, 10 * number) for number, topic in enumerate(versions, 1)]
        return {home.folder: since for home, since in removal.old_homes(rows)}

    assert left(at("a"), at("a")) == {}
    assert left(at("a"), at("a", deleted=True), at("b")) == {"a": 20}
    assert left(at("a"), at("a", to="b"), at("a", to="b")) == {}
    assert left(at("a"), at("a", to="b"), at("b"), at("b")) == {"a": 30}
    assert left(at("a"), at("a", to="b"), at("a")) == {"b": 30}, "the move was given up"
    assert left(at("a"), at("a", to="b", deleted=True)) == {"a": 20, "b": 20}


def test_a_shared_log_without_any_living_topic_is_looked_after(shared: SharedNamespace) -> None:
    filled(shared)
    shared.delete(GONE)
    shared.delete(ALIVE)
    run(shared)
    run(shared)
    run(shared)
    assert [shared.manifest(log).segments for log in range(2)] == [[], []]
    assert shared.stored_bytes() == 0


# -- retention -------------------------------------------------------------------------------


def test_each_lane_goes_by_its_own_topic_s_retention(shared: SharedNamespace) -> None:
    shared.create("short", 2, retention_ms="1000")
    shared.create("small", 2, retention_ms="-1", retention_bytes="1200")
    shared.create("keeps", 2)
    shared.write(
        [{(topic, n): [(b"k", BIG)] for topic in ("short", "small", "keeps") for n in range(2)}] * 5
    )
    before = shared.raw("keeps")
    run(shared, "keeps")
    assert [len(shared.pairs("short", n)) for n in range(2)] == [5, 5], "another's limits"
    run(shared)
    run(shared)
    assert [shared.pairs("short", n) for n in range(2)] == [[], []]
    assert [len(shared.pairs("small", n)) for n in range(2)] == [3, 3]
    assert shared.raw("keeps") == before
    assert audit(context(shared)).exit_code == 0


# -- looking ---------------------------------------------------------------------------------


def test_an_audit_goes_through_each_shared_log_once(shared: SharedNamespace) -> None:
    filled(shared)
    report = audit(context(shared))
    assert (report.facts["topics"], report.facts["logs"], report.exit_code) == (2, 2, 0)
    assert report.facts["records"] == 6 * 6
    assert audit(context(shared, ALIVE)).facts["records"] == 6 * 6, "objects are whole or wrong"
    path = Path(shared.bucket.url.removeprefix("file://"))
    victim = next((path / shared.folder(0)).glob("segment-*.kfs"))
    body = bytearray(victim.read_bytes())
    body[120] ^= 1
    victim.write_bytes(body)
    assert audit(context(shared, GONE)).exit_code == 1


def test_two_topics_in_one_lane_are_found(shared: SharedNamespace) -> None:
    filled(shared)
    one = shared.bucket.topic(GONE)
    [first, *_] = claimed_twice([one, msgspec.structs.replace(one, name="other")])
    assert first.text == "lane 0 is other's and gone's"


def test_statistics_share_the_cost_of_objects_among_topics(shared: SharedNamespace) -> None:
    shared.create(GONE, 2)
    shared.create(ALIVE, 2)
    flush = {(topic, n): [(b"k", BIG)] for topic in (GONE, ALIVE) for n in range(2)}
    shared.write([flush] * 4, roll_up=False)
    found = gather(context(shared), sample_bytes=0)
    assert [topic.total("records") for topic in found.topics] == [8, 8]
    assert found.objects == len({key for topic in (GONE, ALIVE) for key in keys_of(shared, topic)})
    rates = [sum(one.flushes_per_day for one in topic.partitions) for topic in found.topics]
    assert sum(rates) == pytest.approx(found.objects), "each pays its share of each object"


def keys_of(shared: SharedNamespace, topic: str) -> set[str]:
    logs = shared.bucket.snapshots(shared.bucket.topic(topic))
    return {piece.key for log in logs for piece in log.pieces}


def test_by_key_only_the_lanes_of_topics_that_want_it(shared: SharedNamespace) -> None:
    shared.create("keyed", 2, cleanup_policy="compact", min_cleanable_dirty_ratio="0")
    shared.create("plain", 2)
    flush = {(topic, n): [(b"same", b"v")] for topic in ("keyed", "plain") for n in range(2)}
    shared.write([flush] * 5)
    before = shared.raw("plain")
    report = compact_by_key(context(shared), tail_idle_s=-1)
    assert [shared.pairs("keyed", n) for n in range(2)] == [[(4, b"same", b"v")]] * 2
    assert shared.raw("plain") == before
    assert sum(row["records_removed"] for row in report.rows) == 8
    assert compact_by_key(context(shared), tail_idle_s=-1).facts["objects_replaced"] == 0
    assert audit(context(shared)).exit_code == 0
    compact(context(shared), tail_idle_s=-1)
    assert shared.raw("plain") == before


# -- compaction ------------------------------------------------------------------------------


def lanes_of(shared: SharedNamespace, log: int) -> list[set[int]]:
    return [{span.lane for span in entry.spans()} for entry in shared.manifest(log).segments]


def test_compaction_gives_large_lanes_objects_of_their_own(shared: SharedNamespace) -> None:
    shared.create("large", 4)
    shared.create("small", 6)
    shared.write(
        [
            {("large", n): [(b"k", b"%d" % turn + BIG)] for n in range(4)}
            | {("small", n): [(b"k", b"%d" % turn)] for n in range(6)}
            for turn in range(10)
        ]
    )
    before = shared.raw("large"), shared.raw("small")
    plan = compact(context(shared, dry_run=True), target=8000, tail_idle_s=-1)
    report = compact(context(shared), target=8000, tail_idle_s=-1)
    assert (shared.raw("large"), shared.raw("small")) == before
    assert [lanes_of(shared, log) for log in range(2)] == [[{0}, {1}, {2, 3, 4}]] * 2
    assert report.facts["objects_written"] == plan.facts["objects_to_write"] / 2 == 6
    for log in range(2):
        past = shared.manifest(log)
        edges = [(entry.base, entry.end) for entry in past.segments]
        assert [first for first, _ in edges] == [0, *(end for _, end in edges[:-1])]
        assert edges[-1][1] == past.end == 50
    assert audit(context(shared)).exit_code == 0
    assert compact(context(shared), target=8000, tail_idle_s=-1).facts["objects_replaced"] == 0


def test_what_comes_later_is_joined_lane_by_lane_until_there_is_enough(
    shared: SharedNamespace,
) -> None:
    shared.create("t", 4)
    written = 0
    for turn in range(16):
        shared.write([{("t", n): [(b"k", BIG)] for n in range(4)}] * 2)
        report = compact(context(shared), target=4000, tail_idle_s=-1)
        written += report.facts["bytes_written"]
        assert [len(shared.pairs("t", n)) for n in range(4)] == [2 * turn + 2] * 4
    stored = sum(entry.size for log in range(2) for entry in shared.manifest(log).segments)
    assert written < 6 * stored, "a byte is copied a few times at most"
    objects = [entry for log in range(2) for entry in shared.manifest(log).segments]
    assert len(objects) < 24
    assert audit(context(shared)).exit_code == 0


@pytest.mark.parametrize("seed", range(6))
def test_whatever_jobs_do_every_topic_reads_what_was_written_to_it(
    shared: SharedNamespace, seed: int
) -> None:
    dice = random.Random(seed)
    names = ["a", "b", "c"]
    for name in names:
        shared.create(name, dice.randrange(1, 6))
    for _ in range(12):
        living = [topic for topic in shared.bucket.topics() if topic.name in names]
        flushes = [
            {
                (topic.name, partition): [(b"k", b"v" * dice.choice([1, 40, 900]))]
                for topic in living
                for partition in range(topic.partitions)
                if dice.random() < 0.6
            }
            for _ in range(dice.randrange(1, 5))
        ]
        shared.write(flushes, roll_up=dice.random() < 0.8, merge=dice.random() < 0.5)
        match dice.randrange(5):
            case 0:
                compact(context(shared), target=dice.choice([700, 3000, 9000]), tail_idle_s=0)
            case 1:
                run(shared, dead_share=dice.choice([0.1, 0.5]), tail_idle_s=0)
            case 2 if len(names) > 1:
                name = names.pop()
                shared.delete(name)
                shared.written = {
                    place: rows for place, rows in shared.written.items() if place[0] != name
                }
            case 3:
                name = dice.choice(names)
                compact(context(shared, name), target=3000, tail_idle_s=-1)
            case _:
                run(shared, dice.choice(names))
        for (name, partition), rows in shared.written.items():
            assert shared.pairs(name, partition) == rows
    assert audit(context(shared)).exit_code == 0


def test_a_lane_with_a_hole_is_not_joined_over_it(shared: SharedNamespace) -> None:
    shared.create("t", 1)
    shared.write([{("t", 0): [(b"k", BIG)]}] * 6)
    folder = shared.folder(0)

    async def lose_one(store: ObjectStore) -> None:
        past = await commits.read_newest(store, folder)
        holey = msgspec.structs.replace(
            past, generation=past.generation + 1, segments=past.segments[:2] + past.segments[3:]
        )
        await store.put_new(keys.manifest(folder, holey.generation), [manifest.encode(holey)])

    shared.bucket.run(lose_one)
    report = compact(context(shared), tail_idle_s=-1)
    assert report.exit_code == 1
    assert "lane 0 goes on at 3, after 1" in report.notes[0]


def test_jobs_and_an_owner_at_once_lose_nothing(shared: SharedNamespace) -> None:
    shared.logs = 1
    shared.create("busy", 1)
    shared.create("still", 2)
    shared.write([{("still", n): [(b"k", BIG)] for n in range(2)}] * 3)
    before = shared.raw("still")
    [place] = [place for _, place in places.each_place(shared.bucket.topic("busy"))]
    owner = Owner(shared.bucket, place.folder, place.lane)
    try:
        for turn in range(6):
            shared.create(f"brief-{turn}", 2)
            compact(context(shared), target=3000, tail_idle_s=0)
            shared.delete(f"brief-{turn}")
            run(shared, tail_idle_s=0, grace_s=60)  # a grace period that the owner relies on
            assert shared.raw("still") == before
    finally:
        owner.stop()
    assert len(owner.acknowledged) > 10
    assert [value for _, _, value in shared.pairs("busy", 0)] == owner.acknowledged
    assert audit(context(shared)).exit_code == 0
