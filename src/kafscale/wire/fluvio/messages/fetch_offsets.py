"""FetchOffsets (1002): where partitions begin and end."""

from typing import Annotated, Final

from kafscale.wire.fluvio.errors import NO_ERROR, FluvioError
from kafscale.wire.fluvio.schema import I64, U32, FluvioTable, VersionSpan

API_KEY: Final = 1002
VERSIONS: Final = range(22, 26)


class TopicOffsetsRequest(FluvioTable, frozen=True):
    name: str = ""
    partitions: list[U32] = []


class FetchOffsetsRequest(FluvioTable, frozen=True):
    topics: list[TopicOffsetsRequest] = []
    consumer_id: Annotated[str | None, VersionSpan(23, 23)] = None


class PartitionOffsets(FluvioTable, frozen=True):
    error: FluvioError = NO_ERROR
    partition: U32 = 0
    start_offset: I64 = -1
    last_stable_offset: I64 = -1


class TopicOffsets(FluvioTable, frozen=True):
    name: str = ""
    partitions: list[PartitionOffsets] = []


class FetchOffsetsResponse(FluvioTable, frozen=True):
    topics: list[TopicOffsets] = []
