"""ApiVersions (18): the first request of every connection, on both ports."""

from typing import Final

from kafscale.wire.fluvio.errors import NO_ERROR, FluvioError
from kafscale.wire.fluvio.schema import I16, FluvioTable

API_KEY: Final = 18
VERSIONS: Final = range(3)


class ApiVersionsRequest(FluvioTable, frozen=True):
    """Has no fields that matter: which client it is, and on which machine."""


class ApiVersionKey(FluvioTable, frozen=True):
    api_key: I16 = 0
    min_version: I16 = 0
    max_version: I16 = 0


class ApiVersionsResponse(FluvioTable, frozen=True):
    error: FluvioError = NO_ERROR
    api_keys: list[ApiVersionKey] = []
    platform_version: str = ""
