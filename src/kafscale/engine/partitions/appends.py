"""Appending: what a producer sent becomes a batch in a log, or a clear refusal.

Here: validation by the topic's rules, the topic's own compression and timestamps, the refusal
while the store is sick. No waiting: the log's future tells when a batch is committed.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.partitions.store_gate import StoreGate
from kafscale.engine.topics.topic import Topic
from kafscale.log.writer.lane import Lane
from kafscale.log.writer.types import Appended
from kafscale.model.clock import Clock
from kafscale.model.errors import (
    BatchTooLarge,
    InvalidRequest,
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
from kafscale.records.compression import Codec
from kafscale.records.validation import NO_LIMIT, BatchLimits, validate

# What a compressed batch may grow to when it is opened: a small bomb must stay a small matter.
_MOST_EXPANSION: Final = 10
_OPENED_AT_LEAST: Final = 1 << 20
_MOST_REFUSED: Final = 10_000
_SENT_AGAIN_S: Final = 120.0  # clients' delivery.timeout.ms
_SEQUENCES: Final = 1 << 31
_MAGIC: Final = 2
# A producer is called forgotten when it has been unknown for so long: one whose first batch was
# refused sends it again before that, and must not begin anew while it may have been written.
FORGOTTEN_S: Final = 2.0


class Stored(NamedTuple):
    """Where a batch went."""

    first: int
    append_time_ms: int  # -1: the producer's own timestamps stand
    log_start: int
    appended: Appended


class _Refused(NamedTuple):
    """A batch that its producer will send again, and when it was refused."""

    header: BatchHeader
    noted_s: float

    def is_over(self, now_s: float) -> bool:
        """Whether its producer has given up by now."""
        return now_s - self.noted_s > _SENT_AGAIN_S

    def comes_after(self, other: BatchHeader) -> bool:
        """Whether another batch of this producer is an earlier one, or of a newer epoch."""
        if other.producer_epoch != self.header.producer_epoch:
            return other.producer_epoch > self.header.producer_epoch
        ahead = (self.header.base_sequence - other.base_sequence) % _SEQUENCES
        return 0 < ahead < _SEQUENCES // 2


class Appends:
    """The one way into a log."""

    def __init__(
        self,
        logs: OpenLogs,
        clock: Clock,
        health: StoreGate,
        *,
        largest_opened_bytes: int,
        walk_records: bool,
    ) -> None:
        """Append to `logs`. `walk_records`: look at every record, not only at the batch."""
        self._logs = logs
        self._clock = clock
        self._health = health
        self._largest_opened = largest_opened_bytes
        self._walk_records = walk_records
        self._limits: dict[tuple[bytes, bool], BatchLimits] = {}
        # By partition and producer: the first batch that was refused where its topic moves away, or
        # was not there (again) yet, so that the new place cannot know what should come first.
        self._refused: dict[tuple[str, int], dict[int, _Refused]] = {}
        logs.on_turned_away = self._note
        self._unknown_s: dict[tuple[bytes, int, int], float] = {}  # since when, by producer
        self.on_used_up: Callable[[str], None] = lambda topic: None  # a partition has no offsets

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

        `is_checked`: a batch made by ourselves within `limits_of` the topic.
        """
        try:
            return self._append(topic, partition, records, acknowledged, allow_zstd, is_checked)
        except (NotTheOwner, NotWritten, UnknownTopic) as problem:
            if topic.lane_rules.accepts_unknown_sequences or isinstance(
                problem, LogEnded | UnknownTopic
            ):
                self.note_refused(topic.name, partition, records)
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
        place = self._logs.find(topic, partition)
        if place is None:
            raise self._logs.closed_reason(topic, partition)
        log, lane = place
        if self._health.is_unavailable():
            raise NotWritten("the object store does not answer; nothing was written")
        now_ms = self._clock.now_ms()
        limits = self.limits_of(topic, allow_zstd)
        if is_checked and records is not None:
            header = batch.read_header(records)
        else:
            header = validate(records, limits, now_ms)
        assert records is not None  # validate refuses None
        if header.is_transactional:
            raise InvalidRequest("transactions are not supported")
        append_time_ms = -1
        if topic.settings.compression is not None:
            records, header = self._recompress(topic, header, records, limits)
        if topic.settings.log_append_time:
            batch.stamp_append_time(records, now_ms)
            header = batch.read_header(records)
            append_time_ms = now_ms
        elif header.log_append_time:
            raise InvalidTimestamp("only the broker may say that a time is the append time")
        records = _own_memory(records)
        if self._refused and not lane.producers.is_sealed and not log.has_ended:
            self._expect_refused(topic, partition, lane, now_ms)
        try:
            appended = log.append(lane.number, header, records, acknowledged=acknowledged)
        except NotTheOwner:
            if lane.producers.is_sealed:
                self._note(topic.name, partition, header)
            raise
        except (OutOfOrderSequence, UnknownProducer) as problem:
            if isinstance(problem, UnknownProducer):
                is_forgotten = self._is_forgotten(topic, partition, header.producer_id)
                problem.log_start = lane.start if is_forgotten else -1
            raise self._logs.retry_or_reject(log, problem) from problem
        except OffsetRangeExhausted:
            self.on_used_up(topic.name)
            raise
        if self._unknown_s:
            self._unknown_s.pop((topic.topic_id, partition, header.producer_id), None)
        return Stored(appended.first, append_time_ms, lane.start, appended)

    def _is_forgotten(self, topic: Topic, partition: int, producer_id: int) -> bool:
        now_s = self._clock.elapsed_s()
        if len(self._unknown_s) >= _MOST_REFUSED:
            self._unknown_s.clear()
        since_s = self._unknown_s.setdefault((topic.topic_id, partition, producer_id), now_s)
        return now_s - since_s >= FORGOTTEN_S

    def note_refused(self, name: str, partition: int, records: memoryview | None) -> None:
        """A batch was refused, by a topic that strangers may go on in, or that there is not yet.

        It will come again, and must not come behind what its producer has already sent after it.
        """
        if records is not None and len(records) >= batch.HEADER_SIZE:
            header = batch.read_header(records)
            if header.magic == _MAGIC:
                self._note(name, partition, header)

    def _note(self, name: str, partition: int, header: BatchHeader) -> None:
        if header.producer_id < 0:
            return
        now_s = self._clock.elapsed_s()
        refused = self._refused.setdefault((name, partition), {})
        if len(self._refused) > _MOST_REFUSED:  # many will go on at another broker
            del self._refused[next(iter(self._refused))]
        if len(refused) > _MOST_REFUSED:
            del refused[next(iter(refused))]
        first = refused.get(header.producer_id)
        if first is None or first.is_over(now_s) or first.comes_after(header):
            refused[header.producer_id] = _Refused(header, now_s)

    def _expect_refused(self, topic: Topic, partition: int, lane: Lane, now_ms: int) -> None:
        """Let producers go on in the new place with the batch that the old one refused first.

        What they sent behind it is on its way already, and must not come before it.
        """
        now_s = self._clock.elapsed_s()
        for one in self._refused.pop((topic.name, partition), {}).values():
            if not one.is_over(now_s):
                producer_id, epoch = one.header.producer_id, one.header.producer_epoch
                lane.producers.expect(producer_id, epoch, one.header.base_sequence, now_ms)

    def limits_of(self, topic: Topic, allow_zstd: bool = True) -> BatchLimits:
        """What the topic's settings allow."""
        key = (topic.topic_id, allow_zstd)
        limits = self._limits.get(key)
        if limits is None:
            settings = topic.settings
            largest = max(_OPENED_AT_LEAST, _MOST_EXPANSION * settings.max_message_bytes)
            stamped = settings.log_append_time  # then nobody asks for the producer's times
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

    def forget(self, topic: Topic) -> None:
        """Drop what was remembered of a topic."""
        for allow_zstd in (True, False):
            self._limits.pop((topic.topic_id, allow_zstd), None)

    def _recompress(
        self, topic: Topic, header: BatchHeader, records: memoryview, limits: BatchLimits
    ) -> tuple[memoryview, BatchHeader]:
        """Honour the topic's compression.type; what has it already passes untouched."""
        wanted = Codec.named(topic.settings.compression or "none")
        if header.codec == wanted:
            return records, header
        packed = record.recompress(records, wanted, self._largest_opened)
        if len(packed) > limits.max_message_bytes:
            raise BatchTooLarge(f"{len(packed)} bytes after recompression")
        return memoryview(packed), batch.read_header(packed)


def _own_memory(records: memoryview) -> memoryview:
    """Copy a batch that is a small part of its request: it must not keep all of it in memory."""
    whole = records.obj
    assert isinstance(whole, bytearray)
    return records if 2 * len(records) >= len(whole) else memoryview(bytearray(records))
