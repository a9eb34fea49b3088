"""SaslHandshake: API 17, versions 0-1.

Nobody can log in here, and a client that wants to is told so: no mechanism is offered. As in
Kafka the API is on the list although this door needs no login; clients without one never use it.
"""

from typing import Final

from kafscale.gateways.kafka import client_errors
from kafscale.gateways.kafka.call import Answer, Call
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

API_KEY: Final = SaslHandshakeRequest.api_key
VERSIONS: Final = SaslHandshakeRequest.versions


def answer(call: Call) -> Answer:
    """Offer nothing."""
    request: SaslHandshakeRequest = call.message
    client_errors.note_bad(call, "unsupported_sasl_mechanism", repr(request.mechanism[:100]))
    return SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
