"""ListTransactions: API 66, versions 0-2. Transactions are not supported: there is none.

Every client may ask: each transaction listed would have to be one that the client may describe.
"""

from typing import Final

from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.wire.kafka.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
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


def answer(call: Call) -> Answer:
    """List nothing, and name the states that no transaction could ever be in."""
    request: ListTransactionsRequest = call.message
    unknown = dict.fromkeys(state for state in request.state_filters if state not in _STATES)
    return ListTransactionsResponse(unknown_state_filters=list(unknown))
