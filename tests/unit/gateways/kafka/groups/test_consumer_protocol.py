"""What the door reads in the bytes that consumers give their groups."""

import struct

import pytest

from kafscale.gateways.kafka.groups.consumer_protocol import ConsumerProtocol

TOPICS = struct.pack(">hih6sh2s", 3, 2, 6, b"orders", 2, b"hi")
ASSIGNED = struct.pack(">hih6siii", 3, 1, 6, b"orders", 2, 0, 7)

reader = ConsumerProtocol()


def test_topics_and_partitions_are_read_and_later_fields_ignored() -> None:
    assert reader.subscribed_topics("consumer", TOPICS + b"user data") == ["orders", "hi"]
    assert reader.assigned_partitions("consumer", ASSIGNED + b"more") == [("orders", [0, 7])]


@pytest.mark.parametrize("size", range(len(TOPICS)))
def test_bytes_that_are_cut_off_say_nothing(size: int) -> None:
    assert reader.subscribed_topics("consumer", TOPICS[:size]) is None
    assert not reader.assigned_partitions("consumer", ASSIGNED[:size])


def test_no_list_is_longer_than_the_bound() -> None:
    assert reader.subscribed_topics("consumer", struct.pack(">hi", 0, 1 << 30)) is None


def test_groups_of_other_protocols_are_not_read() -> None:
    assert reader.subscribed_topics("connect", TOPICS) is None
    assert not reader.assigned_partitions("connect", ASSIGNED)
