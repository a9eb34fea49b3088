"""Rows H1 to H6 and B1 to B7: headers and bodies that cannot be what they claim."""

import struct

import pytest

from tests.bad_input import payloads
from tests.bad_input.attacked_broker import Victim, is_closed
from tests.bad_input.payloads import API_VERSIONS, FETCH, METADATA, PRODUCE
from tests.support import wire
from tests.support.wire import frame, string


def closes(victim: Victim, request: bytes, reason: str = "malformed_request") -> None:
    """The broker ends the connection that sent this, for this reason."""
    with victim.suffers(reason):
        sock = victim.connect()
        sock.sendall(request)
        assert is_closed(sock)


def flexible(api: int, version: int, body: bytes, header_tags: bytes = b"\0") -> bytes:
    """A request with the newer header."""
    return frame(api, version, 9, header_tags + body)


# -- headers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("api", [-1, 67, 999, 32767])
def test_h1_an_unknown_api_closes_the_connection(victim: Victim, api: int) -> None:
    closes(victim, frame(api, 0, 1, b""), "unsupported_request")


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_h2_an_unknown_version_of_api_versions_is_answered_in_version_0_with_the_list(
    victim: Victim, version: int
) -> None:
    with victim.suffers("unsupported_version"):
        sock = victim.connect()
        body = victim.ask(sock, flexible(API_VERSIONS, version, b"\x02a\x02b\0"))
        code, count = struct.unpack_from(">hi", body)
        assert code == 35
        rows = list(struct.iter_unpack(">hhh", body[6:]))
        assert len(rows) == count
        assert (API_VERSIONS, 0, 4) in rows
        assert victim.is_served(sock), "the client asks again on the same connection"


@pytest.mark.parametrize(("api", "version"), [(METADATA, 13), (PRODUCE, 99), (FETCH, -1)])
def test_h3_an_unknown_version_of_another_api_closes_the_connection(
    victim: Victim, api: int, version: int
) -> None:
    closes(victim, frame(api, version, 1, bytes(50)), "unsupported_request")


@pytest.mark.parametrize("name", [b"", b"-a", b"a b", b"a" + b"\xc3\xa9"])
def test_h4_an_illegal_software_name_is_an_invalid_request(victim: Victim, name: bytes) -> None:
    with victim.suffers("illegal_software_name"):
        sock = victim.connect()
        body = victim.ask(
            sock, flexible(API_VERSIONS, 3, bytes([len(name) + 1]) + name + b"\x041.0\0")
        )
        assert struct.unpack_from(">h", body)[0] == 42
        assert victim.is_served(sock)


def test_h5_a_null_client_id_is_as_good_as_any(victim: Victim) -> None:
    with victim.suffers(None):
        body = struct.pack(">hhi", API_VERSIONS, 0, 8) + b"\xff\xff"
        answer = victim.ask(victim.connect(), struct.pack(">i", len(body)) + body)
        assert struct.unpack_from(">h", answer)[0] == 0


@pytest.mark.parametrize(
    "client_id",
    [struct.pack(">h", 500) + b"short", b"\x00\x02\xff\xfe", struct.pack(">h", -2), b"\x00"],
    ids=["longer than the frame", "not UTF-8", "negative length", "half a length"],
)
def test_h6_a_client_id_that_cannot_be_read_closes_the_connection(
    victim: Victim, client_id: bytes
) -> None:
    head = struct.pack(">hhi", API_VERSIONS, 0, 1) + client_id
    closes(victim, struct.pack(">i", len(head)) + head)


# -- bodies ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_frame",
    [
        frame(METADATA, 1, 1, struct.pack(">i", 2**31 - 1)),
        frame(PRODUCE, 7, 1, string(None) + struct.pack(">hii", -1, 100, 90_000)),
        frame(FETCH, 11, 1, struct.pack(">iiiibiii", -1, 0, 0, 0, 0, 0, -1, 2**30)),
        flexible(METADATA, 9, b"\xff\xff\xff\xff\x0f"),
    ],
    ids=["metadata", "produce", "fetch", "flexible"],
)
def test_b1_a_count_larger_than_the_rest_is_refused_before_allocation(
    victim: Victim, request_frame: bytes
) -> None:
    closes(victim, request_frame)


def test_b2_a_count_below_minus_one_closes_the_connection(victim: Victim) -> None:
    closes(victim, frame(METADATA, 1, 1, struct.pack(">i", -5)))


@pytest.mark.parametrize(
    "request_frame",
    [
        frame(METADATA, 1, 1, struct.pack(">ih", 1, 200) + b"abc"),
        frame(
            PRODUCE,
            7,
            1,
            string(None)
            + struct.pack(">hii", -1, 1, 1)
            + string("t")
            + struct.pack(">iii", 1, 0, 999),
        ),
        flexible(METADATA, 9, b"\x80\x80\x80\x80\x80\x80\x01"),
        flexible(METADATA, 9, b"\x80"),
        frame(FETCH, 11, 1, b"\0\0"),
    ],
    ids=["string", "bytes", "varint of 7 bytes", "varint without end", "fixed fields"],
)
def test_b3_a_field_that_is_cut_off_closes_the_connection(
    victim: Victim, request_frame: bytes
) -> None:
    closes(victim, request_frame)


def test_b4_null_where_null_may_not_be_closes_the_connection(victim: Victim) -> None:
    closes(victim, frame(METADATA, 1, 1, struct.pack(">ih", 1, -1)))


def test_b5_bytes_after_the_body_are_ignored_and_counted(victim: Victim) -> None:
    with victim.suffers("trailing_bytes"):
        sock = victim.connect()
        body = victim.ask(sock, frame(METADATA, 1, 1, struct.pack(">i", 0) + b"and more"))
        assert struct.unpack_from(">i", body)[0] == 1, "one broker is listed"
        assert victim.is_served(sock)


def test_b6_an_unknown_tagged_field_is_passed_over(victim: Victim) -> None:
    with victim.suffers(None):
        sock = victim.connect()
        tags = b"\x01\x63\x03abc"  # one field, number 99, three bytes
        body = victim.ask(sock, flexible(METADATA, 9, b"\x01\0\0\0" + tags, header_tags=tags))
        assert body[:1] == b"\0"
        assert victim.is_served(sock)


def test_b6_a_tagged_field_that_comes_twice_closes_the_connection(victim: Victim) -> None:
    tags = b"\x02\x63\x01a\x63\x01b"
    closes(victim, flexible(METADATA, 9, b"\x01\0\0\0" + tags))


@pytest.mark.parametrize(
    "request_frame",
    [
        frame(METADATA, 1, 1, struct.pack(">i", 1_000_000) + b"\0\1t" * 1_000_000),
        flexible(METADATA, 9, b"\xc1\x84\x3d" + b"\x02t\0" * 1_000_000 + b"\0\0\0\0"),
        frame(
            PRODUCE,
            7,
            1,
            string(None)
            + struct.pack(">hii", -1, 1000, 1_000_000)
            + (string("t") + struct.pack(">i", 0)) * 1_000_000,
        ),
    ],
    ids=["metadata", "flexible metadata", "produce"],
)
def test_b7_a_million_topics_in_one_request_close_the_connection(
    victim: Victim, request_frame: bytes
) -> None:
    closes(victim, request_frame)


@pytest.mark.parametrize(
    "request_frame",
    [
        frame(
            PRODUCE,
            7,
            1,
            string(None)
            + struct.pack(">hii", -1, 1000, 1)
            + string("t")
            + struct.pack(">i", 150_000)
            + struct.pack(">ii", 0, -1) * 150_000,
        ),
        frame(
            FETCH,
            4,
            1,
            struct.pack(">iiiibi", -1, 0, 0, 1000, 0, 2)
            + (string("t") + struct.pack(">i", 75_000) + struct.pack(">iqi", 0, 0, 9) * 75_000) * 2,
        ),
    ],
    ids=["produce", "fetch"],
)
def test_b7_a_hundred_thousand_partitions_in_one_request_close_the_connection(
    victim: Victim, request_frame: bytes
) -> None:
    closes(victim, request_frame)


def test_b7_ten_thousand_unknown_topics_are_answered_one_by_one(victim: Victim) -> None:
    with victim.suffers(None):
        names = b"".join(string(f"unknown-{number}") for number in range(10_000))
        # Version 4: creating them is forbidden.
        body = victim.ask(
            victim.connect(), frame(METADATA, 4, 1, struct.pack(">i", 10_000) + names + b"\0")
        )
        assert body.count(struct.pack(">h", 3) + string("unknown-4711")) == 1


def test_the_broker_still_writes_and_reads_after_all_of_this(victim: Victim) -> None:
    with victim.suffers(None):
        sock = victim.connect()
        answer = victim.ask(sock, wire.produce("t", 0, payloads.good(b"fine"), -1, 1))
        code, offset = wire.produce_error(answer)
        assert code == 0
        code, high, records = wire.fetched(victim.ask(sock, wire.fetch("t", 0, offset, 2)))
        assert (code, high) == (0, offset + 1)
        assert b"fine" in bytes(records)
