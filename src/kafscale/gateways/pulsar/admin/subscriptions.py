"""Subscriptions and statistics of one topic, for the admin API.

Next door: which topic (admin.py), the verbs (engine/subscriptions/subscriptions.py).
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

import orjson

from kafscale.engine.engine import Engine
from kafscale.engine.subscriptions.ports import EARLIEST, LATEST, Description, SubscriptionName
from kafscale.engine.topics.topic import Topic
from kafscale.gateways.http import HttpAnswer, HttpRequest, as_json
from kafscale.gateways.pulsar.context import GROUP_PREFIX
from kafscale.model.errors import InvalidRequest, NotTheOwner, SubscriptionNotFound
from kafscale.subscriptions.events import Mode

_NO_CONTENT: Final = HttpAnswer(HTTPStatus.NO_CONTENT)
_LONGEST_NUMBER: Final = 18
_LAST: Final = (1 << 63) - 1  # ledger and entry of "latest"
_MESSAGE_ID: Final = ("ledgerId", "entryId", "batchIndex")
_NAMED_STARTS: Final = {"earliest": EARLIEST, "latest": LATEST}
_TYPES: Final = {
    Mode.EXCLUSIVE: "Exclusive",
    Mode.FAILOVER: "Failover",
    Mode.SHARED: "Shared",
    Mode.KEY_SHARED: "Key_Shared",
}


async def answer(
    engine: Engine, request: HttpRequest, topic: Topic, part: int | None, rest: list[str]
) -> HttpAnswer | None:
    """Answer a request about a topic's subscriptions; None if it is not known here.

    `part`: None if the topic has several partitions and the path names none.
    """
    partitions = range(topic.partitions) if part is None else [part]
    if rest[:1] != ["subscriptions"]:
        _require_owner(engine, topic, partitions)
    match (request.method, *rest):
        case ("GET", "subscriptions"):
            return as_json(sorted({name for name, _ in await _list(engine, topic)}))
        case ("GET", "stats") if part is not None:
            return as_json(await _stats(engine, topic, part))
        case ("GET", "partitioned-stats"):
            return as_json(await _partitioned_stats(engine, topic))
        case ("PUT", "subscription", name):
            start = _start(topic, request.body) if request.body else LATEST
            for number in partitions:
                await engine.subscriptions.create(_named(name, topic, number), start, {})
        case ("DELETE", "subscription", name):
            force = "force=true" in request.query
            for number in partitions:
                await engine.subscriptions.delete(_named(name, topic, number), force=force)
        case ("POST", "subscription", name, "skip_all"):
            for number in partitions:
                await engine.subscriptions.reset(_named(name, topic, number), LATEST)
        case ("POST", "subscription", name, "skip", count) if part is not None:
            await engine.subscriptions.skip(_named(name, topic, part), _number(count))
        case ("POST", "subscription", name, "resetcursor", at_ms):
            for number in partitions:
                named = _named(name, topic, number)
                await engine.subscriptions.reset(named, LATEST, at_ms=_number(at_ms))
        case ("POST", "subscription", name, "resetcursor") if part is not None:
            start = _start(topic, request.body)
            await engine.subscriptions.reset(_named(name, topic, part), start)
        case _:
            return None
    return _NO_CONTENT


def _require_owner(engine: Engine, topic: Topic, partitions: Sequence[int]) -> None:
    """Raise NotTheOwner before anything is changed, unless this broker has all of them."""
    for number in partitions:
        if engine.cluster.leader_of(topic.folder(number)) != engine.identity.broker_id:
            raise NotTheOwner(f"partition {number} of {topic.name} is another broker's")


def _named(name: str, topic: Topic, partition: int) -> SubscriptionName:
    return SubscriptionName(f"{GROUP_PREFIX}{name}", topic, partition)


async def _list(engine: Engine, topic: Topic) -> list[tuple[str, int]]:
    return [
        (group_id.removeprefix(GROUP_PREFIX), partition)
        for group_id, partition in await engine.subscriptions.list(topic)
        if group_id.startswith(GROUP_PREFIX)
    ]


async def _stats(engine: Engine, topic: Topic, partition: int) -> dict[str, Any]:
    bounds = await engine.partitions.bounds(topic, partition, -1)
    subscriptions: dict[str, Any] = {}
    for name, number in await _list(engine, topic):
        if number == partition:
            try:
                described = await engine.subscriptions.describe(_named(name, topic, partition))
            except SubscriptionNotFound:
                continue  # deleted meanwhile
            subscriptions[name] = _subscription(described)
    return {
        "msgInCounter": bounds.end,
        "storageSize": await engine.partitions.size_of(topic, partition),
        "subscriptions": subscriptions,
    }


def _subscription(described: Description) -> dict[str, Any]:
    census = described.census
    consumers = () if census is None else census.consumers
    return {
        "msgBacklog": described.backlog,
        "unackedMessages": 0 if census is None else census.in_flight,
        "msgDelayed": 0 if census is None else census.delayed,
        "type": "None" if census is None else _TYPES[census.mode],
        "isDurable": described.is_durable,
        "subscriptionProperties": described.properties,
        "consumers": [
            {
                "consumerName": one.name,
                "availablePermits": one.permits,
                "unackedMessages": one.unacked,
                "blockedConsumerOnUnackedMsgs": one.is_blocked,
            }
            for one in consumers
        ],
    }


async def _partitioned_stats(engine: Engine, topic: Topic) -> dict[str, Any]:
    total: dict[str, Any] = {"msgInCounter": 0, "storageSize": 0, "subscriptions": {}}
    for number in range(topic.partitions):
        one = await _stats(engine, topic, number)
        total["msgInCounter"] += one["msgInCounter"]
        total["storageSize"] += one["storageSize"]
        for name, row in one["subscriptions"].items():
            known = total["subscriptions"].setdefault(name, {"msgBacklog": 0, "consumers": []})
            known["msgBacklog"] += row["msgBacklog"]
            known["consumers"] += row["consumers"]
    return total | {"metadata": {"partitions": topic.partitions}}


def _start(topic: Topic, body: bytes) -> int:
    """Where a subscription goes on: "earliest", "latest", or at a message id, or behind it."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = None
    if isinstance(value, str) and value in _NAMED_STARTS:
        return _NAMED_STARTS[value]
    if not isinstance(value, dict):
        raise InvalidRequest("the body is no message id")
    numbers: dict[str, Any] = {"batchIndex": -1, **value}
    ledger, entry, index = (_part(numbers.get(name)) for name in _MESSAGE_ID)
    incarnation = topic.descriptor.incarnation
    if ledger > incarnation or entry == _LAST:
        return LATEST
    if ledger < incarnation or entry < 0:
        return EARLIEST
    return entry + max(index, 0) + int(value.get("isExcluded") is True)


def _part(value: object) -> int:
    """A number of a message id."""
    if not isinstance(value, int) or isinstance(value, bool) or value > _LAST:
        raise InvalidRequest("the body is no message id")
    return value


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > _LONGEST_NUMBER:
        raise InvalidRequest(f"{text!r} is no number")
    return int(text)
