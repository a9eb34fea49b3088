import asyncio
import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.gateways.connections import ConnectionLimits
from tests.support.examples import examples
from tests.unit.gateways.connections_harness import ConnectionsHarness, feed

SIZES = st.one_of(
    st.integers(1, 40),
    st.sampled_from([1000, 32 << 10, (64 << 10) - 4, 64 << 10, 100_000, 300_000, 3 << 20]),
)


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def body_of(number: int, size: int) -> bytes:
    return (b"%d|" % number + bytes(range(256)) * (size // 256 + 1))[:size]


@examples(60)
@given(st.lists(SIZES, min_size=1, max_size=8), st.data())
def test_frames_do_not_depend_on_how_the_network_cuts_them(
    sizes: list[int], data: st.DataObject
) -> None:
    bodies = [body_of(number, size) for number, size in enumerate(sizes)]
    stream = framed(*bodies)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12))
    harness = ConnectionsHarness()
    connection, _ = harness.connect()
    places = sorted({0, len(stream), *cuts})
    for begin, end in pairwise(places):
        feed(connection, stream[begin:end])
    assert harness.sessions[0].seen() == bodies


def test_frames_that_come_byte_by_byte_are_the_same() -> None:
    harness = ConnectionsHarness()
    connection, _ = harness.connect()
    feed(connection, framed(b"a", b"bc", b"def"), at_most=1)
    assert harness.sessions[0].seen() == [b"a", b"bc", b"def"]


def test_frames_of_two_connections_do_not_meet_in_the_shared_memory() -> None:
    harness = ConnectionsHarness()
    (one, _), (other, _) = harness.connect(), harness.connect()
    first, second = framed(b"x" * 100), framed(b"y" * 100)
    for begin in range(0, len(first), 3):
        feed(one, first[begin : begin + 3])
        feed(other, second[begin : begin + 3])
    feed(one, framed(b"z" * 100))
    assert harness.sessions[0].seen() == [b"x" * 100, b"z" * 100]
    assert harness.sessions[1].seen() == [b"y" * 100]


def test_memory_follows_what_has_come_not_what_was_announced() -> None:
    harness = ConnectionsHarness()
    connection, _ = harness.connect()
    feed(connection, struct.pack(">i", 100 << 20))
    come = 0
    while come < 100 << 20:
        offered = len(connection.get_buffer(-1))
        assert come + offered <= max(32 << 10, 4 * come)
        step = min(offered, 1 << 20)
        connection.buffer_updated(step)
        come += step
    assert len(harness.sessions[0].frames[0]) == 100 << 20


def test_a_frame_may_be_changed_in_place_by_its_session() -> None:
    harness = ConnectionsHarness()
    connection, _ = harness.connect()
    for size in (10, 200_000):
        feed(connection, framed(b"q" * size))
        harness.sessions[0].frames[-1][:3] = b"new"
        assert bytes(harness.sessions[0].frames[-1][:4]) == b"newq"


@pytest.mark.parametrize(
    ("length", "reason"),
    [
        (-1, "bad_frame_length"),
        (0, "bad_frame_length"),
        (1001, "frame_too_large"),
        (2**31 - 1, "frame_too_large"),
    ],
)
def test_a_bad_length_ends_the_connection_once_and_nothing_behind_it_is_taken(
    length: int, reason: str
) -> None:
    harness = ConnectionsHarness(ConnectionLimits(max_frame_bytes=1000))
    connection, transport = harness.connect()
    feed(connection, framed(b"good") + struct.pack(">i", length) * 3 + framed(b"behind"))
    assert transport.is_aborted
    assert harness.sessions[0].seen() == [b"good"]
    assert harness.refusals == {reason: 1}
    assert harness.sessions[0].closings == 1


def test_a_session_that_ends_its_connection_gets_no_further_frames() -> None:
    harness = ConnectionsHarness()
    connection, transport = harness.connect()
    session = harness.sessions[0]
    session.receive = lambda frame: (  # type: ignore[method-assign]
        session.frames.append(frame),
        connection.abort("enough", "why"),
    )
    feed(connection, framed(b"one", b"two", b"three"))
    assert session.seen() == [b"one"]
    assert (harness.refusals, transport.is_aborted) == ({"enough": 1}, True)


def test_the_largest_frame_is_as_large_as_the_limit() -> None:
    harness = ConnectionsHarness(ConnectionLimits(max_frame_bytes=1000))
    connection, transport = harness.connect()
    feed(connection, framed(b"x" * 1000))
    assert len(harness.sessions[0].frames) == 1
    assert not transport.is_aborted


def test_answers_are_sent_until_the_connection_ends() -> None:
    harness = ConnectionsHarness()
    connection, transport = harness.connect()
    connection.send([b"ab", memoryview(b"c")])
    connection.finish()
    connection.send([b"late"])
    connection.connection_lost(None)
    connection.send([b"later"])
    assert transport.sent == [b"abc"]
    assert harness.sessions[0].closings == 1


async def test_a_connection_that_ends_later_hears_nothing_more_and_can_be_ended_before() -> None:
    harness = ConnectionsHarness()
    connection, transport = harness.connect()
    connection.send([b"the last answer"])
    connection.finish_after(3600)
    assert not transport.is_closing()
    feed(connection, framed(b"behind"))
    assert harness.sessions[0].seen() == []
    connection.abort("overdue")
    assert transport.is_aborted

    connection, transport = harness.connect()
    connection.finish_after(0)
    while not transport.is_closed:
        await asyncio.sleep(0)
