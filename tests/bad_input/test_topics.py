"""Rows T1 and T2, and deleting what is not there."""

import struct

import pytest

from tests.bad_input import payloads
from tests.bad_input.attacked_broker import Victim
from tests.bad_input.payloads import CREATE_TOPICS, DELETE_TOPICS, METADATA, create_body
from tests.support.wire import frame, string

UNKNOWN_TOPIC, INVALID_NAME, BAD_PARTITIONS, BAD_REPLICATION, BAD_CONFIG = 3, 17, 37, 38, 40
INVALID_REQUEST = 42
BAD_NAMES = [".", "..", "a/b", "", "a" * 250, "a b", "ä", "a\0b", "a\nb", "a@b"]
BAD_NAMES += ["@shared", "@shared/0"]  # where shared logs lie
SHARED = {"storage.placement": "shared"}


def create(victim: Victim, body: bytes) -> tuple[int, str]:
    return payloads.created(victim.ask(victim.connect(), frame(CREATE_TOPICS, 1, 1, body)))


@pytest.mark.parametrize("name", BAD_NAMES)
def test_t1_a_name_no_topic_may_have_is_invalid(victim: Victim, name: str) -> None:
    with victim.suffers("invalid_topic_name"):
        code, message = create(victim, create_body(name))
        assert code == INVALID_NAME
        assert message


@pytest.mark.parametrize("name", ["..", "a/b", "a" * 250])
def test_t1_asking_about_such_a_name_creates_nothing(victim: Victim, name: str) -> None:
    with victim.suffers(None):
        body = victim.ask(
            victim.connect(), frame(METADATA, 1, 1, struct.pack(">i", 1) + string(name))
        )
        assert struct.pack(">h", INVALID_NAME) + string(name) in body


def test_t1_a_name_that_collides_with_another_is_invalid(victim: Victim) -> None:
    assert create(victim, create_body("a.b_c"))[0] in (0, 36)
    with victim.suffers("invalid_topic_name"):
        code, message = create(victim, create_body("a_b.c"))
        assert code == INVALID_NAME
        assert "a.b_c" in message


@pytest.mark.parametrize("partitions", [1_000_000, 1025, 0, -2, -(2**31)])
def test_t2_a_number_of_partitions_that_cannot_be_is_invalid(
    victim: Victim, partitions: int
) -> None:
    with victim.suffers("invalid_partition_count"):
        assert create(victim, create_body("many", partitions=partitions))[0] == BAD_PARTITIONS


def test_t2_a_replication_factor_of_3_is_taken_as_a_wish(victim: Victim) -> None:
    with victim.suffers(None):
        assert create(victim, create_body("copies", replication=3))[0] in (0, 36)


@pytest.mark.parametrize("replication", [0, -2])
def test_t2_a_replication_factor_that_makes_no_sense_is_invalid(
    victim: Victim, replication: int
) -> None:
    with victim.suffers("invalid_replication"):
        assert create(victim, create_body("copies2", replication=replication))[0] == BAD_REPLICATION


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "soon"),
        ("retention.ms", "-2"),
        ("storage.placement", "everywhere"),
        ("storage.placement", "Shared"),
        ("storage.placement", ""),
        ("no.such.setting", "1"),
        ("", ""),
    ],
)
def test_t2_a_bad_setting_is_refused_by_name(victim: Victim, name: str, value: str) -> None:
    with victim.suffers("invalid_topic_config"):
        code, message = create(victim, create_body("settings", configs={name: value}))
        assert code == BAD_CONFIG
        assert name in message


@pytest.mark.parametrize("partitions", [2**31 - 1, 100_001, 0, -2])
def test_t2_a_number_of_partitions_that_cannot_be_is_invalid_in_shared_logs_too(
    victim: Victim, partitions: int
) -> None:
    with victim.suffers("invalid_partition_count"):
        body = create_body("many", partitions=partitions, configs=SHARED)
        assert create(victim, body)[0] == BAD_PARTITIONS


def test_t2_logs_of_its_own_in_shared_logs_are_refused(victim: Victim) -> None:
    with victim.suffers("invalid_topic_config"):
        wanted = {**SHARED, "physical.partitions": "1"}
        code, message = create(victim, create_body("both", configs=wanted))
        assert (code, "physical.partitions" in message) == (BAD_CONFIG, True)


def test_deleting_what_does_not_exist_is_unknown(victim: Victim) -> None:
    with victim.suffers("unknown_topic"):
        body = struct.pack(">i", 1) + string("unknown") + struct.pack(">i", 1000)
        answer = victim.ask(victim.connect(), frame(DELETE_TOPICS, 1, 1, body))
        assert answer[8:] == string("unknown") + struct.pack(">h", UNKNOWN_TOPIC)


def test_a_topic_named_twice_is_refused_twice(victim: Victim) -> None:
    with victim.suffers("invalid_request") as lines:  # one request: one line
        one = create_body("twice")
        row = one[4:-5]
        body = struct.pack(">i", 2) + row + row + one[-5:]
        answer = victim.ask(victim.connect(), frame(CREATE_TOPICS, 1, 1, body))
        assert answer.count(string("twice") + struct.pack(">h", INVALID_REQUEST)) == 2
    assert lines[0]["count"] == 2
