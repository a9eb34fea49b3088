import pytest

from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.describe_cluster import DescribeClusterRequest
from tests.unit.gateways.kafka.caller import Caller


@pytest.mark.parametrize("version", range(2))
async def test_every_version_tells_who_is_there(
    broker: InProcessBroker, caller: Caller, version: int
) -> None:
    answer = await caller.ask(DescribeClusterRequest(), version)
    identity = broker.engine.identity
    assert (answer.error_code, answer.cluster_id) == (0, identity.cluster_id)
    assert answer.controller_id == identity.broker_id
    (row,) = answer.brokers
    assert (row.broker_id, row.host, row.port) == (identity.broker_id, "127.0.0.1", broker.port)
    assert row.rack is None


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
async def test_there_are_no_controllers_to_ask_for(caller: Caller, kind: int, code: int) -> None:
    answer = await caller.ask(DescribeClusterRequest(endpoint_type=kind), 1)
    assert (answer.error_code, answer.brokers) == (code, [])
