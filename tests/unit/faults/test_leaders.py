"""Counting who led when, by what brokers wrote and told."""

import struct
from pathlib import Path

from tests.faults.leaders import (
    Change,
    Survey,
    Told,
    Written,
    changes,
    most_within,
    quick_returns,
    told_in,
    written_generations,
)
from tests.support import wire

FOLDER = "default/t/0"


def test_member_lists_are_found_in_the_output_of_all_brokers(tmp_path: Path) -> None:
    line = '{"generation":%d,"brokers":%s,"event":"%s","timestamp":"2026-01-01T00:00:0%dZ"}\n'
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text(
        "kafscale 0.1.0\n" + line % (7, "[0,1]", "members_written", 2) + '{"generation":'
    )
    two.write_text(line % (5, "[0]", "members_written", 1) + line % (7, "2", "members_changed", 2))
    found = written_generations([one, two])
    assert [(row.generation, row.brokers) for row in found] == [(5, (0,)), (7, (0, 1))]
    assert found[1].at_s - found[0].at_s == 1.0


def test_the_most_member_lists_within_a_time_are_counted() -> None:
    rows = [Written(at_s, number, (0,)) for number, at_s in enumerate((0.0, 5.0, 6.0, 7.9, 8.0))]
    assert most_within(rows, 3.0) == 3
    assert most_within([], 3.0) == 0


def test_leaders_follow_from_the_member_lists() -> None:
    rows = [Written(1.0, 1, (0,)), Written(2.0, 2, (0,)), Written(3.0, 3, (1,))]
    assert changes(rows, FOLDER) == [Change(1.0, 0), Change(3.0, 1)]


def test_a_leader_that_comes_back_soon_is_counted() -> None:
    leaders = [Change(0.0, 0), Change(10.0, 1), Change(12.0, 0), Change(16.0, 1), Change(17.0, 2)]
    assert quick_returns(leaders, 3.0) == 1
    assert quick_returns(leaders, 5.0) == 2


def partition(number: int, leader: int, epoch: int) -> bytes:
    nodes = struct.pack(">ii", 1, leader)
    return struct.pack(">hiii", 0, number, leader, epoch) + nodes + nodes + struct.pack(">i", 0)


def test_leaders_and_epochs_are_read_from_an_answer() -> None:
    brokers = struct.pack(">ii", 1, 4) + wire.string("host") + struct.pack(">i", 9092)
    body = struct.pack(">i", 0) + brokers + wire.string(None) + wire.string("cluster")
    body += struct.pack(">iih", 4, 1, 0) + wire.string("t-1") + b"\0" + struct.pack(">i", 2)
    body += partition(0, 4, 7) + partition(1, 5, 7)
    assert list(told_in(body, "t-1")) == [Told(0, 4, 7), Told(1, 5, 7)]


def test_two_leaders_under_one_epoch_contradict_each_other() -> None:
    survey = Survey("t", [])
    survey.note([Told(0, 1, 7), Told(1, 1, 7)])
    survey.note([Told(0, 1, 7), Told(1, -1, 7), Told(0, 2, 8)])
    assert survey.contradictions() == ["partition 1 in epoch 7: [-1, 1]"]
