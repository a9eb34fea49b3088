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


def _subscription(version: int) -> bytes:
    raw = struct.pack(">hih6si4s", version, 1, 6, b"orders", 4, b"mine")
    if version >= 1:
        raw += struct.pack(">ih6siii", 1, 6, b"orders", 2, 0, 7)
    if version >= 2:
        raw += struct.pack(">i", 3)
    return raw + (struct.pack(">h2s", 2, b"r1") if version >= 3 else b"")


@pytest.mark.parametrize("version", range(4))
def test_a_subscription_of_every_version_is_read(version: int) -> None:
    said = reader.read_subscription(_subscription(version))
    assert said is not None
    assert said.topics == {"orders"}
    assert said.owned == ([("orders", [0, 7])] if version else [])
    assert said.rack == ("r1" if version == 3 else None)


@pytest.mark.parametrize("size", range(len(_subscription(3))))
def test_a_subscription_that_is_cut_off_is_not_read(size: int) -> None:
    assert reader.read_subscription(_subscription(3)[:size]) is None


def test_an_assignment_is_written_as_it_is_read() -> None:
    rows = [("orders", [0, 7]), ("hi", [])]
    assert reader.read_assignment(reader.write_assignment(rows)) == rows
    assert reader.read_assignment(b"") == ()
    assert reader.read_assignment(ASSIGNED) is None, "cut off"
    assert reader.read_assignment(ASSIGNED + struct.pack(">i2s", 2, b"me")) is None, "user data"
