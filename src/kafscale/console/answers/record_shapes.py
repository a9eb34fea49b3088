"""What the API takes and gives of records: searching, following, producing, deleting.

Next door: topics, groups, the fleet (shapes.py), which route takes what (console/routes.py).
"""

from typing import Annotated, Literal

from msgspec import Meta, field

from kafscale.console.answers.shapes import ApiShape, Digits, Unknown

DecoderName = Literal[
    "auto", "text", "json", "hex", "base64", "int32", "int64", "float", "double", "uuid",
    "avro", "protobuf", "registry",
]  # fmt: skip
EncodingName = Literal["text", "base64", "hex"]
EndReason = Literal["limit", "budget", "end", "cancelled"]


class Budget(ApiShape, kw_only=True):
    """When a search stops although there is more."""

    records: Annotated[int, Meta(ge=1, le=100_000_000)] = 1_000_000  # looked at
    bytes: Annotated[int, Meta(ge=1, le=1 << 40)] = 256 << 20
    seconds: Annotated[int, Meta(ge=1, le=600)] = 30


class RecordRange(ApiShape, kw_only=True):
    """Which records: `from` and `to` are offsets, or times in ms, as the kinds say."""

    from_kind: Literal["newest", "oldest", "offset", "time"] = "newest"
    from_value: Digits | None = None
    to_kind: Literal["end", "offset", "time"] = "end"
    to_value: Digits | None = None
    partitions: list[Annotated[int, Meta(ge=0)]] = field(default_factory=list)  # none: all
    snapshot: Annotated[str, Meta(max_length=300)] | None = None  # as of this one


class SearchRequest(RecordRange, kw_only=True):
    """What to look for. `from_kind` newest reads backwards, newest records first."""

    find: Annotated[str, Meta(max_length=1000)] = ""  # these bytes in key, value or headers
    filter: Annotated[str, Meta(max_length=1000)] = ""  # the closed subset of CEL
    key_as: DecoderName = "auto"
    value_as: DecoderName = "auto"
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 100
    budget: Budget = field(default_factory=Budget)
    after: Annotated[str, Meta(max_length=100_000)] | None = None  # the cursor of the last end


class TailRequest(ApiShape, kw_only=True):
    """What to follow, from now on."""

    partitions: list[Annotated[int, Meta(ge=0)]] = field(default_factory=list)
    find: Annotated[str, Meta(max_length=1000)] = ""
    filter: Annotated[str, Meta(max_length=1000)] = ""
    key_as: DecoderName = "auto"
    value_as: DecoderName = "auto"


class DecodedBytes(ApiShape, kw_only=True):
    """A key or a value. `text` is null for a tombstone, and where values are hidden."""

    text: str | None
    decoder: str  # which one made the text; "hidden"
    bytes: int  # of the whole; the text ends after 64 KiB
    cut: bool = False
    note: str | None = None  # why a decoder that was asked for did not do


class RecordHeader(ApiShape, kw_only=True):
    """A header of a record."""

    key: str
    value: str | None
    encoding: EncodingName


class RecordRow(ApiShape, kw_only=True):
    """A record."""

    partition: int
    offset: Digits
    timestamp_ms: Digits | None
    timestamp_type: Literal["create", "append"]
    key: DecodedBytes
    value: DecodedBytes
    headers: list[RecordHeader]
    bytes: int


class RecordsEvent(ApiShape, kw_only=True):
    """Event `records` of a stream."""

    records: list[RecordRow]
    skipped: int = 0  # of a tail: how many more there were


class ProgressEvent(ApiShape, kw_only=True):
    """Event `progress` of a stream."""

    looked_at: int
    of: int | None  # how many there are in the range
    bytes: int
    found: int
    seconds: float
    reached_ms: Digits | None  # the time of the record that was looked at last
    not_evaluated: int = 0  # records on which the filter had no answer, such as values not JSON


class EndEvent(ApiShape, kw_only=True):
    """Event `end` of a stream; `after` is the cursor to go on from."""

    reason: EndReason
    after: str | None
    progress: ProgressEvent


class SearchPrice(ApiShape, kw_only=True):
    """What a question would read, before it is asked."""

    objects: int | None
    bytes: int | None
    gets: int | None
    money: float | None
    currency: str
    records: int | None
    unknown: Unknown = field(default_factory=dict)


class NewRecord(ApiShape, kw_only=True):
    """A record to produce."""

    partition: Annotated[int, Meta(ge=0)] | None = None
    key: str | None = None
    key_encoding: EncodingName = "text"
    value: str | None = None
    value_encoding: EncodingName = "text"
    headers: list[RecordHeader] = field(default_factory=list)


class ProducedRecord(ApiShape, kw_only=True):
    """Where a record went, or why it did not."""

    partition: int | None
    offset: Digits | None
    error: str | None = None


class ProducedAnswer(ApiShape, kw_only=True):
    """Where each record went."""

    items: list[ProducedRecord]


class DeleteRecordsRequest(ApiShape, kw_only=True):
    """Delete records before an offset, null: all there are; the topic's name, typed."""

    before: Digits | None = None
    partition: Annotated[int, Meta(ge=0)] | None = None
    confirm: Annotated[str, Meta(max_length=300)]


class TrimmedRow(ApiShape, kw_only=True):
    """A partition after records were deleted."""

    partition: int
    earliest: Digits
    deleted: int


class TrimmedAnswer(ApiShape, kw_only=True):
    """What was deleted."""

    items: list[TrimmedRow]
