import pytest

from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from tests.unit.gateways.kafka.caller import Caller

NO_COORDINATOR = (-1, "", -1)


@pytest.mark.parametrize("group", ["g", "", "g" * 5000])
@pytest.mark.parametrize("version", range(4))
async def test_this_broker_coordinates_every_group(
    broker: InProcessBroker, caller: Caller, version: int, group: str
) -> None:
    found = await caller.ask(FindCoordinatorRequest(group), version)
    assert (found.error_code, found.error_message) == (0, None)
    here = (broker.engine.identity.broker_id, "127.0.0.1", broker.port)
    assert (found.node_id, found.host, found.port) == here


async def test_several_groups_are_found_at_once(broker: InProcessBroker, caller: Caller) -> None:
    answer = await caller.ask(FindCoordinatorRequest(coordinator_keys=["a", "", "b"]), 4)
    assert [row.key for row in answer.coordinators] == ["a", "", "b"]
    here = (broker.engine.identity.broker_id, "127.0.0.1", broker.port)
    assert {(row.node_id, row.host, row.port) for row in answer.coordinators} == {here}
    assert {(row.error_code, row.error_message) for row in answer.coordinators} == {(0, None)}
    assert (await caller.ask(FindCoordinatorRequest(coordinator_keys=[]), 4)).coordinators == []


@pytest.mark.parametrize(
    ("key_type", "code", "why"),
    [
        (2, ErrorCode.INVALID_REQUEST, "there is no key type 2"),
        (-1, ErrorCode.INVALID_REQUEST, "there is no key type -1"),
    ],
)
@pytest.mark.parametrize("version", range(1, 5))
async def test_other_keys_than_groups_have_no_coordinator(
    caller: Caller, version: int, key_type: int, code: int, why: str
) -> None:
    request = FindCoordinatorRequest("tx", key_type, ["tx"])
    answer = await caller.ask(request, version)
    (row,) = [answer] if version < 4 else answer.coordinators
    assert (row.error_code, row.error_message) == (code, why)
    assert (row.node_id, row.host, row.port) == NO_COORDINATOR
