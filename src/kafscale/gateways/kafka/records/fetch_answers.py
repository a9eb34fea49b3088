"""What a fetch is answered with: the partitions of its session that have news, or all it names.

Here: from a request to what the engine is asked for, from the engine's results to rows; counting.
Next door: when it is answered (apis/fetch.py), which partitions a session has
(calls/fetch_sessions.py).
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Final, TypeVar

from kafscale.engine.partitions.reads import MOST_AT_ONCE, PartitionRead, ReadResult
from kafscale.engine.partitions.visibility import READ_COMMITTED, READ_UNCOMMITTED, IsolationLevel
from kafscale.engine.topics.topic import Topic
from kafscale.gateways.client_mistakes import reason_of
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Call
from kafscale.gateways.kafka.calls.errors import code_of
from kafscale.gateways.kafka.calls.fetch_sessions import FULL, CachedPartition, FetchSession
from kafscale.model.errors import ConversionOff, KafscaleError, NotConvertible
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

BY_ID_FROM: Final = 13  # version of Fetch
_STORAGE_ERROR_FROM: Final = 6
_AT_ONCE: Final = 256  # rows of a step

T = TypeVar("T")
Steps = Generator[None, None, T]  # taken at once, or in turns if there are many


class SessionlessFetch:
    """A request without a session: everything that it names."""

    def __init__(self, call: Call) -> None:
        """`look_up` comes next."""
        self._call = call
        self.reads: list[PartitionRead] = []

    def look_up(self) -> Steps[None]:
        """Look up the topics."""
        call, reads, isolation = self._call, self.reads, isolation_of(self._call)
        for topic_request in call.message.topics:
            by_id = call.version >= BY_ID_FROM
            topic = _topic(call, topic_request.topic_id if by_id else topic_request.topic)
            for some in _parts(topic_request.partitions):
                reads += [
                    PartitionRead(
                        topic,
                        requested.partition,
                        requested.fetch_offset,
                        requested.partition_max_bytes,
                        requested.current_leader_epoch,
                        isolation,
                    )
                    for requested in some
                ]
                yield

    @property
    def is_empty(self) -> bool:
        """Whether no data can ever come."""
        return not any(topic.partitions for topic in self._call.message.topics)

    @property
    def is_large(self) -> bool:
        """Whether it takes long to read; a request that names much is known to be long."""
        return False

    def respond(self, results: Sequence[ReadResult]) -> Steps[FetchResponse]:
        """The answer with these results."""
        call, topics, first = self._call, [], 0
        for topic_request in call.message.topics:
            rows: list[PartitionData] = []
            for some in _parts(topic_request.partitions):
                end = first + len(some)
                reads, found = self.reads[first:end], results[first:end]
                _count(call, reads, found)
                pairs = zip(reads, found, strict=True)
                rows += [_row(call, read, result) for read, result in pairs]
                first = end
                yield
            topics.append(FetchableTopicResponse(topic_request.topic, topic_request.topic_id, rows))
        return FetchResponse(responses=topics)


class SessionFetch:
    """A request of a session: some of its partitions. The answer names those with news."""

    def __init__(
        self, call: Call, session: FetchSession, cached: Sequence[CachedPartition]
    ) -> None:
        """`look_up` comes next."""
        self._call = call
        self.session = session
        self._cached = cached
        self.reads: list[PartitionRead] = []

    def look_up(self) -> Steps[None]:
        """Look up the topics."""
        call, reads, isolation = self._call, self.reads, isolation_of(self._call)
        topics: dict[str | bytes, Topic | KafscaleError] = {}
        for some in _parts(self._cached):
            for partition in some:
                name, number, offset, max_bytes, epoch = partition.requested
                topic = topics.get(name)
                if topic is None:
                    topic = topics[name] = _topic(call, name)
                reads.append(PartitionRead(topic, number, offset, max_bytes, epoch, isolation))
            yield

    @property
    def is_empty(self) -> bool:
        """Whether no data can ever come."""
        return not self.session.partitions

    @property
    def is_large(self) -> bool:
        """Whether it takes long to read, although the request may be short."""
        return len(self._cached) > MOST_AT_ONCE

    def respond(self, results: Sequence[ReadResult]) -> Steps[FetchResponse]:
        """The answer with these results. Partitions that have nothing more are parked."""
        call, session = self._call, self.session
        partitions = call.engine.partitions
        full = call.message.session_epoch == FULL
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        rows = zip(self._cached, self.reads, results, strict=True)
        for number, (cached, read, result) in enumerate(rows):
            if not number % _AT_ONCE:
                yield
                end = number + _AT_ONCE
                _count(call, self.reads[number:end], results[number:end])
            if cached.must_respond(result, full=full):
                name = cached.requested.topic
                topic = topics.get(name)
                if topic is None:
                    topic = topics[name] = _topic_row(name)
                topic.partitions.append(_row(call, read, result))
            if result.batches:
                session.move_to_end(cached)
            elif read.offset in (result.high, result.last_stable):
                session.park(cached, partitions, read)
        return FetchResponse(session_id=session.session_id, responses=list(topics.values()))

    def park_all(self) -> bool:
        """Park every partition that has nothing more. Whether the session has no others."""
        for cached, read in zip(self._cached, self.reads, strict=True):
            self.session.park(cached, self._call.engine.partitions, read)
        return self.session.all_parked


def _parts(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    """The rows, so many at a time."""
    if len(rows) <= _AT_ONCE:
        yield rows
        return
    for begin in range(0, len(rows), _AT_ONCE):
        yield rows[begin : begin + _AT_ONCE]


def isolation_of(call: Call) -> IsolationLevel:
    """The isolation level of a Fetch or ListOffsets request."""
    is_committed = call.message.isolation_level == READ_COMMITTED
    return READ_COMMITTED if is_committed else READ_UNCOMMITTED


def _topic(call: Call, named: str | bytes) -> Topic | KafscaleError:
    topics = call.engine.topics
    try:
        if isinstance(named, bytes):
            return topics.get_by_id(named)
        if topics.find(named) is None:
            topics.search_soon(named)
        return topics.get(named)
    except KafscaleError as problem:
        return problem


def _topic_row(topic: str | bytes) -> FetchableTopicResponse:
    if isinstance(topic, str):
        return FetchableTopicResponse(topic=topic)
    return FetchableTopicResponse(topic_id=topic)


def _count(call: Call, reads: Sequence[PartitionRead], results: Sequence[ReadResult]) -> None:
    """Count the results. Latency only where data was read at once, not where it was waited for."""
    metrics = call.engine.metrics
    topic: Topic | KafscaleError | None = None
    for read, result in zip(reads, results, strict=True):
        if read.topic is not topic:
            topic = read.topic
            counts = metrics.reads_of(topic.name) if isinstance(topic, Topic) else None
        if counts is None:
            continue
        if result.error is not None:
            counts.refused(read.partition)
        elif result.batches:
            counts.read(read.partition, result.from_memory, result.read_s)
            topic.fetched_bytes += result.size  # type: ignore[union-attr]  # it has counts
        else:
            counts[read.partition].answered.value += 1  # most of a thousand: not worth a call


# The codes that consumers can handle in an answer to Fetch. Others make them give up.
_UNDERSTOOD: Final = frozenset(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        # No consumer retries after these two, rightly: waiting does not help.
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


def _code(problem: KafscaleError, version: int) -> ErrorCode:
    """Trouble with the store becomes a code after which consumers retry."""
    code = code_of(problem)
    if code not in _UNDERSTOOD:
        code = ErrorCode.KAFKA_STORAGE_ERROR
    if code is ErrorCode.KAFKA_STORAGE_ERROR and version < _STORAGE_ERROR_FROM:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return code


def _row(call: Call, read: PartitionRead, result: ReadResult) -> PartitionData:
    if result.error is not None:
        return _error_row(call, read, result, result.error)
    # Positional arguments take a third of the time: one answer may have a thousand of these.
    return PartitionData(
        read.partition,
        0,
        result.high,
        result.last_stable,
        result.start,
        None,
        None,
        None,
        None,
        -1,
        result.batches or b"",
    )


def _error_row(
    call: Call, read: PartitionRead, result: ReadResult, problem: KafscaleError
) -> PartitionData:
    client_errors.note(call, problem)
    if isinstance(problem, NotConvertible | ConversionOff):
        client_errors.note_ordinary(call, reason_of(type(problem)), str(problem))
    return PartitionData(
        partition_index=read.partition,
        error_code=_code(problem, call.version),
        high_watermark=result.high,
        last_stable_offset=result.last_stable,
        log_start_offset=result.start,
        records=b"",
    )
