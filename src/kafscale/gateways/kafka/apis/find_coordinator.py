"""FindCoordinator: API 10, versions 0-4.

v0  the coordinator of a group; v1 or of a transactional id; v4 several keys at once
Every group has one coordinator among the brokers. Transactions are not supported: a client that
asks for the coordinator of one gets a final error, so that it gives up at once.
"""

from typing import Final

from kafscale.gateways.kafka.call import Answer, Call
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

API_KEY: Final = FindCoordinatorRequest.api_key
VERSIONS: Final = FindCoordinatorRequest.versions

_GROUP: Final = 0
_TRANSACTION: Final = 1
_SEVERAL_FROM: Final = 4


def answer(call: Call) -> Answer:
    """Name the coordinator of every key, or say why there is none."""
    request: FindCoordinatorRequest = call.message
    if call.version >= _SEVERAL_FROM:
        rows = [_locate(call, request.key_type, key) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=rows)
    coordinator = _locate(call, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


def _locate(call: Call, key_type: int, key: str) -> Coordinator:
    if key_type == _GROUP:
        node = call.engine.cluster.coordinator_of(key)
        for coordinator, endpoint in call.reachable([node] if node is not None else []):
            return Coordinator(key, coordinator.broker_id, endpoint.host, endpoint.port)
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Coordinator(key, -1, "", -1, code, "no broker coordinates it now")
    code = ErrorCode.INVALID_REQUEST
    why = f"there is no key type {key_type}"
    if key_type == _TRANSACTION:
        # The one code that all clients take as final: librdkafka retries after INVALID_REQUEST.
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        why = "transactions are not supported"
    return Coordinator(key, -1, "", -1, code, why)
