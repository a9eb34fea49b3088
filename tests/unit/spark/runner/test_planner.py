"""What is due, in which order, and whose it is. Time is an argument; nothing is started."""

from hypothesis import given
from hypothesis import strategies as st

from kafscale.model.topics import TopicDescriptor
from kafscale.spark.runner import planner
from kafscale.spark.runner.planner import (
    AUDIT,
    COMPACT,
    COMPACT_BY_KEY,
    EXPORT,
    RETAIN,
    SHARED,
    TABLE_UPKEEP,
    Past,
    PlannedWork,
    Rhythm,
    due_work,
    mine,
    works_of,
)

MINUTE = 60_000
NOW = 1_000 * MINUTE


def topic(name: str, layout: str = "ordinary", **configs: str) -> TopicDescriptor:
    return TopicDescriptor(
        name=name,
        topic_id="0" * 32,
        incarnation=1,
        folder=f"default/{name}",
        partitions=1,
        logs=1,
        layout=layout,  # type: ignore[arg-type]
        configs={key.replace("_", "."): value for key, value in configs.items()},
        created_at="2026-01-01T00:00:00Z",
    )


def export(subject: str, every_ms: int = MINUTE, priority: int = 0) -> PlannedWork:
    return PlannedWork(EXPORT, subject, (subject,), every_ms, priority)


def subjects(works: list[planner.DueWork]) -> list[str]:
    return [due.work.subject for due in works]


def test_a_topic_without_a_table_is_never_exported() -> None:
    assert {work.kind for work in works_of([topic("plain")], Rhythm())} == {COMPACT, RETAIN, AUDIT}


def test_a_topic_says_how_fresh_its_table_is_to_be_and_how_important() -> None:
    declared = topic("a", table_format="delta", table_freshness_ms="5000", table_priority="7")
    works = {work.kind: work for work in works_of([declared], Rhythm())}
    assert works[EXPORT] == PlannedWork(EXPORT, "a", ("a",), 5000, 7)
    assert works[TABLE_UPKEEP].topics == ("a",)


def test_compacted_topics_are_compacted_by_key() -> None:
    works = works_of([topic("a", cleanup_policy="compact,delete")], Rhythm())
    assert COMPACT_BY_KEY in {work.kind for work in works}


def test_topics_that_share_logs_are_maintained_together_and_exported_apart() -> None:
    topics = [
        topic("a", "shared", table_format="delta"),
        topic("b", "shared", table_format="parquet"),
    ]
    works = works_of(topics, Rhythm())
    assert [work.subject for work in works if work.kind == EXPORT] == ["a", "b"]
    assert [work.topics for work in works if work.kind == COMPACT] == [("a", "b")]
    assert {work.subject for work in works if work.kind == RETAIN} == {SHARED}


def test_tables_of_a_group_are_exported_together_as_often_as_the_freshest_asks() -> None:
    topics = [
        topic("b", table_format="delta", table_group="shop", table_freshness_ms="9000"),
        topic("a", table_format="delta", table_group="shop", table_priority="3"),
    ]
    (work,) = (work for work in works_of(topics, Rhythm()) if work.kind == EXPORT)
    assert work == PlannedWork(EXPORT, "@shop", ("a", "b"), 9000, 3)


def test_work_that_is_switched_off_does_not_come() -> None:
    assert works_of([topic("a")], Rhythm({COMPACT: 0})) == []


def test_an_export_never_done_is_due_at_once_and_maintenance_is_spread_out() -> None:
    names = [f"t{at}" for at in range(200)]
    works = works_of([topic(name, table_format="delta") for name in names], Rhythm())
    due = due_work(works, {}, set(), NOW, since_ms=NOW)
    assert {work.work.kind for work in due} == {EXPORT}
    hour = due_work(works, {}, set(), NOW + 60 * MINUTE, since_ms=NOW)
    retained = [work for work in hour if work.work.kind == RETAIN]
    assert len(retained) == 200
    half = due_work(works, {}, set(), NOW + 30 * MINUTE, since_ms=NOW)
    assert 50 < len([work for work in half if work.work.kind == RETAIN]) < 150


def test_exports_begin_before_their_promise_breaks_and_earlier_where_they_take_long() -> None:
    work = export("a")
    quick = {work.key: Past(NOW, NOW, took_ms=100)}
    slow = {work.key: Past(NOW, NOW, took_ms=20_000)}
    assert planner.begin_of(work, quick, 0) == NOW + MINUTE * 3 // 4
    assert planner.begin_of(work, slow, 0) == NOW + 20_000
    assert planner.deadline_of(work, slow, 0) == NOW + MINUTE


def test_higher_priority_goes_first_then_the_promise_that_breaks_first() -> None:
    works = [export("late"), export("early"), export("vip", priority=1)]
    past = {
        ("export", "late"): Past(NOW - MINUTE),
        ("export", "early"): Past(NOW - 2 * MINUTE),
        ("export", "vip"): Past(NOW - MINUTE),
    }
    assert subjects(due_work(works, past, set(), NOW)) == ["vip", "early", "late"]


def test_maintenance_waits_behind_exports() -> None:
    works = [PlannedWork(RETAIN, "r", ("r",), MINUTE), export("e")]
    past = {(RETAIN, "r"): Past(0), (EXPORT, "e"): Past(NOW - MINUTE)}
    assert subjects(due_work(works, past, set(), NOW)) == ["e", "r"]


def test_what_runs_is_not_started_again() -> None:
    assert due_work([export("a")], {}, {(EXPORT, "a")}, NOW) == []


def test_a_topic_that_fails_waits_longer_each_time_and_no_other_waits_for_it() -> None:
    bad, good = export("bad"), export("good")
    past = {bad.key: Past(0, NOW, failures=3), good.key: Past(NOW - MINUTE)}
    assert subjects(due_work([bad, good], past, set(), NOW)) == ["good"]
    assert planner.begin_of(bad, past, 0) == NOW + 4 * MINUTE
    pauses = [planner.pause_ms(bad, failures) for failures in range(1, 40)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == 60 * MINUTE


def test_when_nothing_is_due_the_next_begin_is_known() -> None:
    works = [export("a"), export("b", 10 * MINUTE)]
    past = {work.key: Past(NOW, NOW) for work in works}
    assert planner.next_begin_ms(works, past, set()) == NOW + MINUTE * 3 // 4
    assert planner.next_begin_ms([], {}, set()) is None


names = st.text("abcdef", min_size=1, max_size=6)


@given(st.sets(names, min_size=1, max_size=6), st.lists(names, max_size=40))
def test_each_subject_belongs_to_exactly_one_runner(runners: set[str], topics: list[str]) -> None:
    works = [export(name) for name in topics]
    alive = sorted(runners)
    shares = [mine(works, runner, alive) for runner in alive]
    assert sorted(work.subject for share in shares for work in share) == sorted(topics)


@given(st.sets(names, min_size=2, max_size=6), st.lists(names, max_size=40))
def test_when_a_runner_dies_only_its_share_moves(runners: set[str], topics: list[str]) -> None:
    works = [export(name) for name in topics]
    dead, *left = sorted(runners)
    for runner in left:
        before = mine(works, runner, [dead, *left])
        assert set(before) <= set(mine(works, runner, left))


def test_ten_thousand_topics_are_planned() -> None:
    topics = [topic(f"t{at}", table_format="delta") for at in range(10_000)]
    works = works_of(topics, Rhythm())
    due = due_work(mine(works, "a", ["a", "b", "c"]), {}, set(), NOW, since_ms=NOW)
    assert 2500 < len(due) < 4200
