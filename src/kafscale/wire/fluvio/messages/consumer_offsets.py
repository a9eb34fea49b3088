"""The offsets that consumers keep in the cluster: Update (1006), Delete (1007) and Fetch (1008).

A consumer's offset is that of the last record it has consumed.
"""

from typing import Annotated, Final

from kafscale.wire.fluvio.errors import NO_ERROR, FluvioError
from kafscale.wire.fluvio.schema import I64, U32, U64, FluvioTable, VersionSpan

UPDATE_KEY: Final = 1006
DELETE_KEY: Final = 1007
FETCH_KEY: Final = 1008
VERSIONS: Final = range(23, 26)


class ReplicaKey(FluvioTable, frozen=True):
    topic: str = ""
    partition: U32 = 0


class UpdateConsumerOffsetRequest(FluvioTable, frozen=True):
    """The stream on this connection says which consumer and which partition it is."""

    offset: I64 = 0
    session_id: U32 = 0


class UpdateConsumerOffsetResponse(FluvioTable, frozen=True):
    offset: I64 = 0
    error: FluvioError = NO_ERROR


class DeleteConsumerOffsetRequest(FluvioTable, frozen=True):
    replica: ReplicaKey = ReplicaKey()
    consumer_id: str = ""


class DeleteConsumerOffsetResponse(FluvioTable, frozen=True):
    error: FluvioError = NO_ERROR


class OffsetFilter(FluvioTable, frozen=True):
    replica: ReplicaKey | None = None
    consumer_id: str | None = None


class FetchConsumerOffsetsRequest(FluvioTable, frozen=True):
    filter: Annotated[OffsetFilter | None, VersionSpan(24)] = None


class ConsumerOffset(FluvioTable, frozen=True):
    consumer_id: str = ""
    replica: ReplicaKey = ReplicaKey()
    offset: I64 = 0
    modified_time_s: U64 = 0


class FetchConsumerOffsetsResponse(FluvioTable, frozen=True):
    error: FluvioError = NO_ERROR
    consumers: list[ConsumerOffset] = []
