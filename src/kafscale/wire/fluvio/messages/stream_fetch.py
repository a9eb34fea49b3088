"""StreamFetch (1003) opens a stream of a partition; UpdateOffsets (1005) gives it credit."""

from typing import Annotated, Final

from kafscale.wire.fluvio.errors import NO_ERROR, FluvioError
from kafscale.wire.fluvio.messages.smart_modules import SmartModuleInvocation
from kafscale.wire.fluvio.schema import I32, I64, U8, U32, FluvioTable, RecordSetBytes, VersionSpan

API_KEY: Final = 1003
VERSIONS: Final = range(19, 26)
UPDATE_OFFSETS_KEY: Final = 1005
UPDATE_OFFSETS_VERSIONS: Final = range(1)

NO_FILTER: Final = -1


class StreamFetchRequest(FluvioTable, frozen=True):
    topic: str = ""
    partition: U32 = 0
    fetch_offset: I64 = 0
    max_bytes: I32 = 0
    isolation: U8 = 0
    smart_modules: list[SmartModuleInvocation] = []
    consumer_id: Annotated[str | None, VersionSpan(23)] = None


class AbortedTransaction(FluvioTable, frozen=True):
    producer_id: I64 = 0
    first_offset: I64 = 0


class StreamFetchResponse(FluvioTable, frozen=True):
    topic: str = ""
    stream_id: U32 = 0
    partition: U32 = 0
    error: FluvioError = NO_ERROR
    high_watermark: I64 = -1
    next_filter_offset: I64 = NO_FILTER  # where to go on, if above 0
    log_start_offset: I64 = -1
    aborted: list[AbortedTransaction] | None = None
    records: RecordSetBytes = ()


class OffsetUpdate(FluvioTable, frozen=True):
    """The offset that the client wants next on this stream."""

    offset: I64 = 0
    session_id: U32 = 0


class UpdateOffsetsRequest(FluvioTable, frozen=True):
    offsets: list[OffsetUpdate] = []


class OffsetUpdateStatus(FluvioTable, frozen=True):
    session_id: U32 = 0
    error: FluvioError = NO_ERROR


class UpdateOffsetsResponse(FluvioTable, frozen=True):
    status: list[OffsetUpdateStatus] = []
