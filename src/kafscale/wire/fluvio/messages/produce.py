"""Produce (0): record sets for partitions. One partition may be named several times."""

from typing import Annotated, Final

from kafscale.wire.fluvio.errors import NO_ERROR, FluvioError
from kafscale.wire.fluvio.messages.smart_modules import SmartModuleInvocation
from kafscale.wire.fluvio.schema import I16, I32, I64, U32, FluvioTable, RecordSetBytes, VersionSpan

API_KEY: Final = 0
VERSIONS: Final = range(8, 26)


class PartitionProduceData(FluvioTable, frozen=True):
    partition: U32 = 0
    records: RecordSetBytes = ()


class TopicProduceData(FluvioTable, frozen=True):
    name: str = ""
    partitions: list[PartitionProduceData] = []


class ProduceRequest(FluvioTable, frozen=True):
    transactional_id: str | None = None
    isolation: I16 = 1  # negative: read committed
    timeout_ms: I32 = 1500
    topics: list[TopicProduceData] = []
    smart_modules: list[SmartModuleInvocation] = []


class PartitionProduceResponse(FluvioTable, frozen=True):
    partition: U32 = 0
    error: FluvioError = NO_ERROR
    base_offset: I64 = -1
    log_append_time_ms: Annotated[I64, VersionSpan(2)] = -1
    log_start_offset: Annotated[I64, VersionSpan(5)] = -1


class TopicProduceResponse(FluvioTable, frozen=True):
    name: str = ""
    partitions: list[PartitionProduceResponse] = []


class ProduceResponse(FluvioTable, frozen=True):
    topics: list[TopicProduceResponse] = []
    throttle_time_ms: I32 = 0
