import pytest

from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from tests.unit.gateways.kafka.caller import Caller


@pytest.mark.parametrize("version", range(5))
async def test_every_version_hands_out_a_fresh_id_with_epoch_0(
    caller: Caller, version: int
) -> None:
    answers = [await caller.ask(InitProducerIdRequest(None, 1000), version) for _ in range(3)]
    assert {(row.error_code, row.producer_epoch) for row in answers} == {(0, 0)}
    assert len({row.producer_id for row in answers}) == 3


async def test_a_producer_that_starts_over_gets_another_id(caller: Caller) -> None:
    first = await caller.ask(InitProducerIdRequest(None, 1000), 4)
    again = await caller.ask(InitProducerIdRequest(None, 1000, first.producer_id, 0), 4)
    assert (again.error_code, again.producer_epoch) == (0, 0)
    assert again.producer_id != first.producer_id


async def test_ids_are_not_repeated_after_a_restart(
    broker: InProcessBroker, caller: Caller
) -> None:
    before = await caller.ask(InitProducerIdRequest(None, 1000), 4)
    await broker.restart()
    async with Caller(broker.port) as later:
        after = await later.ask(InitProducerIdRequest(None, 1000), 4)
    assert after.producer_id > before.producer_id


@pytest.mark.parametrize(
    ("transactional_id", "timeout_ms", "identity", "code"),
    [
        ("", 1000, (-1, -1), ErrorCode.INVALID_REQUEST),
        ("tx", 0, (-1, -1), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("tx", 900_001, (-1, -1), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("tx", 1000, (7, -1), ErrorCode.INVALID_REQUEST),
        ("tx", 1000, (-1, 7), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_makes_no_sense_is_refused(
    caller: Caller,
    transactional_id: str,
    timeout_ms: int,
    identity: tuple[int, int],
    code: ErrorCode,
) -> None:
    answer = await caller.ask(InitProducerIdRequest(transactional_id, timeout_ms, *identity), 4)
    assert (answer.error_code, answer.producer_id) == (code, -1)
