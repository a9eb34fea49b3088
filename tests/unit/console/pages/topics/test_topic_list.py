"""The list of topics from the last look: no question per row, however many topics there are."""

import asyncio
from typing import Any

import pytest

from kafscale.admin.brokers.broker_facts import BrokerSelf
from kafscale.admin.brokers.cluster_view import FleetView, NodeFacts
from kafscale.admin.errors import AdminError
from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.call import ApiCall, Services
from kafscale.console.pages.topics.topics import get_topic, list_topics
from kafscale.console.routes import ROUTES, TopicsQuery
from kafscale.console.server import open_services
from kafscale.console.watch.reading import BrokerReading
from kafscale.console.watch.watcher import WatchedBroker
from kafscale.model.metrics.metric_names import PRODUCED_BYTES, S3_REQUESTS, STARTED
from kafscale.settings.config import Config
from kafscale.system import SystemDice
from kafscale.testing.clock import ManualClock

TOPICS, PARTITIONS = 1000, 10
ROUTE = next(route for route in ROUTES if route.name == "list_topics")
ONE = next(route for route in ROUTES if route.name == "get_topic")


def looked(at_s: float, written: int) -> BrokerReading:
    names = [f"t{number}" for number in range(TOPICS)]
    each = [(name, number) for name in names for number in range(PARTITIONS)]
    return BrokerReading(
        at_s,
        {STARTED: 1.0},
        {
            **{(PRODUCED_BYTES, name): float(written) for name in names},
            **{(S3_REQUESTS, name, "put"): float(written) for name in names},
        },
        records=dict.fromkeys(each, 5),
        bytes=dict.fromkeys(each, 100),
        lag={(f"g{number % 7}", *key): number % 3 for number, key in enumerate(each)},
    )


def services() -> tuple[Services, list[Any]]:
    found = open_services(
        Config(), "127.0.0.1:1", {}, ManualClock(), SystemDice(), "1", None, "no bucket in tests"
    )
    watcher = found.watcher
    leaders = {f"t{number}": dict.fromkeys(range(PARTITIONS), 1) for number in range(TOPICS)}
    watcher.view = FleetView("id", 1, [NodeFacts(1, "127.0.0.1", 9092, None)], leaders)
    watcher.why = ""
    broker = WatchedBroker(BrokerSelf("1", (), None, ()))
    for at_s, written in ((1000.0, 0), (1060.0, 600)):
        broker.reading = looked(at_s, written)
        broker.window.add(broker.reading)
    watcher.brokers = {1: broker}
    watcher.rates = broker.window.rates()
    watcher.as_of_ms = 1_060_000
    asked: list[Any] = []

    async def ask(question: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(question)
        raise AssertionError("the list is made of the last look")

    found.cluster.ask = ask  # type: ignore[method-assign]
    return found, asked


async def test_a_thousand_topics_need_no_question_to_brokers() -> None:
    found, asked = services()
    query = TopicsQuery(sort="-worst_lag", limit=50)
    answer = await list_topics(ApiCall(ROUTE, found, {}, query, None, None, "", ""))
    assert (len(answer.items), answer.total, answer.after) == (50, TOPICS, "50")
    assert asked == []
    row = answer.items[0]
    assert (row.records, row.bytes, row.partitions) == (50, 1000, PARTITIONS)
    assert (row.in_per_s, row.puts_per_s) == (10.0, 10.0)
    assert row.groups == 7
    assert row.unknown["layout"] == "no bucket in tests"
    found.cluster.close()


async def test_lists_are_found_sorted_and_cut_by_the_server() -> None:
    found, _ = services()
    first = TopicsQuery(find="t99", sort="-name", limit=4)
    answer = await list_topics(ApiCall(ROUTE, found, {}, first, None, None, "", ""))
    assert [row.name for row in answer.items] == ["t999", "t998", "t997", "t996"]
    assert answer.after is not None
    rest = TopicsQuery(find="t99", sort="-name", limit=100, after=answer.after)
    answer = await list_topics(ApiCall(ROUTE, found, {}, rest, None, None, "", ""))
    assert [row.name for row in answer.items][-2:] == ["t990", "t99"]
    assert answer.after is None
    found.cluster.close()


async def test_rows_do_not_wait_for_brokers_that_are_slow_to_say_where_topics_end() -> None:
    found, _ = services()
    state = found.watcher.brokers[1]
    assert state.reading is not None
    state.reading.records.clear()  # no broker has the logs open
    state.reading.bytes.clear()
    may_answer = asyncio.Event()
    questions = 0

    async def ask(_question: Any, keys: list[tuple[str, int]]) -> dict[tuple[str, int], Any]:
        nonlocal questions
        questions += 1
        await may_answer.wait()
        return dict.fromkeys(keys, (2, 9))

    found.cluster.ask = ask  # type: ignore[method-assign]
    call = ApiCall(ROUTE, found, {}, TopicsQuery(limit=5), None, None, "", "")
    first = (await list_topics(call)).items[0]
    assert first.records is None
    assert "being asked" in first.unknown["records"]
    may_answer.set()
    await found.background.wait_for_one()
    again = (await list_topics(call)).items[0]
    assert (again.records, questions) == (7 * PARTITIONS, 1)
    await found.background.aclose()
    found.cluster.close()


async def test_a_topic_that_is_newer_than_the_last_look_is_found() -> None:
    found, asked = services()
    known = {"new": {0: 1, 1: 1}}

    async def ask(question: Any, *args: Any) -> Any:
        asked.append(question.__name__)
        if question.__name__ == "list_partitions":
            if args[0] not in known:
                raise AdminError(f"{args[0]}: unknown", code=3)
            return [*known[args[0]]]
        if question.__name__ == "view_cluster":
            leaders = {**found.watcher.view.leaders, **known}
            return found.watcher.view._replace(leaders=leaders)
        if question.__name__ == "list_many_ranges":
            return dict.fromkeys(args[0], (2, 9))
        return {} if question.__name__ == "ask_brokers" else []

    found.cluster.ask = ask  # type: ignore[assignment]
    row = await get_topic(ApiCall(ONE, found, {"topic": "new"}, None, None, None, "", ""))
    assert (row.partitions, row.records) == (2, 14)
    asked.clear()
    with pytest.raises(ApiRefusal, match="there is no topic none"):
        await get_topic(ApiCall(ONE, found, {"topic": "none"}, None, None, None, "", ""))
    assert asked == ["list_partitions"]  # one question for a name that means nothing
    await found.background.aclose()
    found.cluster.close()
