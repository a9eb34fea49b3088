"""SaslHandshake: API 17, versions 0-1.

v0  the mechanism's messages follow as frames without a header
v1  they follow in SaslAuthenticate

A listener without SASL offers no mechanism, and a client that asks for one is told so. As in Kafka,
ApiVersions lists this API all the same; clients without SASL never use it.
"""

from typing import Final

from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.login import IllegalState
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

API_KEY: Final = SaslHandshakeRequest.api_key
VERSIONS: Final = SaslHandshakeRequest.versions
ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = ()


def answer(call: Call) -> Answer:
    """Begin a conversation by the mechanism, if it is offered."""
    request: SaslHandshakeRequest = call.message
    login = call.login
    if login is None:
        client_errors.note_bad(call, "unsupported_sasl_mechanism", repr(request.mechanism[:100]))
        return SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    offered = list(login.mechanisms)
    try:
        is_offered = login.handshake(request.mechanism, call.version)
    except IllegalState as problem:
        client_errors.note_bad(call, "illegal_sasl_state", str(problem))
        return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE, offered)
    if is_offered:
        return SaslHandshakeResponse(mechanisms=offered)
    client_errors.note_bad(call, "unsupported_sasl_mechanism", repr(request.mechanism[:100]))
    return SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, offered)
