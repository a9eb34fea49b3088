"""Topics: the list, one of them, creating, growing, deleting.

Here: rows from the last look, without a question per topic. Next door: partitions
(partitions.py), settings (configs.py).
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from kafscale.admin.brokers import topics as questions
from kafscale.admin.brokers.offsets import PartitionName
from kafscale.admin.errors import AdminError
from kafscale.console import figures
from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.answers.shapes import (
    Confirmation,
    NewTopicAnswer,
    NewTopicRequest,
    TopicList,
    TopicPatch,
    TopicSummary,
    Unknown,
)
from kafscale.console.call import ApiCall, Handlers, Services
from kafscale.console.figures import Figures
from kafscale.console.lists import part_of
from kafscale.console.routes import TopicsQuery
from kafscale.console.watch.lags import CountedLag, lags_by_topic
from kafscale.log.formats import places
from kafscale.model.errors import KafscaleError
from kafscale.model.metrics.metric_names import SHARED
from kafscale.model.names import topic_id_from_hex, topic_id_text
from kafscale.model.topics import TopicDescriptor

_INTERNAL: Final = "__"
_UNKNOWN_TOPIC: Final = 3  # Kafka's numbers
_INVALID_TOPIC: Final = 17
_MOST_ASKED: Final = 2000  # partitions
_ASK_WITHIN_S: Final = 3.0
_LIST_WITHIN_S: Final = 0.25  # rows do not wait for slow brokers; the next look has the numbers


async def list_topics(call: ApiCall) -> TopicList:
    """Give a part of all topics."""
    query: TopicsQuery = call.query
    rows = await topic_rows(call.services)
    if query.internal == "hide":
        rows = [row for row in rows if not row.internal]
    if query.layout:
        rows = [row for row in rows if row.layout == query.layout]
    part = part_of(rows, query, lambda row: row.name, sort="name")
    await _ask_records(call.services, part.items, _LIST_WITHIN_S)
    return TopicList(
        items=part.items,
        after=part.after,
        total=part.total,
        as_of_ms=call.services.watcher.as_of_ms,
    )


async def get_topic(call: ApiCall) -> TopicSummary:
    """Give one topic, also one that was created since the last look."""
    services = call.services
    if call.topic not in services.watcher.view.leaders and not services.watcher.why:
        await _find_new(services, call.topic)
    rows = await topic_rows(services, call.topic)
    await _ask_records(services, rows, _ASK_WITHIN_S)
    for row in rows:
        return row
    raise ApiRefusal("unknown_topic", f"there is no topic {call.topic}")


async def _find_new(services: Services, topic: str) -> None:
    try:
        await services.cluster.ask(questions.list_partitions, topic)
    except AdminError as bad:
        if bad.code not in (_UNKNOWN_TOPIC, _INVALID_TOPIC):
            raise
        raise ApiRefusal("unknown_topic", f"there is no topic {topic}") from bad
    await _look_again(services)


async def _ask_records(services: Services, rows: list[TopicSummary], within_s: float) -> None:
    """Ask brokers for offsets of topics on this page with partitions that no broker has open.

    All in one question, whose answer is kept for half a minute. Where brokers are slow the numbers
    stay unknown until the answer is there.
    """
    leaders = services.watcher.view.leaders
    asked = [row for row in rows if row.records is None]
    keys = [(row.name, number) for row in asked for number in leaders.get(row.name, ())]
    if not 0 < len(keys) <= _MOST_ASKED:
        return
    asking = services.background.spawn(_find_ranges(services, asked, keys), "ranges", awaited=True)
    await asyncio.wait({asking}, timeout=within_s)
    if not asking.done():
        reason = "brokers are being asked for its offsets"
        for row in asked:
            row.unknown |= dict.fromkeys(("records", "bytes"), reason)
        return
    if asking.exception() is not None:
        return
    found = asking.result()
    counted = {key for one in services.watcher.readings for key in one.records}
    sizes = {key: size for one in services.watcher.readings for key, size in one.bytes.items()}
    for row in asked:
        mine = [(row.name, number) for number in leaders[row.name]]
        if not all(key in found for key in mine):
            continue
        row.records = sum(found[key][1] - found[key][0] for key in mine)
        row.unknown.pop("records", None)
        closed = [key for key in mine if key not in counted]
        if all(found[key][0] == found[key][1] for key in closed):
            row.bytes = sum(sizes.get(key, 0) for key in mine)
            row.unknown.pop("bytes", None)


async def _find_ranges(
    services: Services, rows: list[TopicSummary], keys: list[PartitionName]
) -> dict[PartitionName, tuple[int, int]]:
    names = tuple(row.name for row in rows)
    return await services.ranges.get(
        names, lambda: services.cluster.ask(questions.list_many_ranges, keys)
    )


async def create_topic(call: ApiCall) -> NewTopicAnswer:
    """Create a topic, or ask brokers whether they would."""
    wanted: NewTopicRequest = call.body
    if wanted.partitions == 0:
        raise ApiRefusal("invalid", "a topic has at least one partition", field="partitions")
    await call.services.cluster.ask(
        questions.create_topics,
        [wanted.name],
        partitions=wanted.partitions,
        configs=wanted.configs,
        may_exist=False,
        check_only=wanted.check_only,
    )
    if not wanted.check_only:
        await _look_again(call.services)
    return NewTopicAnswer(name=wanted.name, created=not wanted.check_only)


async def add_partitions(call: ApiCall) -> None:
    """Give a topic more partitions."""
    wanted: TopicPatch = call.body
    await call.services.cluster.ask(questions.add_partitions, call.topic, wanted.partitions)
    await _look_again(call.services)


async def delete_topic(call: ApiCall) -> None:
    """Delete a topic, whose name must have been typed."""
    check_typed(call.body, call.topic)
    await call.services.cluster.ask(questions.delete_topics, [call.topic])
    await _look_again(call.services)


def check_typed(typed: Confirmation, name: str) -> None:
    """Refuse a dangerous change unless the name of what it concerns was typed."""
    if typed.confirm != name:
        raise ApiRefusal("invalid", f"type {name} to confirm", field="confirm")


async def _look_again(services: Services) -> None:
    if services.bucket is not None:
        services.bucket.remembered.forget()
    await services.watcher.look_now()


async def known_layouts(services: Services) -> tuple[dict[str, TopicDescriptor], str]:
    """The descriptors that the bucket has, or why they are not known."""
    if services.bucket is None:
        return {}, services.no_bucket
    try:
        return await services.bucket.topics(), ""
    except KafscaleError as bad:
        return {}, f"the bucket: {bad}"


async def topic_rows(services: Services, only: str | None = None) -> list[TopicSummary]:
    """Every topic as a row, or one of them."""
    watcher = services.watcher
    if watcher.why and not watcher.view.leaders:
        raise ApiRefusal("broker", watcher.why)
    layouts, why = await known_layouts(services)
    shared = shared_topics(layouts)
    counted = figures.compute(watcher, services.prices, shared)
    lags = lags_by_topic(watcher)
    shares = figures.shares_of(counted, shared)
    names = [name for name in watcher.view.leaders if only is None or name == only]
    return [
        _row(
            services,
            name,
            layouts.get(name),
            why,
            counted,
            list(lags.get(name, {}).values()),
            shared,
            shares,
        )
        for name in sorted(names)
    ]


def shared_topics(layouts: Mapping[str, TopicDescriptor]) -> set[str]:
    """The topics whose records lie in logs that topics share."""
    return {name for name, one in layouts.items() if one.layout == "shared"}


def _row(
    services: Services,
    name: str,
    descriptor: TopicDescriptor | None,
    why: str,
    counted: Figures,
    lags: list[CountedLag],
    shared: set[str],
    shares: Mapping[str, float],
) -> TopicSummary:
    found = counted.of(name)
    partitions = len(services.watcher.view.leaders[name])
    unknown: Unknown = {}
    records, size = found.records, found.bytes
    if found.partitions_seen < partitions:
        missing = services.watcher.unread() or "its logs are not open on any broker yet"
        if partitions > found.partitions_seen > 0:
            missing = services.watcher.unread() or "brokers show no figures of all its partitions"
        unknown |= dict.fromkeys(("records", "bytes"), missing)
        records = size = None
    if descriptor is None:
        reason = why or "the bucket was read before the topic was there"
        unknown |= dict.fromkeys(("layout", "logs", "topic_id"), reason)
    is_shared = name in shared
    puts, month = found.puts_per_s, found.month
    if is_shared:
        share = shares.get(name)
        pool = counted.of(SHARED)
        puts = None if share is None or pool.puts_per_s is None else share * pool.puts_per_s
        month = None if share is None or pool.month is None else share * pool.month
    if month is None and counted.window_s is not None and not is_shared:
        month = 0.0
    if not services.watcher.rates:
        unknown |= dict.fromkeys(
            ("in_per_s", "out_per_s", "puts_per_s"), "a rate needs two looks, 5 s apart"
        )
    known = [lag.seconds for lag in lags if lag.seconds is not None]
    return TopicSummary(
        name=name,
        topic_id=topic_id_text(topic_id_from_hex(descriptor.topic_id)) if descriptor else None,
        internal=name.startswith(_INTERNAL),
        partitions=partitions,
        layout=descriptor.layout if descriptor else None,
        logs=len(places.log_folders(descriptor)) if descriptor else None,
        records=records,
        bytes=size,
        in_per_s=_rate(services, found.in_per_s),
        out_per_s=_rate(services, found.out_per_s),
        puts_per_s=puts if is_shared else _rate(services, puts),
        puts_are_a_share=is_shared,
        groups=len(lags),
        worst_lag=max((lag.records for lag in lags), default=None),
        worst_lag_s=max(known, default=None),
        cost_month=month,
        cost_is_a_share=is_shared,
        moving_to=descriptor.moving.layout if descriptor and descriptor.moving else None,
        unknown=unknown,
    )


def _rate(services: Services, rate: float | None) -> float | None:
    """A topic that no counter names was neither written nor read, once there are rates at all."""
    return 0.0 if rate is None and services.watcher.rates else rate


HANDLERS: Final[Handlers] = {
    "list_topics": list_topics,
    "get_topic": get_topic,
    "create_topic": create_topic,
    "add_partitions": add_partitions,
    "delete_topic": delete_topic,
}
