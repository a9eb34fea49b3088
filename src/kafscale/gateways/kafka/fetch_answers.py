"""What a fetch is answered with: the partitions of its session that have news, or all it names.

Here: from a request to what the engine is asked for, from what the engine found to rows; counting.
Next door: when it is answered (apis/fetch.py), who is in a session (fetch_sessions.py).
"""

from collections.abc import Sequence
from typing import Final

from kafscale.engine.partitions.reads import PartitionRead, ReadResult
from kafscale.engine.topics.topic import Topic
from kafscale.gateways.kafka import client_errors
from kafscale.gateways.kafka.call import Call
from kafscale.gateways.kafka.errors import code_of
from kafscale.gateways.kafka.fetch_sessions import FULL, FetchSession, Told
from kafscale.model.errors import ConversionOff, KafscaleError, NotConvertible
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

BY_ID_FROM: Final = 13  # version of Fetch
_STORAGE_ERROR_FROM: Final = 6


class NamedOrder:
    """A request without a session: everything that it names."""

    def __init__(self, call: Call) -> None:
        """Look up the topics."""
        self._call = call
        self.wanted: list[PartitionRead] = []
        for row in call.message.topics:
            topic = _topic(call, row.topic_id if call.version >= BY_ID_FROM else row.topic)
            self.wanted += [
                PartitionRead(
                    topic,
                    one.partition,
                    one.fetch_offset,
                    one.partition_max_bytes,
                    one.current_leader_epoch,
                )
                for one in row.partitions
            ]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing that could ever come."""
        return not self.wanted

    def respond(self, parts: Sequence[ReadResult]) -> FetchResponse:
        """The answer to the parts that were found."""
        call, wanted, topics, at = self._call, self.wanted, [], 0
        _count(call, wanted, parts)
        for row in call.message.topics:
            end = at + len(row.partitions)
            pairs = zip(wanted[at:end], parts[at:end], strict=True)
            rows = [_row(call, want, part) for want, part in pairs]
            topics.append(FetchableTopicResponse(row.topic, row.topic_id, rows))
            at = end
        return FetchResponse(responses=topics)


class SessionOrder:
    """A request of a session: some of its partitions, of which those are told that have news."""

    def __init__(self, call: Call, session: FetchSession, told: Sequence[Told]) -> None:
        """Look up the topics."""
        self._call = call
        self.session = session
        self._told = told
        self.wanted: list[PartitionRead] = []
        found: dict[str | bytes, Topic | KafscaleError] = {}
        for one in told:
            name, partition, offset, max_bytes, epoch = one.asked
            topic = found.get(name)
            if topic is None:
                topic = found[name] = _topic(call, name)
            self.wanted.append(PartitionRead(topic, partition, offset, max_bytes, epoch))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing that could ever come."""
        return not self.session.partitions

    def respond(self, parts: Sequence[ReadResult]) -> FetchResponse:
        """The answer to the parts that were found; who has nothing more may rest."""
        call, session = self._call, self.session
        is_first = call.message.session_epoch == FULL
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        _count(call, self.wanted, parts)
        for told, want, part in zip(self._told, self.wanted, parts, strict=True):
            if told.learns(part, is_first):
                name = told.asked.topic
                topic = topics.get(name)
                if topic is None:
                    topic = topics[name] = _topic_row(name)
                topic.partitions.append(_row(call, want, part))
            if part.batches:
                session.served(told)
            elif part.high == want.offset:
                self._let_rest(told, want)
        return FetchResponse(session_id=session.session_id, responses=list(topics.values()))

    def let_rest(self) -> bool:
        """Nothing was found: who has nothing more may rest. Whether all do."""
        for told, want in zip(self._told, self.wanted, strict=True):
            self._let_rest(told, want)
        return self.session.all_rest

    def _let_rest(self, told: Told, want: PartitionRead) -> None:
        if told.asked.offset == want.offset:  # it may have been asked for anew meanwhile
            lane = self._call.engine.reads.watch(want, told)
            if lane is not None:
                self.session.rest(told, lane)


def _topic(call: Call, asked: str | bytes) -> Topic | KafscaleError:
    topics = call.engine.topics
    try:
        if isinstance(asked, bytes):
            return topics.get_by_id(asked)
        if topics.find(asked) is None:
            call.engine.topics.search_soon(asked)
        return topics.get(asked)
    except KafscaleError as problem:
        return problem


def _topic_row(topic: str | bytes) -> FetchableTopicResponse:
    if isinstance(topic, str):
        return FetchableTopicResponse(topic=topic)
    return FetchableTopicResponse(topic_id=topic)


def _count(call: Call, wanted: Sequence[PartitionRead], parts: Sequence[ReadResult]) -> None:
    """Note the outcome; latency only where data was read at once, not where it was waited for."""
    probe = call.engine.probe
    topic: Topic | KafscaleError | None = None
    for want, part in zip(wanted, parts, strict=True):
        if want.topic is not topic:
            topic = want.topic
            counts = probe.reads_of(topic.name) if isinstance(topic, Topic) else None
        if counts is None:
            continue
        if part.error is not None:
            counts.refused(want.partition)
        elif part.batches:
            counts.read(want.partition, part.from_memory, part.read_s)
        else:
            counts[want.partition].answered.value += 1  # most of a thousand: not worth a call


# What consumers know how to take in an answer to Fetch. Others make them give up.
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
        # These two no consumer waits out, and it should not: waiting does not help.
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


def _code(problem: KafscaleError, version: int) -> ErrorCode:
    """Trouble with the store becomes a code that consumers wait out."""
    code = code_of(problem)
    if code not in _UNDERSTOOD:
        code = ErrorCode.KAFKA_STORAGE_ERROR
    if code is ErrorCode.KAFKA_STORAGE_ERROR and version < _STORAGE_ERROR_FROM:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return code


def _row(call: Call, want: PartitionRead, part: ReadResult) -> PartitionData:
    if part.error is not None:
        return _error_row(call, want, part, part.error)
    high, start = part.high, part.start
    # By their places, which is a third of the price: a thousand of these are one answer.
    return PartitionData(
        want.partition, 0, high, high, start, None, None, None, None, -1, part.batches or b""
    )


def _error_row(
    call: Call, want: PartitionRead, part: ReadResult, problem: KafscaleError
) -> PartitionData:
    client_errors.note(call, problem)
    if isinstance(problem, NotConvertible | ConversionOff):
        client_errors.note_ordinary(call, client_errors.reason_of(type(problem)), str(problem))
    return PartitionData(
        partition_index=want.partition,
        error_code=_code(problem, call.version),
        high_watermark=part.high,
        last_stable_offset=part.high,
        log_start_offset=part.start,
        records=b"",
    )
