"""DescribeLogDirs: API 35, versions 0-4.

v1  throttling is left to the client
v2  flexible
v3  error_code of the whole answer
v4  total_bytes and usable_bytes of a directory
"""

# ruff: noqa: RUF012 - an empty list as default is copied by msgspec
from __future__ import annotations

from typing import Annotated, Final

from kafscale.wire.kafka.schema import Int16, Int32, Int64, Message, Struct, V, message

API_KEY: Final = 35
VERSIONS: Final = range(5)
FLEXIBLE_FROM: Final = 2


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DescribeLogDirsRequest(Message):
    topics: list[DescribableLogDirTopic] | None = []  # None: all


class DescribableLogDirTopic(Struct):
    topic: str = ""
    partitions: list[Int32] = []


@message(API_KEY, VERSIONS, FLEXIBLE_FROM)
class DescribeLogDirsResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, V(3)] = 0
    results: list[DescribeLogDirsResult] = []


class DescribeLogDirsResult(Struct):
    error_code: Int16 = 0
    log_dir: str = ""
    topics: list[DescribeLogDirsTopic] = []
    total_bytes: Annotated[Int64, V(4)] = -1
    usable_bytes: Annotated[Int64, V(4)] = -1


class DescribeLogDirsTopic(Struct):
    name: str = ""
    partitions: list[DescribeLogDirsPartition] = []


class DescribeLogDirsPartition(Struct):
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: bool = False
