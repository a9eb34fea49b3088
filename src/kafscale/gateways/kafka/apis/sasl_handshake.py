"""SaslHandshake: API 17, versions 0-1.

Authentication is not there yet: no mechanism is offered, and a client that asks for one is told
so. As in Kafka, ApiVersions lists this API all the same; clients without SASL never use it.
"""

from typing import Final

from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

API_KEY: Final = SaslHandshakeRequest.api_key
VERSIONS: Final = SaslHandshakeRequest.versions
ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = ()


def answer(call: Call) -> Answer:
    """Refuse every mechanism."""
    request: SaslHandshakeRequest = call.message
    client_errors.note_bad(call, "unsupported_sasl_mechanism", repr(request.mechanism[:100]))
    return SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
