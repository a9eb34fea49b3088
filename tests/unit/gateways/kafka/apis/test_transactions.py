"""What a broker without transactions answers about them."""

import pytest
from structlog.testing import capture_logs

from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.describe_transactions import DescribeTransactionsRequest
from kafscale.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from kafscale.wire.kafka.messages.list_transactions import ListTransactionsRequest
from tests.unit.gateways.kafka.caller import Caller


@pytest.mark.parametrize("version", range(3))
async def test_there_are_no_transactions_in_any_state(caller: Caller, version: int) -> None:
    answer = await caller.ask(ListTransactionsRequest(), version)
    assert (answer.error_code, answer.transaction_states) == (0, [])
    answer = await caller.ask(ListTransactionsRequest(["Ongoing", "Lost", "Lost"]), version)
    assert answer.unknown_state_filters == ["Lost"]


async def test_no_transactional_id_is_found(caller: Caller) -> None:
    answer = await caller.ask(DescribeTransactionsRequest(["a", "b", "a"]), 0)
    found = [(row.transactional_id, row.error_code) for row in answer.transaction_states]
    assert found == [(name, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND) for name in ("a", "b")]


async def test_the_log_says_which_client_wanted_transactions(
    broker: InProcessBroker, caller: Caller
) -> None:
    with capture_logs() as lines:
        await caller.ask(FindCoordinatorRequest("orders-1", 1), 3)
        await caller.ask(FindCoordinatorRequest("group", 0), 3)
    (line,) = [line for line in lines if line.get("reason") == "transaction"]
    assert "'tests'" in line["detail"]
    assert "'orders-1'" in line["detail"]
