"""Taking records for a member of a share group, and its decisions about those that it has.

Here: from a session's partitions to what the subscriptions of the engine are asked, and from
acknowledgement types to what becomes of records.
Next door: the sessions (calls/share_sessions.py), the APIs (apis/share_fetch.py,
apis/share_acknowledge.py).
"""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from kafscale.engine.partitions.visibility import READ_COMMITTED, READ_UNCOMMITTED
from kafscale.engine.subscriptions.ports import (
    EARLIEST,
    LATEST,
    Framing,
    SubscriptionName,
    Wish,
)
from kafscale.gateways.kafka.calls.call import Call
from kafscale.gateways.kafka.calls.share_sessions import Room, SharePart, SharePlace, ShareSession
from kafscale.model.configs import group_configs
from kafscale.model.configs.group_configs import AUTO_OFFSET_RESET, GroupSettings
from kafscale.model.errors import InvalidRecordState, InvalidRequest, KafscaleError
from kafscale.records.batch import BatchHeader
from kafscale.subscriptions.events import (
    DEFAULT_RULES,
    Fate,
    MessageRun,
    Mode,
    OffsetSpan,
    SubscriptionRules,
)
from kafscale.wire.kafka.messages.share_acknowledge import AcknowledgementBatch

RENEW: Final = 4
_FATES: Final = {
    0: Fate.DONE,  # an offset without a record
    1: Fate.DONE,  # accepted
    2: Fate.RELEASED,
    3: Fate.DONE,  # rejected
    RENEW: Fate.RENEWED,
}
_AT_ONCE: Final = 32  # partitions that are looked up at a time
_MOST_SPANS: Final = 5_000  # of acknowledged records; all of them are saved each time


class WholeBatch(Framing):
    """Each batch goes to one member as a whole, as far as it is not acknowledged."""

    def frame(
        self, batch: memoryview, header: BatchHeader, *, by_key: bool
    ) -> Sequence[MessageRun]:
        """One run, unless the batch is empty: then its offsets have no records."""
        if not header.record_count:
            return ()
        return (MessageRun(header.base_offset, header.next_offset, source=batch),)


def rules_of(settings: GroupSettings) -> SubscriptionRules:
    """The bounds of a share group's partitions."""
    locks = settings.number("share.partition.max.record.locks")
    return SubscriptionRules(
        most_unacked=locks,
        most_unacked_in_all=locks,
        most_consumers=DEFAULT_RULES.most_consumers,
        most_spans=_MOST_SPANS,
        most_saved_spans=4 * _MOST_SPANS,
        most_at_once=locks,
        lock_ms=settings.number("share.record.lock.duration.ms"),
        most_deliveries=settings.number("share.delivery.count.limit"),
    )


def _wish(call: Call, member_id: str, settings: GroupSettings, rules: SubscriptionRules) -> Wish:
    is_committed = settings.text("share.isolation.level") == "read_committed"
    is_earliest = settings.text(AUTO_OFFSET_RESET) == group_configs.EARLIEST
    before_ms = settings.start_before_ms
    return Wish(
        name=member_id,
        mode=Mode.SHARED,
        start=EARLIEST if is_earliest else LATEST,
        start_ms=-1 if before_ms is None else max(0, call.engine.clock.now_ms() - before_ms),
        isolation=READ_COMMITTED if is_committed else READ_UNCOMMITTED,
        rules=rules,
    )


# -- taking ----------------------------------------------------------------------------------


async def acquire(
    call: Call, session: ShareSession, room: Room, least_bytes: int, wait_s: float
) -> None:
    """Take records for the member until there are enough, or the time is over."""
    session.turn()
    session.room = room
    news = asyncio.Event()
    room.on_news(news.set)
    await _attach_all(call, session)
    for part in session.wanted():
        if part.attached is not None:
            part.attached.ask(room.records, is_exact=room.is_exact)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    try:
        while not session.is_closed and room.taken_bytes < least_bytes and not room.is_full:
            left_s = deadline - loop.time()
            if left_s <= 0 or any(part.problem for part in session.parts.values()):
                break
            news.clear()
            try:
                async with asyncio.timeout(left_s):
                    await news.wait()
            except TimeoutError:
                break
    finally:
        session.stop()
        session.room = Room()


async def _attach_all(call: Call, session: ShareSession) -> None:
    settings = call.engine.groups.configs.of(session.key[0])
    rules = rules_of(settings)
    wish = _wish(call, session.key[1], settings, rules)
    missing: list[SharePart] = []
    for part in session.wanted():
        if part.attached is None:
            missing.append(part)
        else:
            part.attached.change_rules(rules)
    for begin in range(0, len(missing), _AT_ONCE):
        some = missing[begin : begin + _AT_ONCE]
        await asyncio.gather(*(_attach(call, session, part, wish) for part in some))


async def _attach(call: Call, session: ShareSession, part: SharePart, wish: Wish) -> None:
    group_id, _ = session.key
    try:
        topic = call.engine.topics.get_by_id(part.place[0])
        name = SubscriptionName(group_id, topic, part.place[1])
        attached = await call.engine.subscriptions.attach(name, wish, WholeBatch(), part)
    except KafscaleError as problem:
        part.problem = problem
        return
    if session.is_closed:
        attached.detach()
    else:
        part.attached = attached


# -- deciding --------------------------------------------------------------------------------


def fates_of(
    batches: Sequence[AcknowledgementBatch], *, may_renew: bool
) -> list[tuple[OffsetSpan, Fate]]:
    """What a member decides about records. Raises InvalidRequest."""
    fates: list[tuple[OffsetSpan, Fate]] = []
    at = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first <= at or last < first:
            raise InvalidRequest("batches are named in the order of their offsets, and once")
        if len(types) not in (1, last - first + 1):
            raise InvalidRequest("a batch has one type, or one for each of its offsets")
        if any(one not in _FATES or (one == RENEW and not may_renew) for one in types):
            raise InvalidRequest("no such type of acknowledgement is known here")
        fates += _spans(first, last, types)
        at = last
    return fates


def _spans(first: int, last: int, types: Sequence[int]) -> Iterator[tuple[OffsetSpan, Fate]]:
    if len(types) == 1:
        yield (first, last + 1), _FATES[types[0]]
        return
    for fate, same in groupby(map(_FATES.__getitem__, types)):
        after = first + sum(1 for _ in same)
        yield (first, after), fate
        first = after


async def settle(
    session: ShareSession,
    place: SharePlace,
    batches: Sequence[AcknowledgementBatch],
    *,
    may_renew: bool,
) -> KafscaleError | None:
    """Decide about records of a partition; gives the error if nothing was decided."""
    part = session.parts.get(place)
    try:
        fates = fates_of(batches, may_renew=may_renew)
        if part is None or part.attached is None:
            raise InvalidRecordState("the member has nothing of this partition")
        await part.attached.settle(fates)
    except KafscaleError as problem:
        return problem
    return None
