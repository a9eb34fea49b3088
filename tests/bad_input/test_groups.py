"""Rows G1 to G7 and S1: what groups are asked that they cannot grant."""

import sqlite3
import struct

import pytest

from tests.bad_input.attacked_broker import Victim, is_closed
from tests.support.wire import frame, string

OFFSET_COMMIT, OFFSET_FETCH, JOIN, HEARTBEAT, LEAVE, SYNC = 8, 9, 11, 12, 13, 14
DESCRIBE, LIST, SASL_HANDSHAKE, DELETE, ELECT, OFFSET_DELETE = 15, 16, 17, 42, 43, 47
OK, UNKNOWN_TOPIC, NOTE_TOO_LARGE, WRONG_GENERATION, BAD_GROUP_ID = 0, 3, 12, 22, 24
UNKNOWN_MEMBER, BAD_SESSION, BAD_MECHANISM, INVALID = 25, 26, 33, 42
NOT_FOUND, ID_REQUIRED, FULL, NOT_NEEDED = 69, 79, 81, 84
SESSION_MS = 6000


def join_body(
    group: str, *, session_ms: int = SESSION_MS, member: str = "", metadata: bytes = b""
) -> bytes:
    """A request to join, version 5."""
    return (
        string(group)
        + struct.pack(">ii", session_ms, 60_000)
        + string(member)
        + string(None)
        + string("consumer")
        + struct.pack(">i", 1)
        + string("range")
        + struct.pack(">i", len(metadata))
        + metadata
    )


def join(victim: Victim, group: str, **fields: object) -> tuple[int, str]:
    """Error code and member id."""
    body = join_body(group, **fields)  # type: ignore[arg-type]
    answer = victim.ask(victim.connect(), frame(JOIN, 5, 1, body))
    (code,) = struct.unpack_from(">h", answer, 4)
    at = 10
    for _ in range(2):  # protocol and leader
        at += 2 + struct.unpack_from(">h", answer, at)[0]
    (size,) = struct.unpack_from(">h", answer, at)
    return int(code), answer[at + 2 : at + 2 + size].decode()


def code_after_throttle(victim: Victim, api: int, version: int, body: bytes) -> int:
    answer = victim.ask(victim.connect(), frame(api, version, 1, body))
    return int(struct.unpack_from(">h", answer, 4)[0])


def about_member(group: str, generation: int = 1, member: str = "unknown") -> bytes:
    """The body of a heartbeat, version 3; of a sync with no assignment after it."""
    return string(group) + struct.pack(">i", generation) + string(member) + string(None)


def commit_body(
    group: str,
    *,
    topic: str = "t",
    partition: int = 0,
    offset: int = 7,
    note: str | None = "",
    generation: int = -1,
    member: str = "",
) -> bytes:
    """A commit, version 7."""
    return (
        about_member(group, generation, member)
        + struct.pack(">i", 1)
        + string(topic)
        + struct.pack(">iiqi", 1, partition, offset, -1)
        + string(note)
    )


def commit(victim: Victim, group: str, **fields: object) -> int:
    body = commit_body(group, **fields)  # type: ignore[arg-type]
    answer = victim.ask(victim.connect(), frame(OFFSET_COMMIT, 7, 1, body))
    return int(struct.unpack_from(">h", answer, len(answer) - 2)[0])


def committed(victim: Victim, group: str) -> int:
    """What a group has committed for the first partition of t, version 5."""
    body = string(group) + struct.pack(">i", 1) + string("t") + struct.pack(">ii", 1, 0)
    answer = victim.ask(victim.connect(), frame(OFFSET_FETCH, 5, 1, body))
    at = answer.index(string("t")) + 3 + 4 + 4
    return int(struct.unpack_from(">q", answer, at)[0])


# -- G1 to G5: membership --------------------------------------------------------------------


@pytest.mark.parametrize("session_ms", [0, -1, 5999, 1_800_001, 2**31 - 1, -(2**31)])
def test_g1_a_session_timeout_out_of_bounds_is_invalid(victim: Victim, session_ms: int) -> None:
    with victim.suffers("invalid_session_timeout"):
        assert join(victim, "g1", session_ms=session_ms)[0] == BAD_SESSION


def test_g2_a_group_without_a_name_is_invalid_whatever_is_asked_of_it(victim: Victim) -> None:
    with victim.suffers("invalid_group_id", times=5):
        assert join(victim, "")[0] == BAD_GROUP_ID
        assert code_after_throttle(victim, HEARTBEAT, 3, about_member("")) == BAD_GROUP_ID
        sync = about_member("") + struct.pack(">i", 0)
        assert code_after_throttle(victim, SYNC, 3, sync) == BAD_GROUP_ID
        leave = string("") + string("unknown")
        assert code_after_throttle(victim, LEAVE, 1, leave) == BAD_GROUP_ID
        assert commit(victim, "") == BAD_GROUP_ID
    with victim.suffers(None):
        answer = victim.ask(
            victim.connect(), frame(DESCRIBE, 1, 1, struct.pack(">i", 1) + string(""))
        )
        assert struct.unpack_from(">h", answer, 8)[0] == BAD_GROUP_ID
        answer = victim.ask(
            victim.connect(), frame(DELETE, 1, 1, struct.pack(">i", 1) + string(""))
        )
        assert struct.unpack_from(">h", answer, len(answer) - 2)[0] == BAD_GROUP_ID


def test_g3_who_comes_without_an_id_is_sent_back_with_one(victim: Victim) -> None:
    with victim.suffers(None):
        code, member = join(victim, "g3")
        assert code == ID_REQUIRED
        assert member


def test_g4_who_is_no_member_and_what_is_no_generation_is_refused(victim: Victim) -> None:
    with victim.suffers("unknown_member", times=4):
        assert join(victim, "g4", member="unknown")[0] == UNKNOWN_MEMBER
        assert code_after_throttle(victim, HEARTBEAT, 3, about_member("g4")) == UNKNOWN_MEMBER
        sync = about_member("g4") + struct.pack(">i", 0)
        assert code_after_throttle(victim, SYNC, 3, sync) == UNKNOWN_MEMBER
        leave = string("g4") + string("unknown")
        assert code_after_throttle(victim, LEAVE, 1, leave) == UNKNOWN_MEMBER
    with victim.suffers("illegal_generation"):
        assert commit(victim, "g4", generation=3, member="unknown") == WRONG_GENERATION


def test_g5_a_member_cannot_say_very_much_about_itself(victim: Victim) -> None:
    with victim.suffers("invalid_request"):
        assert join(victim, "g5", metadata=bytes((1 << 20) + 1))[0] == INVALID


def test_g5_a_group_does_not_become_very_large(victim: Victim) -> None:
    request = frame(JOIN, 5, 1, join_body("g5-many"))
    with victim.suffers("group_full"):
        sock = victim.connect()
        sock.sendall(request * 250)
        for _ in range(3):
            for _ in range(250):
                assert struct.unpack_from(">h", victim.answer(sock), 4)[0] == ID_REQUIRED
            sock.sendall(request * 250)
        for _ in range(250):
            assert struct.unpack_from(">h", victim.answer(sock), 4)[0] == ID_REQUIRED
        assert join(victim, "g5-many")[0] == FULL


# -- G6: notes beside offsets ----------------------------------------------------------------


@pytest.mark.parametrize("note", ["x" * 4097, "ä" * 2049, "x" * 32_767])
def test_g6_a_note_that_is_too_long_is_refused_for_its_partition(victim: Victim, note: str) -> None:
    with victim.suffers("offset_metadata_too_large"):
        assert commit(victim, "g6", note=note) == NOTE_TOO_LARGE
        assert committed(victim, "g6") == -1


@pytest.mark.parametrize("note", ["x" * 4096, "ä" * 2048, None, ""])
def test_g6_a_note_that_is_just_short_enough_is_kept(victim: Victim, note: str | None) -> None:
    with victim.suffers(None):
        assert commit(victim, "g6-fine", note=note) == OK


@pytest.mark.parametrize(
    ("topic", "partition"), [("unknown", 0), ("t", 1), ("t", -1), ("", 0), ("../t", 0)]
)
def test_a_commit_for_what_does_not_exist_is_refused(
    victim: Victim, topic: str, partition: int
) -> None:
    with victim.suffers("unknown_topic"):
        assert commit(victim, "g6", topic=topic, partition=partition) == UNKNOWN_TOPIC


# -- G7: names of groups ---------------------------------------------------------------------

TRICKS = [
    "a/offsets/t/0",
    "a/metadata",
    "a/coordinator",
    "/",
    "..",
    "../topics/t/config",
    "a%2Foffsets",
    "a\0b",
    "\0",
    "*",
    "\u202egnp.exe",
    "e\u0301",
    "\u00e9",
    "🦜" * 250,
    "\U0010ffff",
    "x" * 1000,
    " ",
    "\n",
    "' OR 1=1 --",
]


@pytest.mark.parametrize("group", TRICKS, ids=range(len(TRICKS)))
def test_g7_a_group_has_its_name_for_itself_whatever_it_is(victim: Victim, group: str) -> None:
    with victim.suffers(None):
        assert commit(victim, group, offset=1 + TRICKS.index(group)) == OK
        assert committed(victim, group) == 1 + TRICKS.index(group)
        assert committed(victim, "a") == -1
        answer = victim.ask(victim.connect(), frame(LIST, 2, 1, b""))
        assert string(group) + string("") in answer


def test_g7_no_name_reaches_out_of_its_place_in_the_store(victim: Victim) -> None:
    with victim.suffers(None):
        for number, group in enumerate(TRICKS):
            assert commit(victim, group, offset=1 + number) == OK
    uri = f"file:{victim.process.data / 'metadata.db'}?mode=ro"
    with sqlite3.connect(uri, uri=True) as database:
        keys = [row[0] for row in database.execute("SELECT key FROM entry")]
    parts = [key.split("/") for key in keys if "/consumers" in key]
    assert {tuple(row[:3]) for row in parts} == {("", "kafscale", "consumers")}
    # Other doors keep offsets of other topics in this broker: a topic is one part of a key.
    shapes = {(*row[4:5], *("topic" for _ in row[5:-1]), *row[6:]) for row in parts}
    assert shapes <= {("coordinator",), ("metadata",), ("offsets", "topic", "0")}
    assert len({row[3] for row in parts}) >= len(TRICKS)
    assert all(key.isascii() and key.isprintable() for key in keys)


@pytest.mark.parametrize("size", [1001, 20_000, 32_767])
def test_g7_a_name_of_many_characters_is_invalid(victim: Victim, size: int) -> None:
    with victim.suffers("invalid_group_id", times=2):
        assert join(victim, "x" * size)[0] == BAD_GROUP_ID
        assert commit(victim, "x" * size) == BAD_GROUP_ID


def test_g7_a_name_of_64_kib_is_invalid(victim: Victim) -> None:
    """Only flexible versions can say it: heartbeat, version 4."""
    size = 1 << 16
    length = bytes([(size + 1) & 0x7F | 0x80, (size + 1) >> 7 & 0x7F | 0x80, (size + 1) >> 14])
    body = b"\0" + length + b"x" * size + struct.pack(">i", 1) + b"\x02m\0\0"
    with victim.suffers("invalid_group_id"):
        answer = victim.ask(victim.connect(), frame(HEARTBEAT, 4, 1, body))
        assert struct.unpack_from(">h", answer, 5)[0] == BAD_GROUP_ID


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"\xed\xa0\x80", b"a\xc0\xaf"])
def test_g7_a_name_that_is_no_text_closes_the_connection(victim: Victim, raw: bytes) -> None:
    with victim.suffers("malformed_request"):
        sock = victim.connect()
        name = struct.pack(">h", len(raw)) + raw
        sock.sendall(frame(HEARTBEAT, 3, 1, name + about_member("")[2:]))
        assert is_closed(sock)


# -- administration --------------------------------------------------------------------------


def test_offsets_of_groups_and_partitions_that_do_not_exist_cannot_be_deleted(
    victim: Victim,
) -> None:
    def delete(group: str, topic: str, partition: int) -> bytes:
        one = struct.pack(">i", 1) + string(topic) + struct.pack(">ii", 1, partition)
        return victim.ask(victim.connect(), frame(OFFSET_DELETE, 0, 1, string(group) + one))

    with victim.suffers(None):
        assert struct.unpack_from(">h", delete("never heard of", "t", 0))[0] == NOT_FOUND
        assert commit(victim, "has-some") == OK
        answer = delete("has-some", "t", 99)
        assert struct.unpack_from(">h", answer)[0] == OK
        assert struct.unpack_from(">h", answer, len(answer) - 2)[0] == UNKNOWN_TOPIC
        assert committed(victim, "has-some") == 7


def test_elections_of_what_does_not_exist_are_refused_one_by_one(victim: Victim) -> None:
    body = b"\0" + struct.pack(">i", 1) + string("t") + struct.pack(">iiii", 2, 0, 5, 1000)
    with victim.suffers("unknown_topic"):
        answer = victim.ask(victim.connect(), frame(ELECT, 1, 1, body))
        assert struct.pack(">ih", 0, NOT_NEEDED) in answer
        assert struct.pack(">ih", 5, UNKNOWN_TOPIC) in answer


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", "", "x" * 32_767])
@pytest.mark.parametrize("version", [0, 1])
def test_s1_a_client_that_wants_to_log_in_is_refused_and_told_why(
    victim: Victim, mechanism: str, version: int
) -> None:
    with victim.suffers("unsupported_sasl_mechanism"):
        sock = victim.connect()
        answer = victim.ask(sock, frame(SASL_HANDSHAKE, version, 1, string(mechanism)))
        assert answer == struct.pack(">hi", BAD_MECHANISM, 0)
        assert victim.is_served(sock)
