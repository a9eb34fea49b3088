import struct

import pytest

from kafscale.gateways.connections import ConnectionLimits
from tests.unit.gateways.connections_harness import ConnectionsHarness, feed
from tests.unit.gateways.test_connection import framed

# -- caps ------------------------------------------------------------------------------------


def test_more_connections_than_allowed_are_turned_away_until_one_leaves() -> None:
    harness = ConnectionsHarness(ConnectionLimits(max_connections=2))
    (first, _), (second, _) = harness.connect(), harness.connect()
    for connection in (first, second):
        feed(connection, framed(b"whole"))
    turned_away, transport = harness.connect()
    assert transport.is_aborted
    assert harness.refusals == {"too_many_connections": 1}
    feed(turned_away, framed(b"ignored"))
    turned_away.connection_lost(None)
    assert len(harness.connections) == 2
    first.connection_lost(None)
    _, transport = harness.connect()
    assert not transport.is_aborted


def test_one_address_may_not_take_all_connections() -> None:
    harness = ConnectionsHarness(ConnectionLimits(max_connections_per_ip=2))
    (first, _), _ = harness.connect("10.0.0.1"), harness.connect("10.0.0.1")
    _, refused = harness.connect("10.0.0.1")
    _, other = harness.connect("10.0.0.2")
    assert (refused.is_aborted, other.is_aborted) == (True, False)
    assert harness.refusals == {"too_many_connections_from_address": 1}
    first.connection_lost(None)
    _, again = harness.connect("10.0.0.1")
    assert not again.is_aborted


def test_half_frames_keep_no_client_out() -> None:
    harness = ConnectionsHarness(ConnectionLimits(max_connections=3))
    served, served_transport = harness.connect()
    feed(served, framed(b"whole"))
    flood = [harness.connect() for _ in range(50)]
    for connection, transport in flood:
        if not transport.is_aborted:
            feed(connection, b"\0\0")
    late, late_transport = harness.connect()
    feed(late, framed(b"whole"))
    assert (served_transport.is_aborted, late_transport.is_aborted) == (False, False)
    assert len(harness.connections) == 3
    assert harness.refusals == {"too_many_connections": 49}


def test_connections_that_have_sent_requests_stay_when_there_are_too_many() -> None:
    harness = ConnectionsHarness(ConnectionLimits(max_connections=2))
    clients = [harness.connect() for _ in range(2)]
    for connection, _ in clients:
        feed(connection, framed(b"whole"))
    _, refused = harness.connect()
    assert refused.is_aborted
    assert not any(transport.is_aborted for _, transport in clients)


# -- back-pressure ---------------------------------------------------------------------------


def test_a_connection_that_holds_too_much_waits_until_it_is_answered() -> None:
    harness = ConnectionsHarness(ConnectionLimits(max_held_bytes_per_connection=100))
    connection, transport = harness.connect()
    other, other_transport = harness.connect()
    feed(connection, framed(b"x" * 60))
    assert transport.is_reading
    feed(connection, framed(b"x" * 60))
    feed(other, framed(b"x" * 60))
    assert (transport.is_reading, other_transport.is_reading) == (False, True)
    connection.release(60)
    assert transport.is_reading


def test_all_writers_wait_when_together_they_hold_too_much() -> None:
    harness = ConnectionsHarness(ConnectionLimits(max_held_bytes=150))
    (one, one_transport), (two, two_transport) = harness.connect(), harness.connect()
    feed(one, framed(b"x" * 100))
    feed(two, framed(b"x" * 100))
    assert (one_transport.is_reading, two_transport.is_reading) == (True, False)
    feed(one, framed(b"x" * 10))
    assert not one_transport.is_reading
    one.release(110)
    assert (one_transport.is_reading, two_transport.is_reading) == (True, True)


def test_half_received_frames_fill_the_memory_no_further_and_all_come_whole_in_the_end() -> None:
    limit = 4 << 20
    harness = ConnectionsHarness(ConnectionLimits(max_held_bytes=limit))
    clients = [harness.connect() for _ in range(20)]
    frame = framed(bytes(2 << 20))
    left = {number: memoryview(frame) for number in range(20)}
    most = 0
    while left:
        reading = [number for number in left if clients[number][1].is_reading]
        assert reading, "every client waits for another one"
        for number in reading:
            connection, transport = clients[number]
            for _ in range(4):
                if left[number] and transport.is_reading:
                    room = len(connection.get_buffer(-1))
                    feed(connection, bytes(left[number][: min(room, 30_000)]))
                    left[number] = left[number][min(room, 30_000) :]
            most = max(most, harness.connections.partial_bytes)
            if not left[number]:
                del left[number]
                connection.release(len(frame) - 4)
    assert [len(session.frames) for session in harness.sessions] == [1] * 20
    assert most <= 2 * limit
    assert (harness.connections.partial_bytes, harness.connections.held_bytes) == (0, 0)


def test_a_turn_of_the_loop_receives_so_much_however_many_clients_send() -> None:
    harness = ConnectionsHarness(by_turns=True)
    clients = [harness.connect() for _ in range(100)]
    frame = framed(bytes(1 << 20))
    left = {number: memoryview(frame) for number in range(100)}
    most = turns = 0
    while left:
        received = 0
        for number in list(left):
            connection, transport = clients[number]
            for _ in range(32):  # as libuv does
                if not transport.is_reading or not left.get(number):
                    break
                room = len(connection.get_buffer(-1))
                feed(connection, bytes(left[number][:room]))
                received += min(room, len(left[number]))
                left[number] = left[number][room:]
                if not left[number]:
                    del left[number]
                    connection.release(len(frame) - 4)
        most, turns = max(most, received), turns + 1
        harness.turn()
    assert [len(session.frames) for session in harness.sessions] == [1] * 100
    assert most < 16 << 20
    assert turns < 60, "as many are read from as a turn has time for"
    assert all(transport.is_reading for _, transport in clients)


def test_a_client_that_is_put_off_and_leaves_is_forgotten() -> None:
    harness = ConnectionsHarness(by_turns=True)
    (one, one_transport), (two, two_transport) = harness.connect(), harness.connect()
    for connection, transport in ((one, one_transport), (two, two_transport)):
        feed(connection, struct.pack(">i", 50 << 20))
        while transport.is_reading:
            connection.buffer_updated(len(connection.get_buffer(-1)))
    assert (one_transport.is_reading, two_transport.is_reading) == (False, False)
    one.connection_lost(None)
    harness.turn()
    assert two_transport.is_reading


def test_what_waits_in_logs_counts_and_is_looked_at_again() -> None:
    harness = ConnectionsHarness(ConnectionLimits(max_held_bytes=150))
    connection, transport = harness.connect()
    harness.buffered = 1000
    feed(connection, framed(b"x"))
    connection.release(1)
    assert not transport.is_reading, "answered, but the logs are full"
    harness.buffered = 0
    harness.connections.end_overdue()
    assert transport.is_reading


def test_those_who_only_read_go_on_when_the_store_is_slow() -> None:
    harness = ConnectionsHarness(ConnectionLimits(max_held_bytes=150))
    reader, transport = harness.connect()
    harness.sessions[0].writes = False
    harness.buffered = 1000
    for _ in range(3):
        feed(reader, framed(b"x" * 50))
        reader.release(50)
        assert transport.is_reading
    feed(reader, framed(b"x" * 100_000))
    assert not transport.is_reading, "but not with large requests"


def test_a_lost_connection_gives_back_what_it_held() -> None:
    harness = ConnectionsHarness(ConnectionLimits(max_held_bytes=150))
    (one, _), (two, transport) = harness.connect(), harness.connect()
    feed(one, framed(b"x" * 140))
    feed(two, framed(b"x" * 20))
    assert not transport.is_reading
    one.connection_lost(None)
    assert transport.is_reading
    assert harness.connections.held_bytes == 20


def test_who_does_not_read_its_answers_is_not_read_from() -> None:
    harness = ConnectionsHarness()
    connection, transport = harness.connect()
    connection.pause_writing()
    assert (connection.is_write_blocked, transport.is_reading) == (True, False)
    connection.release(0)
    assert not transport.is_reading
    connection.resume_writing()
    assert (connection.is_write_blocked, transport.is_reading) == (False, True)
    assert harness.sessions[0].wakings == 1


# -- deadlines -------------------------------------------------------------------------------


def overdue(harness: ConnectionsHarness, after_s: float) -> dict[str, int]:
    harness.clock.advance_ms(after_s * 1000)
    harness.connections.end_overdue()
    return dict(harness.refusals)


@pytest.mark.parametrize("begun", [b"\0", struct.pack(">i", 10), struct.pack(">i", 1 << 20) + b"x"])
def test_a_frame_that_does_not_end_in_time_ends_its_connection(begun: bytes) -> None:
    harness = ConnectionsHarness(ConnectionLimits(frame_s=30, idle_s=600))
    connection, transport = harness.connect()
    feed(connection, begun)
    assert overdue(harness, 29) == {}
    assert overdue(harness, 2) == {"slow_frame": 1}
    assert transport.is_aborted


def test_a_frame_that_cannot_go_on_because_we_do_not_read_is_not_overdue() -> None:
    harness = ConnectionsHarness(
        ConnectionLimits(frame_s=30, idle_s=600, max_held_bytes_per_connection=10)
    )
    connection, _ = harness.connect()
    feed(connection, framed(b"x" * 10) + b"\0\0")
    assert overdue(harness, 100) == {}
    connection.release(10)
    assert overdue(harness, 29) == {}
    assert overdue(harness, 2) == {"slow_frame": 1}


def test_silence_ends_a_connection_unless_it_waits_for_an_answer() -> None:
    harness = ConnectionsHarness(ConnectionLimits(frame_s=30, idle_s=600))
    connection, _ = harness.connect()
    waiting, _ = harness.connect()
    feed(waiting, framed(b"question"))
    assert overdue(harness, 599) == {}
    feed(connection, framed(b"x"))
    connection.release(1)
    assert overdue(harness, 599) == {}
    assert overdue(harness, 2) == {"idle": 1}
    waiting.send([b"answer"])
    waiting.release(8)
    assert overdue(harness, 599) == {"idle": 1}
    assert overdue(harness, 2) == {"idle": 2}


def test_a_reader_that_takes_nothing_is_let_go_and_a_slow_one_is_not() -> None:
    harness = ConnectionsHarness(ConnectionLimits(frame_s=30, idle_s=600))
    (stuck, stuck_transport), (slow, slow_transport) = harness.connect(), harness.connect()
    for connection in (stuck, slow):
        connection.pause_writing()
    for minute in range(10):
        stuck_transport.unsent = 1000
        slow_transport.unsent = 1000 - minute
        overdue(harness, 20)
    assert harness.refusals["slow_reader"] == 1
    assert (stuck_transport.is_aborted, slow_transport.is_aborted) == (True, False)
