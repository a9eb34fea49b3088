"""Finding a broker."""

import argparse
import socket
from concurrent.futures import Future
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafscale.admin.brokers.client import wait_for_all
from kafscale.admin.errors import AdminError
from kafscale.cli.brokers import client_arguments
from kafscale.cli.terminal.errors import UsageError
from kafscale.cli.terminal.passwords import read_password

NO_LOGIN = dict.fromkeys(("ca", "user", "password_file", "properties_file"))


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
        args = argparse.Namespace(**NO_LOGIN, bootstrap=",".join(addresses), properties=["acks=1"])
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
        args = argparse.Namespace(**NO_LOGIN, bootstrap=address, properties=["no.such=1"])
        with pytest.raises(UsageError, match=r'-X: No such configuration property: "no\.such"'):
            client_arguments.admin_client(args)


def test_of_several_answers_every_refusal_is_told() -> None:
    answers: dict[str, Future[None]] = {name: Future() for name in ("a", "b", "c", "d")}
    for name, code in (("a", 3), ("c", 36), ("d", 17)):
        answers[name].set_exception(KafkaException(KafkaError(code)))
    answers["b"].set_result(None)
    with pytest.raises(AdminError, match=r"^a: Unknown topic or partition; d: Invalid topic$"):
        wait_for_all(answers, {KafkaError.TOPIC_ALREADY_EXISTS})


def test_a_user_logs_in_over_tls_with_the_password_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("se cret\n")
    (tmp_path / "client.properties").write_text("# more\nsasl.mechanism = SCRAM-SHA-512\n")
    given = {
        "ca": "ca.pem",
        "user": "alice",
        "password_file": str(tmp_path / "password"),
        "properties_file": str(tmp_path / "client.properties"),
    }
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        args = argparse.Namespace(**given, bootstrap=address, properties=["acks=1"])
        found = client_arguments.client_settings(args)
    assert found["security.protocol"] == "SASL_SSL"
    assert (found["sasl.username"], found["sasl.password"]) == ("alice", "se cret")
    assert (found["sasl.mechanism"], found["ssl.ca.location"]) == ("SCRAM-SHA-512", "ca.pem")
    only_tls = {**NO_LOGIN, "ca": "ca.pem"}
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        args = argparse.Namespace(**only_tls, bootstrap=address, properties=[])
        assert client_arguments.client_settings(args)["security.protocol"] == "SSL"


def test_a_password_is_never_guessed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KAFSCALE_PASSWORD", raising=False)
    with pytest.raises(UsageError, match="KAFSCALE_PASSWORD"):
        read_password(None, "KAFSCALE_PASSWORD", "")
    monkeypatch.setenv("KAFSCALE_PASSWORD", "from the variable")
    assert read_password(None, "KAFSCALE_PASSWORD", "") == "from the variable"
    (tmp_path / "empty").touch()
    with pytest.raises(UsageError, match="found none"):
        read_password(str(tmp_path / "empty"), "KAFSCALE_PASSWORD", "")
