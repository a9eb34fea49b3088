"""Consumer groups: the list from the last look, one of them by asking brokers.

Here: lag in records and in seconds, its trend, deleting. Next door: moving offsets (resets.py).
"""

from typing import Any, Final, Literal

from kafscale.admin.groups import groups as questions
from kafscale.admin.groups.groups import GroupFacts, GroupPartition
from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.answers.shapes import (
    GroupList,
    GroupMember,
    GroupPage,
    GroupPartitionRow,
    GroupSummary,
    Unknown,
)
from kafscale.console.answers.store_shapes import SubscriptionList, SubscriptionSummary
from kafscale.console.call import ApiCall, Handlers, Services
from kafscale.console.lists import part_of
from kafscale.console.pages.topics.topics import check_typed
from kafscale.console.routes import TopicGroupsQuery
from kafscale.console.watch.ends import LagAge
from kafscale.console.watch.lags import CountedLag, catch_up_s, group_lags, trend
from kafscale.console.watch.reading import LAG_UNTRACKED

Kind = Literal["kafka", "pulsar", "fluvio"]
_PULSAR: Final = "pulsar:"
_FLUVIO: Final = "fluvio:"


def kind_of(group: str) -> Kind:
    """By which door a group's members come in."""
    if group.startswith(_PULSAR):
        return "pulsar"
    return "fluvio" if group.startswith(_FLUVIO) else "kafka"


async def list_groups(call: ApiCall) -> GroupList:
    """Give a part of all groups, or of those that read a topic."""
    query: TopicGroupsQuery = call.query
    rows = group_rows(call.services)
    if query.topic:
        rows = [row for row in rows if query.topic in row.topics]
    part = part_of(rows, query, lambda row: row.id, sort="-lag")
    return GroupList(
        items=part.items,
        after=part.after,
        total=part.total,
        as_of_ms=call.services.watcher.as_of_ms,
    )


def group_rows(services: Services) -> list[GroupSummary]:
    """Every group that brokers list, and those that only have offsets."""
    watcher = services.watcher
    if watcher.groups is None:
        raise ApiRefusal("broker", watcher.why or watcher.groups_why)
    states = dict(watcher.groups)
    lags = group_lags(watcher)
    return [
        _row(services, name, states.get(name), lags.get(name))
        for name in sorted(states.keys() | lags.keys())
    ]


def _row(services: Services, name: str, state: str | None, lag: CountedLag | None) -> GroupSummary:
    watcher = services.watcher
    unknown: Unknown = {}
    if state != "Empty":
        unknown["members"] = "open the group: brokers are asked for members one by one"
    if lag is None:
        is_full = any(one.single.get(LAG_UNTRACKED) for one in watcher.readings)
        why = "it has committed nothing since its coordinator started"
        why = watcher.unread() or ("there are too many groups for series" if is_full else why)
        unknown |= dict.fromkeys(("lag", "lag_s", "trend_per_s"), why)
    elif lag.seconds is None:
        unknown["lag_s"] = "the ends of its partitions were not seen yet"
    growth = trend(watcher, name) if lag is not None else None
    if lag is not None and growth is None:
        unknown["trend_per_s"] = "that takes a few looks, 5 s apart"
    return GroupSummary(
        id=name,
        kind=kind_of(name),
        state=state or "Empty",
        members=0 if state == "Empty" else None,
        lag=lag.records if lag else None,
        lag_s=lag.seconds if lag else None,
        lag_s_is_at_least=lag.is_at_least if lag else False,
        trend_per_s=growth,
        catch_up_s=catch_up_s(lag.records if lag else None, growth),
        topics=sorted(lag.topics) if lag else [],
        unknown=unknown,
    )


async def get_group(call: ApiCall) -> GroupPage:
    """Give a group with its members and partitions, by asking its coordinator."""
    services, name = call.services, call.query.id
    try:
        facts = await services.cluster.ask(questions.describe_group, name)
    except questions.NoSuchGroup as bad:
        raise ApiRefusal("unknown_group", str(bad)) from bad
    watcher = services.watcher
    now_s = services.clock.now_ms() / 1000
    rows = [_partition(services, row, now_s) for row in facts.partitions if row.topic is not None]
    known = [row for row in rows if row.lag_s is not None]
    worst = max(known, key=lambda row: row.lag_s or 0.0, default=None)
    growth = trend(watcher, name)
    unknown: Unknown = {}
    if growth is None:
        unknown["trend_per_s"] = "that takes a few looks, 5 s apart"
    has_committed = any(row.committed is not None for row in rows)
    lag = facts.lag if has_committed else None
    if lag is None:
        unknown |= dict.fromkeys(("lag", "lag_s"), "the group has committed nothing yet")
    return GroupPage(
        id=name,
        kind=kind_of(name),
        state=facts.state,
        assignor=facts.assignor,
        coordinator=facts.coordinator,
        lag=lag,
        lag_s=worst.lag_s if worst else (0.0 if lag == 0 else None),
        lag_s_is_at_least=worst.lag_s_is_at_least if worst else False,
        trend_per_s=growth,
        catch_up_s=catch_up_s(lag, growth),
        members=members_of(facts),
        partitions=rows,
        as_of_ms=services.clock.now_ms(),
        unknown=unknown,
    )


def members_of(facts: GroupFacts) -> list[GroupMember]:
    """The members of a group, with the number of partitions that each has."""
    counts: dict[str | None, int] = {}
    for row in facts.partitions:
        if row.topic is not None:
            counts[row.member] = counts.get(row.member, 0) + 1
    return [
        GroupMember(
            member=one.member,
            instance=one.instance,
            client=one.client,
            host=one.host,
            partitions=counts.get(one.member, 0),
        )
        for one in facts.members
    ]


def _partition(services: Services, row: GroupPartition, now_s: float) -> GroupPartitionRow:
    topic, partition = row.topic or "", row.partition or 0
    age: LagAge | None = None
    if row.lag == 0:
        age = LagAge(0.0, False)
    elif row.committed is not None:
        age = services.watcher.ends.age(now_s, topic, partition, row.committed)
    return GroupPartitionRow(
        topic=topic,
        partition=partition,
        committed=digits(row.committed),
        end=digits(row.end),
        lag=row.lag,
        lag_s=age.seconds if age else None,
        lag_s_is_at_least=age.is_at_least if age else False,
        member=row.member,
        client=row.client,
        host=row.host,
    )


def digits(number: int | None) -> str | None:
    """A number that JavaScript would round."""
    return None if number is None else str(number)


async def delete_group(call: ApiCall) -> None:
    """Delete a group whose id was typed."""
    check_typed(call.body, call.query.id)
    await call.services.cluster.ask(questions.delete_groups, [call.query.id])
    await call.services.watcher.look_now()


async def delete_offsets(call: ApiCall) -> None:
    """Forget what a group has committed of a topic."""
    # Kafka's own messages, whose code takes 3 MB.
    from kafscale.admin.groups.offset_deletion import delete_offsets as delete_committed

    group, topic = call.query.id, call.query.topic
    check_typed(call.body, group)
    cluster = call.services.cluster
    await cluster.ask(delete_committed, group, {topic: None}, cluster.settings)


async def list_subscriptions(call: ApiCall) -> SubscriptionList:
    """Give what clients of the other doors have committed, by partition."""
    watcher = call.services.watcher
    rows: list[Any] = []
    for one in watcher.readings:
        for (group, topic, partition), records in one.lag.items():
            kind = kind_of(group)
            if kind == "kafka":
                continue
            end = watcher.ends.newest(topic, partition)
            rows.append(
                SubscriptionSummary(
                    name=group.partition(":")[2],
                    door=kind,
                    topic=topic,
                    partition=partition,
                    committed=digits(None if end is None else end - records),
                    end=digits(end),
                    lag=records,
                )
            )
    rows.sort(key=lambda row: (row.door, row.name, row.topic, row.partition))
    return SubscriptionList(items=rows[:1000])


HANDLERS: Final[Handlers] = {
    "list_groups": list_groups,
    "get_group": get_group,
    "delete_group": delete_group,
    "delete_offsets": delete_offsets,
    "list_subscriptions": list_subscriptions,
}
