"""Appending: what a producer sent becomes a batch in a log, or a clear refusal.

Here: validation by the topic's rules, the topic's own compression and timestamps, the refusal
while the store does not answer. No waiting: the log's future tells when a batch is committed.
Next door: what is remembered of refused batches and unknown producers (refused.py).
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.partitions.refused import RefusedBatches, UnknownProducers
from kafscale.engine.partitions.store_gate import StoreGate
from kafscale.engine.topics.topic import Topic
from kafscale.log.writer.lane import Lane
from kafscale.log.writer.types import Appended
from kafscale.model.clock import Clock
from kafscale.model.errors import (
    BatchTooLarge,
    InvalidRecord,
    InvalidTimestamp,
    LogEnded,
    NotTheOwner,
    NotWritten,
    OffsetRangeExhausted,
    OutOfOrderSequence,
    UnknownProducer,
    UnknownTopic,
)
from kafscale.records import batch, record
from kafscale.records.batch import BatchHeader
from kafscale.records.compression import Codec, UnpackBudget
from kafscale.records.validation import NO_LIMIT, BatchLimits, validate

# How far a compressed batch may grow when it is decompressed: a small batch must not fill memory.
_MOST_EXPANSION: Final = 10
_OPENED_AT_LEAST: Final = 1 << 20


class Stored(NamedTuple):
    """Where a batch went."""

    first: int
    append_time_ms: int  # -1: the producer's own timestamps stand
    log_start: int
    appended: Appended


class Appends:
    """The one way into a log."""

    def __init__(
        self,
        logs: OpenLogs,
        refused: RefusedBatches,
        clock: Clock,
        health: StoreGate,
        *,
        largest_opened_bytes: int,
        walk_records: bool,
        on_used_up: Callable[[str], None],
    ) -> None:
        """Append to `logs`. `walk_records`: check every record, not only the batch.

        `on_used_up` hears the topic of a partition that has no offsets left.
        """
        self._logs = logs
        self._refused = refused
        self._unknown = UnknownProducers(clock)
        self._clock = clock
        self._health = health
        self._largest_opened = largest_opened_bytes
        self._walk_records = walk_records
        self._on_used_up = on_used_up
        self._limits: dict[tuple[bytes, bool], BatchLimits] = {}

    def append(
        self,
        topic: Topic,
        partition: int,
        records: memoryview | None,
        *,
        acknowledged: bool,
        allow_zstd: bool = True,
        is_checked: bool = False,
    ) -> Stored:
        """Append one record set to an open log. Raises any of the errors of model/errors.py.

        `is_checked`: `check` gave the batch, or the broker made it within `limits_of` the topic.
        """
        try:
            return self._append(topic, partition, records, acknowledged, allow_zstd, is_checked)
        except (NotTheOwner, NotWritten, UnknownTopic) as problem:
            if topic.lane_rules.accepts_unknown_sequences or isinstance(
                problem, LogEnded | UnknownTopic
            ):
                self._refused.note_records(topic.name, partition, records)
            raise

    def _append(
        self,
        topic: Topic,
        partition: int,
        records: memoryview | None,
        acknowledged: bool,
        allow_zstd: bool,
        is_checked: bool,
    ) -> Stored:
        opened = self._logs.resolve(topic, partition)
        if opened is None:
            raise self._logs.closed_reason(topic, partition)
        log, lane = opened
        if self._health.is_unavailable():
            raise NotWritten("the object store does not answer; nothing was written")
        now_ms = self._clock.now_ms()
        limits = self.limits_of(topic, allow_zstd)
        if is_checked and records is not None:
            header = batch.read_header(records)
        else:
            header = validate(records, limits, now_ms)
            assert records is not None  # validate refuses None
            if topic.settings.compression is not None:
                records = self._pack_by_topic(topic, header, records, limits, None)
                header = batch.read_header(records)
        held = False
        if header.is_transactional:
            _require_registered(lane, header)
            held = header.producer_id in lane.buffers
        append_time_ms = -1
        if topic.settings.log_append_time:
            batch.stamp_append_time(records, now_ms)
            header = batch.read_header(records)
            append_time_ms = now_ms
        elif header.log_append_time:
            raise InvalidTimestamp("only the broker may say that a time is the append time")
        records = _own_memory(records)
        if self._refused.by_partition and not lane.producers.is_sealed and not log.has_ended:
            self._refused.expect(topic, partition, lane, now_ms)
        try:
            appended = log.append(
                lane.number, header, records, acknowledged=acknowledged, held=held
            )
        except NotTheOwner:
            if lane.producers.is_sealed:
                self._refused.note(topic.name, partition, header)
            raise
        except (OutOfOrderSequence, UnknownProducer) as problem:
            if isinstance(problem, UnknownProducer):
                is_forgotten = self._unknown.is_forgotten(topic, partition, header.producer_id)
                problem.log_start = lane.start if is_forgotten else -1
            raise self._logs.retry_or_reject(log, problem) from problem
        except OffsetRangeExhausted:
            self._on_used_up(topic.name)
            raise
        if self._unknown.since_s:
            self._unknown.discard(topic, partition, header.producer_id)
        topic.appended_bytes += len(records)
        topic.appended_records += header.record_count
        return Stored(appended.first, append_time_ms, lane.start, appended)

    def highest_sequence(self, topic: Topic, partition: int, producer: int) -> int:
        """The sequence id up to which a producer known by name has appended; -1: none is known."""
        opened = self._logs.resolve(topic, partition)
        mark = None if opened is None else opened[1].producers.last_of_name(producer)
        return -1 if mark is None else mark.last_sequence

    def note_refused(self, name: str, partition: int, records: memoryview | None) -> None:
        """Remember a batch for a topic that does not exist yet: its producer will send it again."""
        self._refused.note_records(name, partition, records)

    def limits_of(self, topic: Topic, allow_zstd: bool = True) -> BatchLimits:
        """What the topic's settings allow."""
        key = (topic.topic_id, allow_zstd)
        limits = self._limits.get(key)
        if limits is None:
            settings = topic.settings
            largest = max(_OPENED_AT_LEAST, _MOST_EXPANSION * settings.max_message_bytes)
            stamped = settings.log_append_time  # then the producer's times do not count
            limits = self._limits[key] = BatchLimits(
                max_message_bytes=settings.max_message_bytes,
                max_segment_bytes=settings.segment_bytes,
                max_decompressed_bytes=min(self._largest_opened, largest),
                allow_zstd=allow_zstd,
                require_key=settings.compacted,
                timestamp_before_max_ms=NO_LIMIT if stamped else settings.timestamp_before_max_ms,
                timestamp_after_max_ms=NO_LIMIT if stamped else settings.timestamp_after_max_ms,
                walk_records=self._walk_records,
            )
        return limits

    def discard_limits(self, topic: Topic) -> None:
        """Drop the limits that were derived from a topic's settings."""
        for allow_zstd in (True, False):
            self._limits.pop((topic.topic_id, allow_zstd), None)

    def check(
        self, topic: Topic, records: memoryview, limits: BatchLimits, budget: UnpackBudget
    ) -> memoryview:
        """The batch as `append` stores it with `is_checked`. May run on any thread."""
        header = validate(records, limits, self._clock.now_ms(), budget)
        if topic.settings.compression is None:
            return records
        return self._pack_by_topic(topic, header, records, limits, budget)

    def _pack_by_topic(
        self,
        topic: Topic,
        header: BatchHeader,
        records: memoryview,
        limits: BatchLimits,
        budget: UnpackBudget | None,
    ) -> memoryview:
        """Apply the topic's compression.type; a batch that has it already stays as it is."""
        wanted = Codec.named(topic.settings.compression or "none")
        if header.codec == wanted:
            return records
        packed = record.recompress(records, wanted, self._largest_opened, budget)
        if len(packed) > limits.max_message_bytes:
            raise BatchTooLarge(f"{len(packed)} bytes after recompression")
        return memoryview(packed)


def _require_registered(lane: Lane, header: BatchHeader) -> None:
    """Rule T2: a batch of a transaction enters after the row has its partition."""
    if header.producer_id < 0:
        raise InvalidRecord("a batch of a transaction has a producer id")
    if lane.registered.get(header.producer_id) != header.producer_epoch:
        raise NotWritten("the partition is not known to be part of the transaction any more")


def _own_memory(records: memoryview) -> memoryview:
    """Copy a batch that is a small part of its request: it must not keep all of it in memory."""
    whole = records.obj
    assert isinstance(whole, bytearray)
    return records if 2 * len(records) >= len(whole) else memoryview(bytearray(records))
