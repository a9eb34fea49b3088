"""The judge of the fault runs, judged: each planted fault is named, and nothing else is."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults import history as words
from tests.faults.checker import check
from tests.faults.history import (
    FAILED,
    NOTHING,
    OK,
    UNKNOWN,
    Commit,
    Fetched,
    Found,
    History,
    Listed,
    Poll,
    Removed,
    Send,
    Stored,
    Trouble,
    Watermark,
)

KEY = "ns/topic/{}/segment-{:020d}.kfs"


def story() -> History:
    """Two partitions, ten records each of one producer; a follower, a group, a bucket."""
    told = History(partitions=2, idempotent={"p"})
    for partition in range(2):
        for number in range(10):
            at_s = float(number)
            send = Send("p", partition, number, at_s, at_s + 0.5, OK, offset=number)
            told.sends.append(send)
            told.polls.append(Poll("r", 0, partition, number, send.value, at_s + 0.7))
            told.found.append(Found(partition, number, send.value, epoch=1 + number // 5))
            key = KEY.format(partition, number)
            epoch = 1 + number // 5
            broker = f"b{epoch}"
            digest = f"{partition}.{number}"
            told.stored.append(Stored(broker, key, digest, at_s, at_s + 0.4, OK, epoch, epoch))
            told.listed.append(Listed(key, digest))
            told.watermarks.append(Watermark(broker, partition, number + 1, at_s + 0.6, at_s + 0.8))
            told.commits.append(Commit("g", partition, number, at_s, at_s + 0.2, OK))
            told.fetched.append(Fetched("g", partition, number, at_s + 0.3, at_s + 0.4))
    return told


def kinds(told: History) -> set[str]:
    return {finding.kind for finding in check(told)}


def without_poll(told: History, partition: int, offset: int) -> None:
    told.polls = [one for one in told.polls if (one.partition, one.offset) != (partition, offset)]


def the_last_record_is_gone(told: History) -> None:
    told.found.remove(Found(0, 9, "p 0 9", 2))


def one_in_the_middle_is_gone(told: History) -> None:
    kept = [one for one in told.found if one.partition == 1 and one.offset != 4]
    told.found = [one for one in told.found if one.partition == 0]
    told.found += [replace(one, offset=place) for place, one in enumerate(kept)]
    told.polls.clear()


def all_is_gone(told: History) -> None:
    told.found.clear()


def one_is_there_twice(told: History) -> None:
    told.found.append(Found(1, 10, "p 1 3", 2))


def two_have_changed_places(told: History) -> None:
    for send in told.sends:
        if send.partition == 0 and send.number in (4, 5):
            send.outcome, send.offset = UNKNOWN, -1
    told.polls.clear()
    told.found[4] = replace(told.found[4], value="p 0 5")
    told.found[5] = replace(told.found[5], value="p 0 4")


def a_wrong_offset_was_told(told: History) -> None:
    told.sends[3].offset = 20


def zero_was_told_as_offset(told: History) -> None:
    told.sends[3].offset = 0


def a_plain_producer_was_told_no_offset(told: History) -> None:
    told.idempotent.clear()
    told.sends[3].offset = -1


def a_reader_saw_something_else(told: History) -> None:
    told.polls[4] = replace(told.polls[4], value="p 0 5")


def two_were_acknowledged_at_one_offset(told: History) -> None:
    told.sends.append(Send("q", 0, 0, 3.0, 3.5, OK, offset=3))


def an_offset_is_missing(told: History) -> None:
    for place in range(7, 10):
        told.found[place] = replace(told.found[place], offset=place + 1)
    told.polls = [one for one in told.polls if one.partition or one.offset < 7]
    for send in told.sends[7:10]:
        send.outcome = UNKNOWN


def a_reader_was_led_past_a_record(told: History) -> None:
    without_poll(told, 1, 5)


def a_reader_was_led_back(told: History) -> None:
    told.polls.append(replace(told.polls[-1]))


def no_producer_sent_this(told: History) -> None:
    told.found.append(Found(0, 10, "\x00garbage", 2))


def what_failed_is_there(told: History) -> None:
    told.sends[9].outcome, told.sends[9].offset = FAILED, -1


def it_is_in_another_partition(told: History) -> None:
    told.found.append(Found(1, 10, "p 0 5", 2))


def a_broker_says_less_than_another(told: History) -> None:
    told.watermarks.append(Watermark("b3", 0, 4, 9.9, 9.95))


def a_broker_says_less_than_was_acknowledged(told: History) -> None:
    told.watermarks[:] = [Watermark("b1", 0, 0, 2.0, 2.1)]


def an_older_commit_comes_back(told: History) -> None:
    told.fetched.append(Fetched("g", 0, 3, 12.0, 12.1))


def a_commit_is_forgotten(told: History) -> None:
    told.fetched.append(Fetched("g", 0, -1, 12.0, 12.1))


def no_member_committed_that(told: History) -> None:
    told.fetched.append(Fetched("g", 1, 700, 12.0, 12.1))


def a_refused_commit_took_effect(told: History) -> None:
    told.commits.append(Commit("g", 1, 700, 11.0, 11.1, FAILED))
    told.fetched.append(Fetched("g", 1, 700, 12.0, 12.1))


def the_older_owner_wrote_after_the_newer(told: History) -> None:
    told.found[8] = replace(told.found[8], epoch=1)


def one_epoch_has_two_writers(told: History) -> None:
    told.stored[7] = replace(told.stored[7], broker="b9")


def an_object_was_written_again(told: History) -> None:
    told.stored.append(replace(told.stored[2], digest="x", begun_s=8.0, ended_s=8.1))


def an_object_is_not_what_was_stored(told: History) -> None:
    told.listed[2] = replace(told.listed[2], digest="x")


def an_object_has_vanished(told: History) -> None:
    del told.listed[2]


def a_producer_got_stuck(told: History) -> None:
    told.troubles.append(Trouble("p", "40 records without an answer", 9.0))


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (the_last_record_is_gone, {"lost"}),
        (one_in_the_middle_is_gone, {"lost", "wrong offset", "offset reuse"}),
        (all_is_gone, {"lost"}),
        (one_is_there_twice, {"duplicate"}),
        (two_have_changed_places, {"reordered"}),
        (a_wrong_offset_was_told, {"wrong offset", "watermark back"}),
        (zero_was_told_as_offset, {"wrong offset", "offset reuse"}),
        (a_plain_producer_was_told_no_offset, {"wrong offset"}),
        (a_reader_saw_something_else, {"offset reuse"}),
        (two_were_acknowledged_at_one_offset, {"offset reuse", "lost"}),
        (an_offset_is_missing, {"gap"}),
        (a_reader_was_led_past_a_record, {"gap"}),
        (a_reader_was_led_back, {"gap"}),
        (no_producer_sent_this, {"unsent"}),
        (what_failed_is_there, {"unsent"}),
        (it_is_in_another_partition, {"unsent"}),
        (a_broker_says_less_than_another, {"watermark back"}),
        (a_broker_says_less_than_was_acknowledged, {"watermark back"}),
        (an_older_commit_comes_back, {"commit undone"}),
        (a_commit_is_forgotten, {"commit undone"}),
        (no_member_committed_that, {"commit undone"}),
        (a_refused_commit_took_effect, {"commit undone"}),
        (the_older_owner_wrote_after_the_newer, {"two owners"}),
        (one_epoch_has_two_writers, {"two owners"}),
        (an_object_was_written_again, {"overwritten"}),
        (an_object_is_not_what_was_stored, {"overwritten"}),
        (an_object_has_vanished, {"vanished"}),
        (a_producer_got_stuck, {"trouble"}),
    ],
)
def test_a_planted_fault_is_found(plant: Callable[[History], None], expected: set[str]) -> None:
    told = story()
    plant(told)
    assert kinds(told) == expected


def test_a_clean_story_has_no_findings() -> None:
    assert check(story()) == []


def an_unanswered_record_is_missing(told: History) -> None:
    told.sends.append(Send("p", 0, 10, 10.0))


def an_unanswered_record_is_there(told: History) -> None:
    told.sends.append(Send("p", 0, 10, 10.0))
    told.found.append(Found(0, 10, "p 0 10", 2))


def a_retry_was_answered_without_an_offset(told: History) -> None:
    told.sends[3].offset = -1


def a_plain_producer_repeats_and_reorders(told: History) -> None:
    told.idempotent.clear()
    one_is_there_twice(told)
    told.found += [Found(0, 10, "q 0 1", 2), Found(0, 11, "q 0 0", 2)]
    told.sends += [Send("q", 0, number, 1.0) for number in (0, 1)]


def a_reader_begins_anew(told: History) -> None:
    told.polls.append(replace(told.polls[0], stretch=1))


def a_late_commit_of_unknown_outcome_took_effect(told: History) -> None:
    told.commits.append(Commit("g", 0, 3, 11.0, 13.0, UNKNOWN))
    told.fetched.append(Fetched("g", 0, 3, 20.0, 20.1))


def two_commits_at_once_leave_either(told: History) -> None:
    told.commits += [Commit("g", 0, 50, 11.0, 12.0, OK), Commit("g", 0, 40, 11.5, 12.5, OK)]
    told.fetched += [Fetched("g", 0, 50, 13.0, 13.1), Fetched("g", 0, 40, 14.0, 14.1)]


def a_newer_commit_is_lower(told: History) -> None:
    told.commits.append(Commit("g", 0, 2, 11.0, 11.5, OK))
    told.fetched.append(Fetched("g", 0, 2, 13.0, 13.1))


def a_watermark_was_asked_for_before_the_last_answer(told: History) -> None:
    told.watermarks.append(Watermark("b1", 0, 9, 9.4, 9.9))


def an_identical_body_was_stored_again(told: History) -> None:
    told.stored.append(replace(told.stored[2], begun_s=8.0, ended_s=8.1))


def a_deleted_name_came_back(told: History) -> None:
    told.removed.append(Removed("b2", told.stored[2].key, 7.0))
    told.stored.append(replace(told.stored[2], digest="x", begun_s=8.0, ended_s=8.1))
    told.listed[2] = replace(told.listed[2], digest="x")


def an_unanswered_put_happened(told: History) -> None:
    key = KEY.format(0, 10)
    told.stored.append(Stored("b2", key, "x", 10.0, 11.0, UNKNOWN))
    told.stored.append(Stored("b3", key, "y", 12.0, 13.0, FAILED))
    told.listed.append(Listed(key, "x"))


@pytest.mark.parametrize(
    "harmless",
    [
        an_unanswered_record_is_missing,
        an_unanswered_record_is_there,
        a_retry_was_answered_without_an_offset,
        a_plain_producer_repeats_and_reorders,
        a_reader_begins_anew,
        a_late_commit_of_unknown_outcome_took_effect,
        two_commits_at_once_leave_either,
        a_newer_commit_is_lower,
        a_watermark_was_asked_for_before_the_last_answer,
        an_identical_body_was_stored_again,
        a_deleted_name_came_back,
        an_unanswered_put_happened,
    ],
)
def test_what_is_allowed_is_no_finding(harmless: Callable[[History], None]) -> None:
    told = story()
    harmless(told)
    assert check(told) == []


def test_a_history_is_the_same_after_it_was_kept_in_a_file(tmp_path: Path) -> None:
    told = story()
    told.faults.append(words.Fault("kill", "b1", 1.0, 2.0))
    an_older_commit_comes_back(told)
    told.save(tmp_path / "history.jsonl")
    again = words.load(tmp_path / "history.jsonl")
    assert again == told
    assert kinds(again) == {"commit undone"}


def moved(told: History, moves: int) -> None:
    """Partition 0 has moved after its last record, and then taken one more."""
    told.moves = moves
    told.found.insert(10, Found(0, 10, NOTHING, epoch=2))
    send = Send("p", 0, 10, 11.0, 11.5, OK, offset=11)
    told.sends.append(send)
    told.found.insert(11, Found(0, 11, send.value, epoch=2))
    told.polls.append(Poll("r", 0, 0, 11, send.value, 11.7))


def test_a_move_takes_an_offset_and_that_is_no_finding() -> None:
    told = story()
    moved(told, moves=1)
    assert kinds(told) == set()


def test_an_empty_offset_without_a_move_is_found() -> None:
    told = story()
    moved(told, moves=0)
    assert kinds(told) == {"unsent"}


def test_a_reader_led_past_a_record_and_an_empty_offset_is_found() -> None:
    told = story()
    moved(told, moves=1)
    without_poll(told, 0, 9)
    assert kinds(told) == {"gap"}
