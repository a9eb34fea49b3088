"""ExpireDelegationToken: API 40, versions 1-2."""

from typing import Final

from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement, in_time
from kafscale.gateways.kafka.calls.errors import code_of
from kafscale.gateways.kafka.calls.request_order import CHANGES_USERS
from kafscale.gateways.kafka.calls.token_requests import may_use_tokens
from kafscale.model.errors import KafscaleError
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

API_KEY: Final = ExpireDelegationTokenRequest.api_key
VERSIONS: Final = ExpireDelegationTokenRequest.versions
ORDER: Final = CHANGES_USERS
REQUIREMENTS: Final[tuple[Requirement, ...]] = ()  # its owner and its renewers may

_WITHIN_S: Final = 30.0


def answer(call: Call) -> Answer:
    """Change the expiry of a token; a period below zero ends it at once."""
    return _answer(call)


async def _answer(call: Call) -> ExpireDelegationTokenResponse:
    request: ExpireDelegationTokenRequest = call.message
    if not may_use_tokens(call):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return ExpireDelegationTokenResponse(code, -1)
    tokens, shown = call.engine.tokens, bytes(request.hmac)
    try:
        done = tokens.expire(shown, call.principal, request.expiry_time_period_ms)
        expires_ms = await in_time(call, done, _WITHIN_S)
    except KafscaleError as problem:
        return ExpireDelegationTokenResponse(code_of(problem), -1)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms)
