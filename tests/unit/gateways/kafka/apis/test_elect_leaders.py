import pytest

from kafscale.wire.kafka.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.unit.gateways.kafka.caller import Caller

UNKNOWN, INVALID_REQUEST, NOT_NEEDED = 3, 42, 84


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_every_partition_has_its_leader_already(caller: Caller, version: int) -> None:
    await caller.create("t", 2)
    wanted = [TopicPartitions("t", [0, 1, 2, -1]), TopicPartitions("missing", [0])]
    answer = await caller.ask(ElectLeadersRequest(topic_partitions=wanted), version)
    assert answer.error_code == 0
    found = {
        (topic.topic, row.partition_id): (row.error_code, bool(row.error_message))
        for topic in answer.replica_election_results
        for row in topic.partition_result
    }
    assert found == {
        ("t", 0): (NOT_NEEDED, True),
        ("t", 1): (NOT_NEEDED, True),
        ("t", 2): (UNKNOWN, True),
        ("t", -1): (UNKNOWN, True),
        ("missing", 0): (UNKNOWN, True),
    }


async def test_an_election_everywhere_has_nothing_to_do(caller: Caller) -> None:
    await caller.create("t", 2)
    answer = await caller.ask(ElectLeadersRequest(topic_partitions=None), 2)
    assert (answer.error_code, answer.replica_election_results) == (0, [])


async def test_an_unknown_kind_of_election_is_an_invalid_request(caller: Caller) -> None:
    answer = await caller.ask(ElectLeadersRequest(election_type=2, topic_partitions=None), 2)
    assert answer.error_code == INVALID_REQUEST
