"""FindCoordinator: API 10, versions 0-5.

v1  key_type (0 group, 1 transaction); throttle_time_ms, error_message
v2  throttling is left to the client
v3  flexible
v4  several keys at once
v5  the error TRANSACTION_ABORTABLE may be answered
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int8, Int16, Int32, Message, Struct, V, message

API_KEY: Final = 10
VERSIONS: Final = range(6)
FLEXIBLE_FROM: Final = 3


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class FindCoordinatorRequest(Message):
    key: Annotated[str, V(0, 3)] = ""
    key_type: Annotated[Int8, V(1)] = 0
    coordinator_keys: Annotated[list[str], V(4)] = []


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class FindCoordinatorResponse(Message):
    throttle_time_ms: Annotated[Int32, V(1)] = 0
    error_code: Annotated[Int16, V(0, 3)] = 0
    error_message: Annotated[str | None, V(1, 3)] = None
    node_id: Annotated[Int32, V(0, 3)] = 0
    host: Annotated[str, V(0, 3)] = ""
    port: Annotated[Int32, V(0, 3)] = 0
    coordinators: Annotated[list[Coordinator], V(4)] = []


class Coordinator(Struct):
    key: str = ""
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
