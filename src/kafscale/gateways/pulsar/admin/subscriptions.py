"""Subscriptions and statistics of one topic, for the admin API.

Next door: which topic (paths.py), all partitions of it (fleet.py), the verbs
(engine/subscriptions/subscriptions.py).
"""

from http import HTTPStatus
from typing import Any, Final

import orjson

from kafscale.engine.engine import Engine
from kafscale.engine.subscriptions.ports import EARLIEST, LATEST, Description, SubscriptionName
from kafscale.engine.topics.topic import Topic
from kafscale.gateways.http import HttpAnswer, HttpRequest, as_json
from kafscale.gateways.pulsar.admin.fleet import sum_of_stats
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


def is_of_each(method: str, rest: list[str]) -> bool:
    """Whether a request about a topic of several partitions is one about each of them."""
    match (method, *rest):
        case ("GET", "partitioned-stats") | ("PUT", "unload"):
            return True
        case ("PUT" | "DELETE", "subscription", _) | ("POST", "subscription", _, "skip_all"):
            return True
        case ("POST", "subscription", _, "resetcursor", _):
            return True
    return False


async def answer(
    engine: Engine, request: HttpRequest, topic: Topic, part: int | None, rest: list[str]
) -> HttpAnswer | None:
    """Answer a request about a topic's subscriptions; None if it is not known here.

    `part`: None if the topic has several partitions and the path names none.
    """
    if (request.method, *rest) == ("GET", "subscriptions"):
        return as_json(sorted({name for name, _ in await _list(engine, topic)}))
    if part is None:
        return _not_of_all(request.method, rest)
    require_owner(engine, topic, part)
    match (request.method, *rest):
        case ("GET", "stats"):
            return as_json(await _stats(engine, topic, part))
        case ("GET", "partitioned-stats"):
            return sum_of_stats({part: as_json(await _stats(engine, topic, part))})
        case ("PUT", "subscription", name):
            start = _start(topic, request.body) if request.body else LATEST
            await engine.subscriptions.create(_named(name, topic, part), start, {})
        case ("DELETE", "subscription", name):
            force = "force=true" in request.query
            await engine.subscriptions.delete(_named(name, topic, part), force=force)
        case ("POST", "subscription", name, "skip_all"):
            await engine.subscriptions.reset(_named(name, topic, part), LATEST)
        case ("POST", "subscription", name, "skip", count):
            await engine.subscriptions.skip(_named(name, topic, part), _number(count))
        case ("POST", "subscription", name, "resetcursor", at_ms):
            named = _named(name, topic, part)
            await engine.subscriptions.reset(named, LATEST, at_ms=_number(at_ms))
        case ("POST", "subscription", name, "resetcursor"):
            start = _start(topic, request.body)
            await engine.subscriptions.reset(_named(name, topic, part), start)
        case _:
            return None
    return _NO_CONTENT


def _not_of_all(method: str, rest: list[str]) -> HttpAnswer | None:
    """What has a meaning for one partition only is refused as in Pulsar."""
    match (method, *rest):
        case ("POST", "subscription", _, "skip", _) | ("POST", "subscription", _, "resetcursor"):
            words = {"reason": "the topic has several partitions: name one of them"}
            return as_json(words, HTTPStatus.METHOD_NOT_ALLOWED)
    return None


def require_owner(engine: Engine, topic: Topic, part: int) -> None:
    """Raise NotTheOwner before anything is changed, unless this broker has the partition."""
    if engine.cluster.leader_of(topic.folder(part)) != engine.identity.broker_id:
        raise NotTheOwner(f"partition {part} of {topic.name} is another broker's")


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
