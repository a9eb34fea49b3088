"""The rules of docs/formats/log-protocol.md: together they hold, and each one is needed.

What is searched: every interleaving of the steps in writers.py, jobs.py, pins.py, deleter.py, of
late PUTs and of time passing, within the bounds named here, without any bound on depth, pauses or
retries. At most 2 writers, 2 jobs, a job that rolls up, a snapshot, 3 records, 2 faults and 3
manifests after the first; not modelled: lanes, LISTs of several pages, clock skew, index objects.
Evidence within bounds, not proof.
"""

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import NamedTuple

import pytest
from _pytest.mark import ParameterSet

from tests.model import safety
from tests.model.search import search
from tests.model.state import Bounds, Rules

STRICT = Rules()
# What src/kafscale/log does.
RELAXED = Rules(opening="in time", flushes="relaxed", roll_up_loser="re-applies")

# A job whose manifest PUT is slow, beside others that make and delete generations.
OLD_MANIFEST = Bounds(
    records=2,
    rolled=1,
    writers=1,
    opened=(0,),
    generations=2,
    jobs=("compact",),
    roll_ups=("adopt",),
    grace=1,
)
TWO_OWNERS = Bounds(records=2, generations=1, rolling="A", grace=1)
TWO_JOBS = Bounds(
    records=1, rolled=1, writers=0, opened=(), generations=2, jobs=("compact",) * 2, grace=1
)
LOST_ANSWERS = Bounds(records=2, generations=0, deleter=False, faults=2, crashes=True, grace=1)
RECREATED = Bounds(
    records=2, generations=0, deleter=False, faults=1, recreations=1, opened=(0,), grace=1
)
READER = Bounds(
    records=2,
    writers=1,
    opened=(0, 1),
    reader=True,
    generations=2,
    jobs=("compact",),
    roll_ups=("mixed",),
    grace=1,
)
RETENTION = Bounds(records=2, rolled=1, writers=1, opened=(0,), generations=2, jobs=("retain",))

TAIL_JOB = Bounds(
    records=2, writers=1, opened=(0,), rolling="A", roll_ups=("adopt",), roller=True, grace=1
)
PINNED = Bounds(
    records=2, rolled=2, writers=0, opened=(), generations=3, jobs=("compact", "retain"),
    pinner=True, grace=1,
)  # fmt: skip
PINNED_TAIL = Bounds(
    records=2, writers=1, opened=(0,), generations=2, roll_ups=("merge",), pinner=True, grace=1
)

# An owner reads for a consumer what it has rolled up; a job compacts it, another owner sleeps.
READS = Bounds(
    records=2,
    rolling="A",
    roll_ups=("adopt",),
    generations=2,
    jobs=("compact",),
    reads=True,
    grace=1,
)

# A reader opens the log while one owner rolls it up and another one sleeps.
OPENER = replace(TWO_OWNERS, reader=True)

SAFE = {
    "a stale owner beside one that rolls up": TWO_OWNERS,
    "the same with half a grace period": replace(
        TWO_OWNERS, grace=2, roll_ups=("adopt",), periodic_checks=True
    ),
    "two owners that both roll up": replace(TWO_OWNERS, rolling="AB", roll_ups=("adopt",)),
    "faults during roll-up": Bounds(
        records=2, writers=1, opened=(0,), generations=1, faults=1, crashes=True, grace=1
    ),
    "a slow manifest PUT": OLD_MANIFEST,
    "a reader beside mixed roll-up and compaction": READER,
    "a job that times out or crashes": replace(TWO_JOBS, jobs=("compact",), faults=1, crashes=True),
    "compaction against retention": replace(
        TWO_JOBS, records=2, rolled=2, jobs=("compact", "retain")
    ),
    "retention beside an owner": replace(RETENTION, grace=1),
    "lost answers, late PUTs, crashes": LOST_ANSWERS,
    "a topic deleted and created again": RECREATED,
    "a job rolls up the tail beside its owner": TAIL_JOB,
    "a snapshot beside compaction": replace(
        PINNED, records=1, rolled=1, jobs=("compact",), generations=2
    ),
    "a snapshot with a tail that is rolled up": replace(PINNED_TAIL, generations=1),
    "a snapshot with a tail that is adopted and compacted": replace(
        PINNED_TAIL, records=1, roll_ups=("adopt",), jobs=("compact",)
    ),
    "an idle owner reads what a job compacts": replace(READS, records=1, rolled=1, writers=1),
    "two roll-ups race": Bounds(records=2, generations=1, deleter=False, grace=1),
}
SAFE_STRICTLY = (
    "a stale owner beside one that rolls up",
    "a slow manifest PUT",
    "a reader beside mixed roll-up and compaction",
    "compaction against retention",
    "retention beside an owner",
)
SAFE_BUT_LARGE = {
    "a stale owner, G of two ticks": replace(TWO_OWNERS, grace=2),
    "a stale owner, two generations": replace(TWO_OWNERS, generations=2),
    "two owners that both merge": replace(TWO_OWNERS, rolling="AB"),
    "two owners, one fault": replace(TWO_OWNERS, faults=1, crashes=True, roll_ups=("adopt",)),
    "a slow manifest PUT with outputs": replace(OLD_MANIFEST, roll_ups=("merge",)),
    "two compactions": TWO_JOBS,
    "two compactions, one timeout": replace(TWO_JOBS, faults=1),
    "retention, G of two ticks": replace(RETENTION, grace=2),
    "a job rolls up, one fault": replace(TAIL_JOB, faults=1, crashes=True),
    "a snapshot beside compaction and retention": replace(
        PINNED, records=1, rolled=1, generations=2
    ),
    "a snapshot with a tail, two generations": PINNED_TAIL,
    "an owner with two faults": Bounds(
        records=2, writers=1, opened=(0,), generations=1, faults=2, crashes=True, grace=1
    ),
}

# Searches of a second and more.
SLOW = {
    "a stale owner beside one that rolls up",
    "the same with half a grace period",
    "two owners that both roll up",
    "faults during roll-up",
    "a slow manifest PUT",
    "a reader beside mixed roll-up and compaction",
    "compaction against retention",
    "lost answers, late PUTs, crashes",
    "a topic deleted and created again",
    "a snapshot with a tail that is adopted and compacted",
    "two roll-ups race",
    "1, deleter",
    "1, deleter, rule 9 strict",
    "3, dating of a check",
    "3, judged before the PUT",
    "6, Created taken for committed",
    "7, order",
    "9, flushes, any old manifest below the end",
}


def quick_or_slow(names: Iterable[str]) -> list[ParameterSet]:
    return [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in names]


@pytest.mark.parametrize("name", quick_or_slow(SAFE))
def test_with_all_rules_on_no_promise_is_broken(name: str) -> None:
    _finds_nothing(RELAXED, SAFE[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SAFE_STRICTLY)
def test_with_all_rules_on_and_rule_9_strict_no_promise_is_broken(name: str) -> None:
    _finds_nothing(STRICT, SAFE[name])


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("rules", [STRICT, RELAXED], ids=["strict", "relaxed"])
@pytest.mark.parametrize("name", SAFE_BUT_LARGE)
def test_with_all_rules_on_no_promise_is_broken_in_larger_bounds(name: str, rules: Rules) -> None:
    _finds_nothing(rules, SAFE_BUT_LARGE[name])


@pytest.mark.deep
@pytest.mark.timeout(1800)
def test_one_list_is_enough_while_it_is_fresh() -> None:
    _finds_nothing(RELAXED, OPENER, READER_HAS_LISTED)


@pytest.mark.deep
@pytest.mark.timeout(1800)
def test_an_idle_owner_that_reads_shows_what_the_log_has() -> None:
    _finds_nothing(RELAXED, READS, ADOPTED_AND_COMPACTED)


def _finds_nothing(rules: Rules, bounds: Bounds, prefix: tuple[str, ...] = ()) -> None:
    found = search(rules, bounds, prefix=prefix)
    print(found)
    assert not found.violation, str(found)
    assert found.exhausted
    assert found.states > 5_000, "the bounds leave nothing to search"


class Missing(NamedTuple):
    """A switch turned off, where to look, and what must be found broken."""

    rules: Rules
    bounds: Bounds
    kind: str
    prefix: tuple[str, ...] = ()


def off(*names: str, flushes: str = "strict", opening: str = "twice") -> Rules:
    return Rules(flushes=flushes, opening=opening).without(*names)


# Deep traces start from a prepared situation; the search goes on from there.
READER_HAS_LISTED = (
    "A: PUT segment 0[0] executes: created",
    "A: acknowledges [0] at 0",
    "R: opens: lists, newest is 0",
    "R: opens: reads manifest 0",
)
ADOPTED_AND_COMPACTED = (
    "A: PUT segment 0[0] executes: created",
    "A: acknowledges [0] at 0",
    "A: rolls up (adopt) to 1: issues manifest 1",
    "A: PUT manifest 1 executes: created",
    "A: lists: newest is 1: own manifest 1 is committed",
    "J0: compaction of [0, 1): writes output, issues manifest 2",
    "J0: PUT manifest 2 executes: created",
)
COMMITTED_AFTERWARDS = ("A: PUT segment 1[1] executes: created", "A: acknowledges [1] at 1")
ANSWER_LOST = (
    "A: PUT segment 0[0] executes: created",
    "A: PUT segment 0[0] answer is lost; retries segment 0[0]",
    "B: PUT segment 0[0] executes: exists",
    "B: base is not ours: NOT_LEADER, re-opens",
    "B: opens: reads manifest 0, walks to 1",
    "B: opens: lists again, newest still 0: open",
    "B: PUT segment 1[1] executes: created",
    "B: acknowledges [1] at 1",
)
ROLLED_UP_TWICE = (
    "A: PUT segment 0[0] executes: created",
    "A: acknowledges [0] at 0",
    "A: rolls up (merge) to 1: issues manifest 1",
    "A: PUT manifest 1 executes: created",
    "A: lists: newest is 1: own manifest 1 is committed",
    "A: PUT segment 1[1] executes: created",
    "A: acknowledges [1] at 1",
    "A: rolls up (merge) to 2: issues manifest 2",
    "A: PUT manifest 2 executes: created",
)
TWO_PLAN_MANIFEST_1 = (
    "A: PUT segment 0[0] executes: created",
    "A: acknowledges [0] at 0",
    "A: rolls up (merge) to 1: issues manifest 1",
    "B: opens: reads manifest 0, walks to 1",
    "B: opens: lists again, newest still 0: open",
    "B: PUT segment 1[1] executes: created",
    "B: acknowledges [1] at 1",
    "B: rolls up (merge) to 2: issues manifest 1",
    "B: PUT manifest 1 executes: committed",
)
ROLL_UP_OVERTAKEN_TWICE = (
    "A: PUT segment 1[1] executes: created",
    "A: acknowledges [1] at 1",
    "A: rolls up (adopt) to 2: issues manifest 1",
    "J0: compaction of [0, 1): writes output, issues manifest 1",
    "J0: PUT manifest 1 executes: created",
    "J0: lists: newest is 1: own manifest 1 is committed; reports success",
    "J0: compaction of [0, 1): writes output, issues manifest 2",
    "J0: PUT manifest 2 executes: created",
    "J0: lists: newest is 2: own manifest 2 is committed; reports success",
)
OLD_MANIFEST_WITH_A_STALE_OWNER = (
    "J0: compaction of [0, 1): writes output, issues manifest 1",
    "J0: PUT manifest 1 executes: created",
    "J0: lists: newest is 1: own manifest 1 is committed; reports success",
    "J0: compaction of [0, 1): writes output, issues manifest 2",
    "J0: PUT manifest 2 executes: created",
    "J0: lists: newest is 2: own manifest 2 is committed; reports success",
    "A: opens: reads manifest 2, walks to 1",
    "A: opens: lists again, newest still 2: open",
    "B: PUT segment 1[1] executes: created",
    "B: acknowledges [1] at 1",
    "B: rolls up (merge) to 2: issues manifest 1",
    "time passes",
    "deleter: reads manifest 2, decides to delete manifest 1",
    "deleter: DELETE manifest 1 executes",
    "B: PUT manifest 1 executes: created",
    "time passes",
    "B: lists: newest is 2: own manifest 1 is buried; re-opens",
    "B: opens: reads manifest 2, walks to 2",
    "B: opens: lists again, newest still 2: open",
)

MISSING = {
    "1, opener": Missing(
        off("open_lists_twice"), replace(TWO_OWNERS, opened=(0,), grace=2), safety.STALE
    ),
    "1, one LIST of any age": Missing(
        off(opening="any time", flushes="relaxed"), OPENER, safety.GHOST, READER_HAS_LISTED
    ),
    "1, deleter": Missing(off("deleter_lists_twice", flushes="relaxed"), OLD_MANIFEST, safety.LOST),
    "1, deleter, rule 9 strict": Missing(off("deleter_lists_twice"), OLD_MANIFEST, safety.DANGLING),
    "2": Missing(off("content_id"), LOST_ANSWERS, safety.GHOST),
    "3": Missing(off("proof_of_tail"), replace(TWO_OWNERS, grace=2), safety.GHOST),
    "3, dating of a check": Missing(
        off("proof_dated_by_store"),
        replace(TWO_OWNERS, grace=2, periodic_checks=True),
        safety.GHOST,
    ),
    "3, dating of a retry": Missing(
        off("exists_dated_by_issue"),
        Bounds(records=3, generations=1, faults=1, rolling="B"),
        safety.GHOST,
        ANSWER_LOST,
    ),
    "3, judged before the PUT": Missing(
        off("age_judged_after_put"), replace(TWO_OWNERS, grace=2), safety.GHOST
    ),
    "4": Missing(
        off("check_lists"), replace(TWO_OWNERS, generations=2), safety.GHOST, ROLLED_UP_TWICE
    ),
    "6, timeout taken for a no": Missing(
        off("commit_resolved"), replace(TWO_JOBS, faults=1), safety.DANGLING
    ),
    "6, Created taken for committed": Missing(
        off("commit_listed"),
        Bounds(records=3, generations=2, opened=(0,), grace=1),
        safety.GHOST,
        TWO_PLAN_MANIFEST_1,
    ),
    "7": Missing(off("loser_revalidates"), TWO_JOBS, safety.GAP),
    "7, order": Missing(
        off("dropped_before_exists"), replace(TWO_JOBS, generations=3), safety.DANGLING
    ),
    "8, end": Missing(off("end_stays", "predecessor_id"), RETENTION, safety.GAP),
    "8, snapshot": Missing(
        off("snapshot_handed_on"), replace(OLD_MANIFEST, records=1, opened=()), safety.DUPLICATE
    ),
    "9, outputs": Missing(off("outputs_condemned_first"), TWO_JOBS, safety.DANGLING),
    "9, flushes": Missing(off(flushes="off"), TWO_OWNERS, safety.GHOST),
    "9, flushes, any old manifest": Missing(
        off(flushes="any old manifest"), OLD_MANIFEST, safety.LOST
    ),
    "9, flushes, any old manifest below the end": Missing(
        off(flushes="any old manifest, below end"),
        replace(
            OLD_MANIFEST,
            records=3,
            writers=2,
            opened=(1,),
            rolling="B",
            roll_ups=("merge",),
            generations=3,
            periodic_checks=True,
        ),
        safety.GHOST,
        OLD_MANIFEST_WITH_A_STALE_OWNER,
    ),
    "9, flushes, adopted and just dropped": Missing(
        off(flushes="relaxed, ignoring dropped"),
        replace(READER, records=1, rolled=1, writers=0, opened=(0,), grace=2),
        safety.UNREADABLE,
    ),
    "9, pins": Missing(off("pins_spared", flushes="relaxed"), PINNED, safety.UNPINNED),
    "9, pins of a tail": Missing(
        off("pins_spared", flushes="relaxed"), PINNED_TAIL, safety.UNPINNED
    ),
    "9, a pin that came too late": Missing(
        off("pin_in_time", flushes="relaxed"), PINNED, safety.UNPINNED
    ),
    "10, never the newest": Missing(off("newest_survives"), TWO_OWNERS, safety.LOST),
    "10, grace": Missing(
        off("successor_aged", flushes="relaxed"),
        replace(OLD_MANIFEST, generations=3),
        safety.LOST,
        ROLL_UP_OVERTAKEN_TWICE,
    ),
    "11": Missing(off("incarnation"), RECREATED, safety.INTRUDER),
    "12, a job that re-applies its roll-up": Missing(off("roll_up_same_end"), TAIL_JOB, safety.GAP),
    "26": Missing(
        off("reads_judged", flushes="relaxed"), READS, safety.SHOWN, ADOPTED_AND_COMPACTED
    ),
    "26, judged before the GET": Missing(
        off("read_judged_after_get", flushes="relaxed"), READS, safety.SHOWN, ADOPTED_AND_COMPACTED
    ),
    "26, a proof of the tail": Missing(
        off("reads_judged_by_view", flushes="relaxed"),
        replace(READS, grace=2),
        safety.SHOWN,
        (*ADOPTED_AND_COMPACTED, "time passes", *COMMITTED_AFTERWARDS),
    ),
    "12": Missing(off("roll_up_committed_only"), TWO_OWNERS, safety.LOST),
}


@pytest.mark.parametrize("name", quick_or_slow(MISSING))
def test_a_missing_rule_is_found(name: str) -> None:
    rules, bounds, kind, prefix = MISSING[name]
    found = search(rules, bounds, prefix=prefix)
    print(f"without rule {name}, {found}")
    assert found.violation == kind, str(found)


def test_every_switch_is_turned_off_somewhere() -> None:
    switches = {field.name for field in fields(Rules) if field.type is bool}
    turned_off = {s for s in switches for case in MISSING.values() if not getattr(case.rules, s)}
    assert turned_off == switches


# Rule 5 is the second line: what slips through without rules 3 and 11 stops the log.

GHOST_AS_TAIL = (
    "A: PUT segment 0[0] executes: created",
    "A: acknowledges [0] at 0",
    "A: rolls up (merge) to 1: issues manifest 1",
    "A: PUT manifest 1 executes: created",
    "time passes",
    "deleter: reads manifest 1, decides to delete segment 0",
    "deleter: DELETE segment 0 executes",
    "B: PUT segment 0[1] executes: created",
    "B: acknowledges [1] at 0",
)


def test_without_rule_3_a_segment_built_on_a_ghost_raises_the_alarm_of_rule_5() -> None:
    bounds = replace(TWO_OWNERS, records=3)
    stored_twice = {safety.DUPLICATE}
    unseen = search(off("proof_of_tail", "predecessor_id"), bounds, stored_twice, GHOST_AS_TAIL)
    alarm = search(off("proof_of_tail"), bounds, {safety.ALARM}, GHOST_AS_TAIL)
    stopped = search(off("proof_of_tail"), bounds, stored_twice, GHOST_AS_TAIL)
    print(alarm)
    assert unseen.violation == safety.DUPLICATE
    assert alarm.violation == safety.ALARM
    assert not stopped.violation
    assert stopped.exhausted


def test_without_rule_11_a_late_segment_in_mid_chain_raises_the_alarm_of_rule_5() -> None:
    found = search(off("incarnation"), replace(RECREATED, records=3), {safety.ALARM})
    print(found)
    assert found.violation == safety.ALARM
