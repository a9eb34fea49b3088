"""ListTransactions: API 66, versions 0-2, flexible from the first.

v1  a filter by duration
v2  a filter by a pattern of transactional ids
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int16, Int32, Int64, Message, Struct, V, message

API_KEY: Final = 66
VERSIONS: Final = range(3)
FLEXIBLE_FROM: Final = 0


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ListTransactionsRequest(Message):
    state_filters: list[str] = []
    producer_id_filters: list[Int64] = []
    duration_filter: Annotated[Int64, V(1)] = -1
    transactional_id_pattern: Annotated[str | None, V(2)] = None


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class ListTransactionsResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[str] = []
    transaction_states: list[TransactionState] = []


class TransactionState(Struct):
    transactional_id: str = ""
    producer_id: Int64 = 0
    transaction_state: str = ""
