"""Connections to brokers, by confluent-kafka, and its errors in one line.

Here: settings of a client, waiting for answers, refusals as AdminError.
Next door: what is asked (topics.py, configs.py, admin/groups).
"""

import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeAlias, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kafscale.admin.errors import AdminError, InvalidArgument

T = TypeVar("T")
KafkaAdmin: TypeAlias = AdminClient  # for rooms that do not know the library

ANSWER_WITHIN_S: Final = 15.0
_CONNECT_WITHIN_S: Final = 5.0


def client_settings(
    bootstrap: str, client_id: str, properties: Mapping[str, str], **more: object
) -> dict[str, Any]:
    """Give the settings of a client; `properties`, in librdkafka's words, beat all others."""
    return {
        "bootstrap.servers": bootstrap,
        "client.id": client_id,
        "log_level": 0,  # what matters comes back as an error; the rest would spoil the output
        **more,
        **properties,
    }


def require_listener(bootstrap: str, addresses: Sequence[tuple[str, int]]) -> None:
    """Raise AdminError at once if no address accepts connections; librdkafka would wait long."""
    reason = "no address given"
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout=_CONNECT_WITHIN_S).close()
        except OSError as bad:
            reason = bad.strerror or str(bad)
        else:
            return
    raise AdminError(f"no broker at {bootstrap}: {reason} (`kafscale serve` starts one)")


def open_client(kind: Callable[[dict[str, Any]], T], settings: dict[str, Any]) -> T:
    """Make a client; InvalidArgument for settings that its library does not take."""
    try:
        return kind(settings)
    except KafkaException as bad:
        raise InvalidArgument(str(refusal("", bad))) from bad


def open_admin(settings: dict[str, Any]) -> AdminClient:
    """Make a client for administration. Keep it until every answer is there."""
    return open_client(AdminClient, settings)


def put_question(question: Callable[[], T]) -> T:
    """Put a question; what the client library does not take is an AdminError, too."""
    try:
        return question()
    except KafkaException as bad:
        raise refusal("", bad) from bad
    except ValueError as bad:  # a name that is empty, or holds what none may hold
        raise InvalidArgument(str(bad)) from bad


def wait(subject: str, answer: "Future[Any]", tolerated: Iterable[int] = ()) -> Any:
    """Give what was answered, None for errors that are fine, or raise the refusal."""
    try:
        return answer.result()
    except KafkaException as bad:
        if bad.args[0].code() in tolerated:
            return None
        raise refusal(subject, bad) from bad


def wait_for_all(answers: "Mapping[str, Future[Any]]", tolerated: Iterable[int] = ()) -> None:
    """Wait for every answer; a refused one does not hide what became of the others."""
    refusals: list[AdminError] = []
    for subject, answer in answers.items():
        try:
            wait(subject, answer, tolerated)
        except AdminError as bad:
            refusals.append(bad)
    if refusals:
        raise AdminError("; ".join(map(str, refusals)), refusals[0].code)


def refusal(subject: str, bad: KafkaException | KafkaError) -> AdminError:
    """Turn an error of the client library into one line."""
    error = bad.args[0] if isinstance(bad, KafkaException) and bad.args else bad
    text = (error.str() if isinstance(error, KafkaError) else str(error)).removeprefix("Broker: ")
    code = error.code() if isinstance(error, KafkaError) else None
    return AdminError(f"{subject}: {text}" if subject else text, code)
