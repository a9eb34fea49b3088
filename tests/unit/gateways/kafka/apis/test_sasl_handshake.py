import pytest

from kafscale.wire.kafka.messages.api_versions import ApiVersionsRequest
from kafscale.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from tests.unit.gateways.kafka.caller import Caller

UNSUPPORTED_MECHANISM = 33


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "GSSAPI", ""])
async def test_no_mechanism_is_offered_and_the_connection_stays(
    caller: Caller, mechanism: str, version: int
) -> None:
    answer = await caller.ask(SaslHandshakeRequest(mechanism), version)
    assert (answer.error_code, answer.mechanisms) == (UNSUPPORTED_MECHANISM, [])
    assert (await caller.ask(ApiVersionsRequest(), 0)).error_code == 0
