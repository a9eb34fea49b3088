"""Finding topics in a query."""

from typing import ClassVar

import pytest

from kafscale.model.errors import InvalidRequest, UnknownTopic
from kafscale.spark.source.sql import quoted, register_topics, unknown_table

NAMES = ["orders", "orders.v2", "web-logs", "a", "a-b"]


@pytest.mark.parametrize(
    ("query", "expected", "used"),
    [
        ("select * from topic.orders", "select * from `topic.orders`", ["orders"]),
        ("SELECT 1 FROM Topic.orders o", "SELECT 1 FROM `topic.orders` o", ["orders"]),
        ("from topic.orders.v2", "from `topic.orders.v2`", ["orders.v2"]),
        ("from topic.`web-logs`", "from `topic.web-logs`", ["web-logs"]),
        ("from topic.web-logs", "from `topic.web-logs`", ["web-logs"]),
        ("from topic.a-b, topic.a", "from `topic.a-b`, `topic.a`", ["a-b", "a"]),
        (
            "select topic.orders.offset from topic.orders",
            "select `topic.orders`.offset from `topic.orders`",
            ["orders"],
        ),
        (
            "select topic, 'topic.a', \"topic.a\" -- topic.a\n/* topic.a */ from topic.orders",
            "select topic, 'topic.a', \"topic.a\" -- topic.a\n/* topic.a */ from `topic.orders`",
            ["orders"],
        ),
        ("select 'it''s topic.a' from x", "select 'it''s topic.a' from x", []),
        ("select mytopic.a from x", "select mytopic.a from x", []),
        ("select o.topic from topic.orders o", "select o.topic from `topic.orders` o", ["orders"]),
        ("from `topic.orders`", "from `topic.orders`", ["orders"]),
        ("select `topic` from `orders`", "select `topic` from `orders`", []),
    ],
)
def test_topics_get_the_quotes_that_spark_wants(query: str, expected: str, used: list[str]) -> None:
    assert quoted(query, NAMES) == (expected, used)


def test_an_unknown_topic_is_named_and_the_known_ones_too() -> None:
    with pytest.raises(UnknownTopic, match=r"no topic 'order'; the nearest: orders"):
        quoted("select * from topic.order", NAMES)


def test_a_longer_word_is_not_a_topic_with_a_tail() -> None:
    with pytest.raises(UnknownTopic, match="'orders_2'"):
        quoted("select * from topic.orders_2", NAMES)


def test_without_a_store_the_session_is_asked() -> None:
    class Session:
        conf: ClassVar[dict[str, str]] = {}

    with pytest.raises(InvalidRequest, match=r"spark\.kafscale\.store"):
        register_topics(Session())  # type: ignore[arg-type]
    Session.conf["spark.kafscale.store"] = "gs://missing"
    with pytest.raises(AttributeError, match="dataSource"):  # goes on to use the session
        register_topics(Session())  # type: ignore[arg-type]


def test_of_many_topics_that_are_not_alike_some_are_named() -> None:
    names = [f"{letter * 5}" for letter in "abcdefgh"]
    with pytest.raises(UnknownTopic, match=r"there are: aaaaa, .*, eeeee and 3 more$"):
        quoted("select 1 from topic.zz", names)


def test_a_topic_without_its_prefix_is_understood() -> None:
    assert unknown_table("orders", NAMES) == (
        "there is no table 'orders'; the topic of that name is topic.orders"
    )
    assert unknown_table("log", ["web-logs", "logs"]) == (
        "there is no table 'log'; topics are tables topic.NAME, the nearest: logs"
    )
