"""Transactional ids, as brokers tell of them: each one coordinates some.

Here: what there is, and of transactions that run, since when and in which partitions. The client
library has no verb for it. Next door: the connection (wire_requests.py), the command
(cli/brokers/transactions.py), the console's page (console/pages).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import AdminClient

from kafscale.admin.brokers.wire_requests import (
    BrokerAddress,
    ask_broker,
    error_name,
    list_addresses,
)
from kafscale.admin.errors import AdminError
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from kafscale.wire.kafka.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafscale.wire.kafka.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

MOST: Final = 1000  # transactional ids of one broker that are told
_LIST: Final = 1
_DESCRIBE: Final = 0
_FIND: Final = 2
_OF_TRANSACTIONS: Final = 1  # kind of a coordinator
_AT_REST: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})

Settings = Mapping[str, Any]  # of the client


class TransactionFacts(NamedTuple):
    """A transactional id. `started_ms` and `timeout_ms` are of a transaction that runs."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int
    started_ms: int | None
    timeout_ms: int | None
    topics: dict[str, list[int]]


class TransactionDescription(NamedTuple):
    """A transactional id with all that its coordinator knows."""

    transactional_id: str
    state: str
    producer_id: int
    epoch: int
    timeout_ms: int
    started_ms: int | None  # of the transaction that is open
    partitions: list[tuple[str, int]]


def list_transactions(
    admin: AdminClient, settings: Settings, states: Sequence[str] = (), older_than_ms: int = -1
) -> list[TransactionFacts]:
    """Transactional ids of all brokers, of these states and open for so long if any are given."""
    request = ListTransactionsRequest(state_filters=list(states), duration_filter=older_than_ms)
    return [
        one
        for broker, address in list_addresses(admin).items()
        for one in _of_broker(broker, address, settings, request)
    ]


def _of_broker(
    broker: int, address: BrokerAddress, settings: Settings, request: ListTransactionsRequest
) -> list[TransactionFacts]:
    listed = ask_broker(address, settings, request, ListTransactionsResponse, _LIST)
    if listed.error_code:
        raise AdminError(f"broker {broker} does not list transactions", listed.error_code)
    if listed.unknown_state_filters:
        raise AdminError(f"no state is called {', '.join(listed.unknown_state_filters)}")
    rows = sorted(
        listed.transaction_states,
        key=lambda row: (row.transaction_state in _AT_REST, row.transactional_id),
    )[:MOST]
    running = [row.transactional_id for row in rows if row.transaction_state not in _AT_REST]
    described = _describe(address, settings, running) if running else []
    known = {row.transactional_id: row for row in described if not row.error_code}
    found = []
    for row in rows:
        more = known.get(row.transactional_id)
        found.append(
            TransactionFacts(
                row.transactional_id,
                row.producer_id,
                row.transaction_state,
                broker,
                more.transaction_start_time_ms if more else None,
                more.transaction_timeout_ms if more else None,
                {topic.topic: topic.partitions for topic in more.topics} if more else {},
            )
        )
    return found


def describe_transaction(
    admin: AdminClient, settings: Settings, transactional_id: str
) -> TransactionDescription:
    """One transactional id."""
    wanted = FindCoordinatorRequest(key=transactional_id, key_type=_OF_TRANSACTIONS)
    any_broker = next(iter(list_addresses(admin).values()))
    found = ask_broker(any_broker, settings, wanted, FindCoordinatorResponse, _FIND)
    if found.error_code:
        raise AdminError(f"{transactional_id}: {error_name(found.error_code)}")
    (row,) = _describe((found.host, found.port), settings, [transactional_id])
    if row.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise AdminError(f"{transactional_id}: there is no such transactional id")
    if row.error_code:
        raise AdminError(f"{transactional_id}: {error_name(row.error_code)}")
    began_ms = row.transaction_start_time_ms
    return TransactionDescription(
        transactional_id,
        row.transaction_state,
        row.producer_id,
        row.producer_epoch,
        row.transaction_timeout_ms,
        began_ms if began_ms >= 0 else None,
        [(topic.topic, number) for topic in row.topics for number in topic.partitions],
    )


def _describe(
    address: BrokerAddress, settings: Settings, names: list[str]
) -> list[TransactionState]:
    request = DescribeTransactionsRequest(names)
    answer = ask_broker(address, settings, request, DescribeTransactionsResponse, _DESCRIBE)
    return answer.transaction_states
