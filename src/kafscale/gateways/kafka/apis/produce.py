"""Produce: API 0, versions 0-12.

v0-2  go by the magic byte: the old message formats are converted, format 2 is taken as it is
v3    exactly one batch of message format 2 per partition
v7    zstd
v12   the partitions of a transaction need not be registered before
acks  all and 1 are answered after the commit (topics may opt for an early answer to acks=1),
      0 never; an error then closes the connection
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final, NamedTuple

from kafscale.engine.topics.topic import Topic
from kafscale.gateways.kafka.access.api_requirements import TransactionalWrites
from kafscale.gateways.kafka.access.requirements import EachRow, by_name, topic_row
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import (
    Answer,
    Call,
    CheckedSet,
    CloseConnection,
    Deferred,
    Requirement,
)
from kafscale.gateways.kafka.calls.errors import code_of, words_of
from kafscale.gateways.kafka.calls.request_order import APPENDS_RECORDS
from kafscale.gateways.kafka.calls.transaction_errors import produce_code_of
from kafscale.gateways.kafka.records import record_sets, transactional_sets
from kafscale.gateways.kafka.records.record_sets import ZSTD_FROM
from kafscale.gateways.kafka.records.transactional_sets import REGISTERS_FROM
from kafscale.log.writer.types import CommitOutcome
from kafscale.model.errors import (
    InvalidRecord,
    InvalidTopicName,
    KafscaleError,
    OutcomeUnknown,
    UnknownProducer,
    UnpacksTooMuch,
)
from kafscale.model.names import is_internal
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.records.validation import is_transactional
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

API_KEY: Final = ProduceRequest.api_key
VERSIONS: Final = ProduceRequest.versions
ORDER: Final = APPENDS_RECORDS
_refused_topic: Final = topic_row(
    TopicProduceResponse,
    PartitionProduceResponse,
    lambda row: [one.index for one in row.partition_data],
    number="index",
    base_offset=-1,
)
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    TransactionalWrites(_refused_topic),
    EachRow(
        AccessOperation.WRITE,
        ResourceType.TOPIC,
        "topic_data",
        by_name,
        "responses",
        _refused_topic,
    ),
)

_NO_ANSWER: Final = 0
_EARLY: Final = 1
_ALL: Final = -1
_ACKS_NAMES: Final = {_ALL: "all", _EARLY: "1", _NO_ANSWER: "0"}


class _Pending(NamedTuple):
    row: PartitionProduceResponse
    committed: asyncio.Future[CommitOutcome]


def prepare(call: Call) -> Coroutine[Any, Any, None] | None:
    """Do what takes time. Later requests wait for it, so that batches keep their order.

    It opens logs that are not open, and checks record sets that take long. The batches of a
    transaction wait until their partitions are registered.
    """
    if call.is_long or call.message.transactional_id is not None:
        return _prepare_in_turns(call)
    closed = [
        place for topic_data in call.message.topic_data for place in _closed(call, topic_data)
    ]
    slow = record_sets.check_quickly(call)
    return _prepare(call, closed, slow) if closed or slow else None


def _closed(call: Call, topic_data: TopicProduceData) -> list[tuple[Topic, int]]:
    """The partitions of a topic whose logs must be opened."""
    engine = call.engine
    topic = engine.topics.find(topic_data.name)
    if topic is None:
        engine.topics.search_soon(topic_data.name)
        return []
    indexes = [data.index for data in topic_data.partition_data]
    return [(topic, index) for index in engine.partitions.list_closed(topic, indexes)]


async def _prepare(
    call: Call, closed: Sequence[tuple[Topic, int]], slow: Sequence[record_sets.RecordSet]
) -> None:
    opening = (call.engine.partitions.open(topic, partition) for topic, partition in closed)
    await asyncio.gather(*opening, return_exceptions=True)
    if slow:
        await record_sets.check(call, slow)


async def _prepare_in_turns(call: Call) -> None:
    """The same for very many partitions: all record sets are checked early."""
    closed: dict[tuple[Topic, int], None] = {}  # each once: a request may name one very often
    async for topic_data in call.each(call.message.topic_data):
        closed |= dict.fromkeys(_closed(call, topic_data))
    sets = [one async for one in call.each(record_sets.each_set(call))]
    call.checked = {}
    await _prepare(call, list(closed), sets)
    if call.message.transactional_id is not None:
        call.refused = await transactional_sets.admit(call)


def answer(call: Call) -> Answer:
    """Append every batch now; answer when the last one is committed."""
    if call.is_long:
        return _answer_in_turns(call)
    request: ProduceRequest = call.message
    produced = _Produced()
    for number, topic_data in enumerate(request.topic_data):
        topic = call.engine.topics.find(topic_data.name)
        rows = produced.begin_topic(topic_data.name)
        for at, data in enumerate(topic_data.partition_data):
            rows.append(_row(call, topic, topic_data.name, data, (number, at), produced))
    response = ProduceResponse(responses=produced.topics)
    if request.acks == _NO_ANSWER:
        _count(call, response)
        if produced.failed:
            raise CloseConnection(f"acks=0 and {produced.failed}")
        return None
    if not produced.pending:
        return _count(call, response)
    return _when_committed(call, response, produced.pending)


async def _answer_in_turns(call: Call) -> ProduceResponse | None:
    """The same for very many partitions. Later requests wait, so that batches keep their order."""
    request: ProduceRequest = call.message
    produced = _Produced()
    async for number, topic_data in call.each(enumerate(request.topic_data)):
        rows = produced.begin_topic(topic_data.name)
        async for at, data in call.each(enumerate(topic_data.partition_data)):
            topic = call.engine.topics.find(topic_data.name)
            rows.append(_row(call, topic, topic_data.name, data, (number, at), produced))
    until_s = call.engine.clock.elapsed_s() + _timeout_s(call)
    async for batch in call.each(produced.pending):
        left_s = max(0.0, until_s - call.engine.clock.elapsed_s())
        if not batch.committed.done():
            await asyncio.wait((batch.committed,), timeout=left_s)
        _settle(batch)
    async for answered in call.each(produced.topics):
        if call.engine.topics.find(answered.name) is not None:
            async for row in call.each(answered.partition_responses):
                _count_row(call, answered.name, row)
            _count_request(call, answered.name)
    if request.acks != _NO_ANSWER:
        return ProduceResponse(responses=produced.topics)
    if produced.failed:
        raise CloseConnection(f"acks=0 and {produced.failed}")
    return None


class _Produced:
    """What has become of a request so far."""

    __slots__ = ("failed", "pending", "topics")

    def __init__(self) -> None:
        self.topics: list[TopicProduceResponse] = []
        self.pending: list[_Pending] = []
        self.failed = ""  # in the words of the first refusal

    def begin_topic(self, name: str) -> list[PartitionProduceResponse]:
        """The list for the rows of the next topic."""
        rows: list[PartitionProduceResponse] = []
        self.topics.append(TopicProduceResponse(name=name, partition_responses=rows))
        return rows


def _row(
    call: Call,
    topic: Topic | None,
    name: str,
    data: PartitionProduceData,
    place: tuple[int, int],
    produced: _Produced,
) -> PartitionProduceResponse:
    """Append the batches of one partition; gives its answer, which a commit may still change."""
    row = PartitionProduceResponse(index=data.index, base_offset=-1)
    try:
        _append(call, topic, name, data, place, row, produced.pending)
    except KafscaleError as problem:
        _refuse(row, problem)
        if call.message.transactional_id is not None:
            row.error_code = produce_code_of(problem, knows_waiting=call.version >= REGISTERS_FROM)
        client_errors.note(call, problem)
        produced.failed = produced.failed or words_of(problem)
    return row


def _append(
    call: Call,
    topic: Topic | None,
    name: str,
    data: PartitionProduceData,
    place: tuple[int, int],
    row: PartitionProduceResponse,
    pending: list[_Pending],
) -> None:
    request: ProduceRequest = call.message
    is_unanswered = request.acks == _NO_ANSWER and request.transactional_id is not None
    if request.acks not in (_ALL, _EARLY, _NO_ANSWER) or is_unanswered:
        row.error_code = ErrorCode.INVALID_REQUIRED_ACKS
        client_errors.note_bad(call, "invalid_required_acks", f"acks={request.acks}")
        return
    records = data.records
    assert records is None or isinstance(records, memoryview)  # as decoding gives them
    if request.transactional_id is not None:
        transactional_sets.require_admitted(call, place)
    elif is_transactional(records):
        row.error_code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        client_errors.note_bad(call, "no_transactional_id", f"{name}-{data.index}")
        return
    if topic is None:
        call.engine.partitions.note_refused(name, data.index, records)
        topic = call.engine.topics.get(name)
    if is_internal(name):
        raise InvalidTopicName(f"only brokers write to {name}")
    if (tell := call.engine.metrics.log_received) is not None:
        tell(name, data.index, len(records or b""))
    checked = call.checked.get(place) if call.checked is not None else None
    sets: Sequence[memoryview | None] = (
        [records] if checked is None else _batches(call, name, data, checked)
    )
    early = request.acks == _NO_ANSWER or (
        request.acks == _EARLY
        and topic.settings.acks1_buffered
        and request.transactional_id is None  # rule T17
    )
    for number, records in enumerate(sets):
        stored = call.engine.partitions.append(
            topic,
            data.index,
            records,
            acknowledged=early,
            allow_zstd=call.version >= ZSTD_FROM,
            is_checked=checked is not None,
        )
        if number == 0:
            row.base_offset = stored.first
            row.log_append_time_ms = stored.append_time_ms
            row.log_start_offset = stored.log_start
        if stored.appended.committed is not None and not early:
            pending.append(_Pending(row, stored.appended.committed))


def _batches(
    call: Call, name: str, data: PartitionProduceData, checked: CheckedSet
) -> Sequence[memoryview | None]:
    """The batches of a set that was checked early."""
    if not isinstance(checked, KafscaleError):
        return checked
    if isinstance(checked, UnpacksTooMuch):
        assert isinstance(data.records, memoryview)
        call.engine.partitions.note_refused(name, data.index, data.records)
    if isinstance(checked, InvalidRecord):
        raise InvalidRecord(str(checked), checked.records)
    # Raising the error itself would make a reference cycle with this frame.
    raise type(checked)(str(checked))


def _refuse(row: PartitionProduceResponse, problem: KafscaleError) -> None:
    row.error_code = code_of(problem)
    row.error_message = words_of(problem)
    if isinstance(problem, InvalidRecord):
        # A producer that knows the bad records can send the others again.
        row.record_errors = [BatchIndexAndErrorMessage(number) for number in problem.records]
    elif isinstance(problem, UnknownProducer):
        # The Java client begins anew only if it gets a log start; else it sends the same again.
        row.log_start_offset = problem.log_start
    row.base_offset = -1
    row.log_append_time_ms = -1


def _when_committed(call: Call, response: ProduceResponse, pending: list[_Pending]) -> Deferred:
    """Answer when all are committed or refused; after the timeout, that the outcome is unknown."""
    answer = Deferred()
    waiting = {id(batch.committed): batch.committed for batch in pending}

    def finish() -> None:
        if answer.is_given:
            return  # too late: the client has its answer, that the outcome is unknown
        timer.cancel()
        for batch in pending:
            _settle(batch)
        answer.give(_count(call, response))

    def settle(committed: asyncio.Future[CommitOutcome]) -> None:
        waiting.pop(id(committed), None)
        if not waiting:
            finish()

    timer = asyncio.get_running_loop().call_later(_timeout_s(call), finish)
    for committed in list(waiting.values()):
        committed.add_done_callback(settle)
    return answer


def _timeout_s(call: Call) -> float:
    timeout_ms: int = call.message.timeout_ms
    return max(0.0, min(timeout_ms / 1000, call.context.longest_wait_s))


def _settle(batch: _Pending) -> None:
    """Write the outcome of a commit into its row; one that has none yet is unknown."""
    if not batch.committed.done():
        _refuse(batch.row, OutcomeUnknown("the store has not answered in time"))
    elif (problem := batch.committed.result()) is not None:
        _refuse(batch.row, problem)


def _count(call: Call, response: ProduceResponse) -> ProduceResponse:
    """Count the outcome. Unknown topics are not counted by name: clients choose those names."""
    for topic in response.responses:
        if call.engine.topics.find(topic.name) is not None:
            for row in topic.partition_responses:
                _count_row(call, topic.name, row)
            _count_request(call, topic.name)
    return response


def _count_row(call: Call, name: str, row: PartitionProduceResponse) -> None:
    call.engine.metrics.produced(name, row.index, row.error_code == 0)


def _count_request(call: Call, name: str) -> None:
    engine = call.engine
    seconds = engine.clock.elapsed_s() - call.began_s
    acks = _ACKS_NAMES.get(call.message.acks, "invalid")
    engine.metrics.produce_latency.labels(name, acks).observe(seconds)
