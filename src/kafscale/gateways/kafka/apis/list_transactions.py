"""ListTransactions: API 66, versions 0-2.

Each broker lists the transactional ids that it coordinates. Every client may ask: what it is told
are the ids that it may describe.
v1  a filter by how long a transaction has taken; v2 a filter by a pattern of the id
"""

from collections.abc import Callable
from typing import Final

import re2

from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import coordinator_code_of
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.transactions.rows import AT_REST, Transaction
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

API_KEY: Final = ListTransactionsRequest.api_key
VERSIONS: Final = ListTransactionsRequest.versions
ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = ()

_STATES: Final = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    }
)


_LONGEST_PATTERN: Final = 1000

_Filter = Callable[[str, Transaction], bool]


def answer(call: Call) -> Answer:
    """List what passes the filters, and name the states that no transaction could ever be in."""
    return _answer(call)


async def _answer(call: Call) -> ListTransactionsResponse:
    request: ListTransactionsRequest = call.message
    unknown = dict.fromkeys(state for state in request.state_filters if state not in _STATES)
    try:
        passes = _filter(request, call.engine.clock.now_ms())
    except re2.error:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    try:
        found = await call.engine.transactions.list_all()
    except KafscaleError as problem:
        client_errors.note(call, problem)
        return ListTransactionsResponse(error_code=coordinator_code_of(problem))
    rows = [
        TransactionState(name, row.producer_id, row.state_name)
        async for name, row in call.each(found)
        if passes(name, row)
        and call.allows(AccessOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name)
    ]
    return ListTransactionsResponse(unknown_state_filters=list(unknown), transaction_states=rows)


def _filter(request: ListTransactionsRequest, now_ms: int) -> _Filter:
    states, producers = set(request.state_filters), set(request.producer_id_filters)
    pattern = None
    if request.transactional_id_pattern:
        if len(request.transactional_id_pattern) > _LONGEST_PATTERN:
            raise re2.error("too long")
        pattern = re2.compile(request.transactional_id_pattern)

    def passes(name: str, row: Transaction) -> bool:
        running_ms = now_ms - row.started_ms if row.state not in AT_REST else -1
        return (
            (not states or row.state_name in states)
            and (not producers or row.producer_id in producers)
            and (request.duration_filter < 0 or running_ms > request.duration_filter)
            and (pattern is None or pattern.fullmatch(name) is not None)
        )

    return passes
