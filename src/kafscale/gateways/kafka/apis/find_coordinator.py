"""FindCoordinator: API 10, versions 0-5.

v0  the coordinator of a group; v1 or of a transactional id; v4 several keys at once
Every group and every transactional id has one coordinator among the brokers.
"""

from typing import Final

from kafscale.gateways.kafka.access.api_requirements import CoordinatorKeys
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

API_KEY: Final = FindCoordinatorRequest.api_key
VERSIONS: Final = FindCoordinatorRequest.versions
ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = (CoordinatorKeys(),)

_GROUP: Final = 0
_TRANSACTION: Final = 1
_SEVERAL_FROM: Final = 4


def answer(call: Call) -> Answer:
    """Name the coordinator of every key, or say why there is none."""
    request: FindCoordinatorRequest = call.message
    if call.version >= _SEVERAL_FROM:
        return _locate_each(call)
    coordinator = _locate(call, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


async def _locate_each(call: Call) -> FindCoordinatorResponse:
    request: FindCoordinatorRequest = call.message
    rows = [
        _locate(call, request.key_type, key) async for key in call.each(request.coordinator_keys)
    ]
    return FindCoordinatorResponse(coordinators=rows)


def _locate(call: Call, key_type: int, key: str) -> Coordinator:
    if key_type in (_GROUP, _TRANSACTION):
        if key_type == _GROUP:
            node = call.engine.cluster.coordinator_of(key)
        elif not key:
            why = "a transactional id has at least one character"
            return Coordinator(key, -1, "", -1, ErrorCode.INVALID_REQUEST, why)
        else:
            node = call.engine.transactions.coordinator_of(key)
        for coordinator, endpoint in call.reachable([node] if node is not None else []):
            return Coordinator(key, coordinator.broker_id, endpoint.host, endpoint.port)
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Coordinator(key, -1, "", -1, code, "no broker coordinates it now")
    code = ErrorCode.INVALID_REQUEST
    why = f"there is no key type {key_type}"
    return Coordinator(key, -1, "", -1, code, why)
