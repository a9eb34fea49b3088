"""A test that is run again meets what its first try left behind at brokers that others share."""

from typing import Any

_current = {"is_second": False}


def begin(execution_count: int) -> None:
    """Called before each test, with how often it has been begun."""
    _current["is_second"] = execution_count > 1


def forget_topic(admin: Any, topic: str, within_s: float) -> None:
    """Before a topic is created by confluent-kafka: delete the one of the first try, if any."""
    if _current["is_second"] and topic in admin.list_topics(timeout=within_s).topics:
        admin.delete_topics([topic])[topic].result(within_s)
