"""DescribeDelegationToken: API 41, versions 1-3.

v3  the answer says who asked for a token
"""

from typing import Final

from kafscale.access.delegation_tokens import DelegationToken
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import code_of
from kafscale.gateways.kafka.calls.request_order import READS_USERS
from kafscale.gateways.kafka.calls.token_requests import may_use_tokens
from kafscale.model.errors import TokensDisabled
from kafscale.model.security.access import AccessOperation, Principal, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

API_KEY: Final = DescribeDelegationTokenRequest.api_key
VERSIONS: Final = DescribeDelegationTokenRequest.versions
ORDER: Final = READS_USERS
REQUIREMENTS: Final[tuple[Requirement, ...]] = ()  # tokens that may not be seen are left out


def answer(call: Call) -> Answer:
    """List the tokens of all owners, or of those named, that the client may see."""
    return _answer(call)


async def _answer(call: Call) -> DescribeDelegationTokenResponse:
    request: DescribeDelegationTokenRequest = call.message
    if not may_use_tokens(call):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return DescribeDelegationTokenResponse(code)
    try:
        tokens = call.engine.tokens.list_all()
    except TokensDisabled as problem:
        return DescribeDelegationTokenResponse(code_of(problem))
    owners = None
    if request.owners is not None:
        owners = {Principal(row.principal_type, row.principal_name) for row in request.owners}
    rows = [
        _row(call, token)
        async for token in call.each(tokens)
        if (owners is None or token.owner in owners) and _may_see(call, token)
    ]
    return DescribeDelegationTokenResponse(tokens=rows)


def _may_see(call: Call, token: DelegationToken) -> bool:
    return (
        token.is_of(call.principal)
        or call.allows(AccessOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or call.allows(AccessOperation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner))
    )


def _row(call: Call, token: DelegationToken) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        token.owner.kind,
        token.owner.name,
        token.requester.kind,
        token.requester.name,
        token.issued_ms,
        token.expires_ms,
        token.latest_ms,
        token.token_id,
        call.engine.tokens.hmac_of(token),
        [DescribedDelegationTokenRenewer(one.kind, one.name) for one in token.renewers],
    )
