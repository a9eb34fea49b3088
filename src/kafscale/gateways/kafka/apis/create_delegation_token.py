"""CreateDelegationToken: API 38, versions 1-3.

v3  a client may ask for a token of another owner, if it is allowed to
"""

from typing import Final

from kafscale.gateways.kafka.access.requirements import is_denied
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement, in_time
from kafscale.gateways.kafka.calls.errors import code_of
from kafscale.gateways.kafka.calls.request_order import CHANGES_USERS
from kafscale.gateways.kafka.calls.token_requests import may_use_tokens
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, Principal, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

API_KEY: Final = CreateDelegationTokenRequest.api_key
VERSIONS: Final = CreateDelegationTokenRequest.versions
ORDER: Final = CHANGES_USERS
REQUIREMENTS: Final[tuple[Requirement, ...]] = ()  # asked below, where the owner is known

_USER: Final = "User"
_MOST_TEXT: Final = 8192  # characters of the names of owner and renewers together
_WITHIN_S: Final = 30.0


def answer(call: Call) -> Answer:
    """Make a token for the client, or for the owner that it names."""
    return _answer(call)


async def _answer(call: Call) -> CreateDelegationTokenResponse:
    request: CreateDelegationTokenRequest = call.message
    owner = _owner(call)
    refusal = _refusal(call, owner)
    if refusal:
        return _refused(call, owner, refusal)
    renewers = [Principal(row.principal_type, row.principal_name) for row in request.renewers]
    tokens = call.engine.tokens
    try:
        made = tokens.create(owner, call.principal, renewers, request.max_lifetime_ms)
        token = await in_time(call, made, _WITHIN_S)
    except KafscaleError as problem:
        return _refused(call, owner, code_of(problem))
    return CreateDelegationTokenResponse(
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=call.principal.kind,
        token_requester_principal_name=call.principal.name,
        issue_timestamp_ms=token.issued_ms,
        expiry_timestamp_ms=token.expires_ms,
        max_timestamp_ms=token.latest_ms,
        token_id=token.token_id,
        hmac=tokens.hmac_of(token),
    )


def _owner(call: Call) -> Principal:
    request: CreateDelegationTokenRequest = call.message
    if not request.owner_principal_name:
        return call.principal
    return Principal(request.owner_principal_type or _USER, request.owner_principal_name)


def _refusal(call: Call, owner: Principal) -> ErrorCode:
    request: CreateDelegationTokenRequest = call.message
    if not may_use_tokens(call):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    kinds = {owner.kind, *(row.principal_type for row in request.renewers)}
    if kinds != {_USER}:
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    names = [owner.name, *(row.principal_name for row in request.renewers)]
    if "" in names or sum(map(len, names)) > _MOST_TEXT:
        return ErrorCode.INVALID_REQUEST
    if owner != call.principal and is_denied(
        call, AccessOperation.CREATE_TOKENS, ResourceType.USER, str(owner)
    ):
        return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def _refused(call: Call, owner: Principal, code: ErrorCode) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        code,
        owner.kind,
        owner.name,
        call.principal.kind,
        call.principal.name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
