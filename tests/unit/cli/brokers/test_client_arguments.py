"""Finding a broker."""

import argparse
import socket
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafscale.admin.brokers.client import wait_for_all
from kafscale.admin.errors import AdminError
from kafscale.cli.brokers import client_arguments
from kafscale.cli.terminal.errors import UsageError


def test_the_lack_of_a_listener_is_said_at_once() -> None:
    with socket.socket() as bound:  # bound and not listening: connections are refused
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(AdminError, match=f"no broker at {address}: Connection refused"):
            client_arguments.check_listener(address)


def test_one_of_several_addresses_is_enough() -> None:
    with socket.socket() as bound, socket.create_server(("127.0.0.1", 0)) as server:
        bound.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in (bound, server)]
        args = argparse.Namespace(bootstrap=",".join(addresses), properties=["acks=1"])
        assert client_arguments.client_settings(args)["acks"] == "1"


@pytest.mark.parametrize("address", ["localhost", ":9092", "host:port", "host:0", "host:65536"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="--bootstrap: expected HOST:PORT"):
        client_arguments.check_listener(address)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, "127.0.0.1:9092"), ({"KAFSCALE_BOOTSTRAP": "far:1"}, "far:1")],
)
def test_the_address_comes_from_the_option_the_environment_or_a_default(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str
) -> None:
    monkeypatch.delenv("KAFSCALE_BOOTSTRAP", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    parser = argparse.ArgumentParser()
    client_arguments.add_client_arguments(parser)
    assert parser.parse_args([]).bootstrap == expected
    assert parser.parse_args(["-b", "near:2"]).bootstrap == "near:2"


def test_a_setting_that_the_client_library_does_not_know_is_a_mistake_of_the_caller() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        args = argparse.Namespace(bootstrap=address, properties=["no.such=1"])
        with pytest.raises(UsageError, match=r'-X: No such configuration property: "no\.such"'):
            client_arguments.admin_client(args)


def test_of_several_answers_every_refusal_is_told() -> None:
    answers: dict[str, Future[None]] = {name: Future() for name in ("a", "b", "c", "d")}
    for name, code in (("a", 3), ("c", 36), ("d", 17)):
        answers[name].set_exception(KafkaException(KafkaError(code)))
    answers["b"].set_result(None)
    with pytest.raises(AdminError, match=r"^a: Unknown topic or partition; d: Invalid topic$"):
        wait_for_all(answers, {KafkaError.TOPIC_ALREADY_EXISTS})
