"""SaslAuthenticate: API 36, versions 0-2.

v1  the answer says how long the session lasts
A client that fails is answered late, so that it cannot try many passwords, and then the connection
ends.
"""

import asyncio
from typing import Final

from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import words_of
from kafscale.gateways.kafka.calls.login import IllegalState, Login
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.model.errors import AuthenticationFailed
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)

API_KEY: Final = SaslAuthenticateRequest.api_key
VERSIONS: Final = SaslAuthenticateRequest.versions
ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = ()


def answer(call: Call) -> Answer:
    """Answer one message of the mechanism."""
    if call.login is None:
        return _illegal(call, "the listener has no SASL")
    return _answer(call, call.login)


def _illegal(call: Call, why: str) -> SaslAuthenticateResponse:
    client_errors.note_bad(call, "illegal_sasl_state", why)
    return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, why)


async def _answer(call: Call, login: Login) -> SaslAuthenticateResponse:
    request: SaslAuthenticateRequest = call.message
    try:
        said = await login.step(bytes(request.auth_bytes))
    except IllegalState as problem:
        return _illegal(call, str(problem))
    except AuthenticationFailed as problem:
        await asyncio.sleep(login.rules.failure_delay_s)
        return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, words_of(problem))
    if said.is_refusal:
        await asyncio.sleep(login.rules.failure_delay_s)
    return SaslAuthenticateResponse(auth_bytes=said.message, session_lifetime_ms=said.lifetime_ms)
