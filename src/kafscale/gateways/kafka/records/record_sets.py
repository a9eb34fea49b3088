"""The record sets of a Produce request that are checked before the request begins.

Here: which sets these are, how much a request may unpack to, and what is checked on which thread.
A set is checked early if its cost does not show in its size: it is packed, it is a message set of
an old format, or its topic has a compression of its own. A request with very many records is
checked early as a whole. Other sets are checked when they are appended.
The event loop checks what is quick. It unpacks up to a limit; what lies beyond is left to a thread.
Next door: the API (apis/produce.py), the rules about a batch (records/validation.py), old formats
(conversion.py), the threads (gateways/workers.py).
"""

import struct
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from kafscale.engine.topics.topic import Topic
from kafscale.gateways.kafka.calls.call import Call, CheckedSet, Place
from kafscale.gateways.kafka.records import conversion
from kafscale.model.errors import InvalidRecord, KafscaleError, UnpacksTooMuch
from kafscale.records.batch import CODEC_MASK, HEADER_SIZE
from kafscale.records.compression import UnpackBudget
from kafscale.records.validation import BatchLimits

ONE_BATCH_FROM: Final = 3  # version of Produce
ZSTD_FROM: Final = 7

# What the event loop does by itself, for one request.
_QUICK_RECORDS: Final = 20_000
_QUICK_UNPACKED_BYTES: Final = 1 << 20
_QUICK_REPACKED_BYTES: Final = 16 << 10
_QUICK_OLD_BYTES: Final = 8 << 10
# What a request may unpack to: so many times its own size. Small requests may have this much.
_MOST_EXPANSION: Final = 100
_LEAST_BUDGET_BYTES: Final = 32 << 20

# What a thread does before the work of other connections has its turn.
_SETS_PER_PIECE: Final = 256
_BYTES_PER_PIECE: Final = 4 << 20

_OUTLINE: Final = struct.Struct(">h34xi")  # attributes and record count of a batch
_OUTLINE_AT: Final = 21


class RecordSet(NamedTuple):
    """What a request brings for one partition of a topic that exists."""

    place: Place
    topic: Topic
    records: memoryview


class _Costs(NamedTuple):
    """The sets of a request that are checked early, and whether the event loop may try."""

    sets: list[RecordSet]
    are_quick: bool


def is_old(call: Call, records: memoryview | None) -> bool:
    """Whether this is a message set that the request may bring; the magic byte counts."""
    return call.version < ONE_BATCH_FROM and conversion.is_old(records)


def check_quickly(call: Call) -> list[RecordSet]:
    """Check early what is quick to check; gives the sets that take a thread."""
    sets, are_quick = _weigh(call)
    if not sets:
        return sets
    call.checked = {}
    if not are_quick:
        return sets
    budget = UnpackBudget(_QUICK_UNPACKED_BYTES)
    for number, record_set in enumerate(sets):
        outcome = _check(call, record_set, budget)
        if isinstance(outcome, UnpacksTooMuch):
            return sets[number:]
        call.checked[record_set.place] = outcome
    return []


async def check(call: Call, sets: Sequence[RecordSet]) -> None:
    """Check sets on another thread, one after the other."""
    assert call.checked is not None
    topics = {record_set.topic.name: record_set.topic for record_set in sets}.values()
    budget = UnpackBudget(
        max(
            _LEAST_BUDGET_BYTES,
            _MOST_EXPANSION * sum(len(record_set.records) for record_set in sets),
            # Without this, a topic's own limit would count for nothing.
            *(_limits(call, topic).max_decompressed_bytes for topic in topics),
        )
    )
    done = 0
    while done < len(sets):
        some = sets[done : done + _SETS_PER_PIECE]
        outcomes = await call.work.run(partial(_check_piece, call, some, budget))
        for record_set, outcome in zip(some, outcomes, strict=False):
            call.checked[record_set.place] = outcome
        done += len(outcomes)


def _check_piece(call: Call, sets: Sequence[RecordSet], budget: UnpackBudget) -> list[CheckedSet]:
    """Check sets until they are done, or have taken long enough for one piece of work."""
    outcomes = []
    begin = budget.left
    for record_set in sets:
        outcomes.append(_check(call, record_set, budget))
        if begin - budget.left >= _BYTES_PER_PIECE:
            break
    return outcomes


def _weigh(call: Call) -> _Costs:
    """What the headers tell of a request's costs. Ordinary requests have no set to check early."""
    costly = []
    are_quick = True
    old_bytes = record_count = 0
    for record_set in each_set(call):
        _, topic, records = record_set
        if is_old(call, records):
            costly.append(record_set)
            old_bytes += len(records)
            are_quick = are_quick and not conversion.is_packed(records)
        elif len(records) >= HEADER_SIZE:
            attributes, count = _OUTLINE.unpack_from(records, _OUTLINE_AT)
            record_count += max(0, count)
            if topic.settings.compression is not None:
                costly.append(record_set)
                are_quick = are_quick and len(records) <= _QUICK_REPACKED_BYTES
            elif attributes & CODEC_MASK and _limits(call, topic).walk_records:
                costly.append(record_set)
    if record_count > _QUICK_RECORDS:
        return _Costs(list(each_set(call)), are_quick=False)
    return _Costs(costly, are_quick and old_bytes <= _QUICK_OLD_BYTES)


def each_set(call: Call) -> Iterator[RecordSet]:
    """Every record set of a request whose topic exists."""
    find = call.engine.topics.find
    for number, topic_data in enumerate(call.message.topic_data):
        topic = find(topic_data.name)
        if topic is None:
            continue
        for at, data in enumerate(topic_data.partition_data):
            if data.records is not None:
                yield RecordSet((number, at), topic, data.records)


def _limits(call: Call, topic: Topic) -> BatchLimits:
    return call.engine.partitions.limits_of(topic, call.version >= ZSTD_FROM)


def _check(call: Call, record_set: RecordSet, budget: UnpackBudget) -> CheckedSet:
    """The batches to store, or why they are refused. May run on any thread."""
    _, topic, records = record_set
    engine = call.engine
    try:
        if not is_old(call, records):
            return [engine.partitions.check(topic, records, _limits(call, topic), budget)]
        limits = engine.partitions.limits_of(topic)
        now_ms = engine.clock.now_ms()
        return conversion.to_store(records, limits, now_ms, topic.settings.compression, budget)
    except InvalidRecord as problem:
        return InvalidRecord(str(problem), problem.records)
    except KafscaleError as problem:
        # Not the same error: its traceback would keep all that was decompressed in memory.
        return type(problem)(str(problem))
