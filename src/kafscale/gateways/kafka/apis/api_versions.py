"""ApiVersions: API 18, versions 0-4.

v3  the client names itself; an illegal name gets INVALID_REQUEST. The answer has the features that
    all brokers know
A version that this broker does not know is answered in version 0 with UNSUPPORTED_VERSION and the
list.
"""

import re
from collections.abc import Iterable
from typing import Final

from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.features import FEATURES, levels_of
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

API_KEY: Final = ApiVersionsRequest.api_key
VERSIONS: Final = ApiVersionsRequest.versions
ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = ()

_LEGAL_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9\-.]*[A-Za-z0-9])?")


def answer(call: Call) -> Answer:
    """List what is offered."""
    request: ApiVersionsRequest = call.message
    if call.version >= 3 and not (
        _LEGAL_NAME.fullmatch(request.client_software_name)
        and _LEGAL_NAME.fullmatch(request.client_software_version)
    ):
        client_errors.note_bad(
            call, "illegal_software_name", repr(request.client_software_name[:100])
        )
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    # Only from version 4 on may the lowest level be 0: earlier clients take that for an error.
    lowest_shown = 0 if call.version >= 4 else 1
    return ApiVersionsResponse(
        api_keys=_rows(call.context.offered),
        supported_features=[
            SupportedFeatureKey(one.name, one.lowest, one.highest)
            for one in FEATURES
            if one.lowest >= lowest_shown
        ],
        finalized_features_epoch=call.engine.cluster.generation,
        finalized_features=[
            FinalizedFeatureKey(one.name, level, level)
            for one, level in levels_of(call.engine.cluster).items()
        ],
    )


def unsupported(offered: Iterable[tuple[int, range]]) -> ApiVersionsResponse:
    """The answer to a client newer than this broker: it asks again in a version of the list."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_rows(offered))


def _rows(offered: Iterable[tuple[int, range]]) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=key, min_version=versions[0], max_version=versions[-1])
        for key, versions in offered
    ]
