"""Sessions end while clients write: clients go on, and those that can log in again do."""

import json
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.conftest import AGAINST, watched
from tests.support import secured
from tests.support.exposition import parse
from tests.support.maven import Unavailable
from tests.support.secured import ADMIN, ADMIN_PASSWORD, TOPIC, SecuredProcess
from tests.support.secured_clients import LIBRARIES, PROGRAMS, SecuredClient, SecuredProgram

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(AGAINST == "apache", reason="the settings are Kafscale's"),
]
# These log in again before the session ends. The others lose the connection and make another.
LOG_IN_AGAIN = ("confluent", "java", "franz-go", "sarama", "kafkajs")
LOSE_IT = ("kafka-python", "aiokafka")


class ShortSessions(SecuredProcess):
    """A session takes two seconds: a client that stays needs several."""

    def prepare(self) -> None:
        super().prepare()
        settings = json.loads(self.config_file.read_text())
        settings["sasl"]["sessionLifetime"] = "2s"
        settings["tls"]["metrics"] = False
        self.config_file.write_text(json.dumps(settings))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredProcess]:
    process = ShortSessions(tmp_path_factory.mktemp("sessions"))
    with watched(process):
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(30)
        yield process


def counted(broker: SecuredProcess) -> dict[str, float]:
    """Logins that succeeded, and connections that sent something after their session."""
    page = f"http://127.0.0.1:{broker.metrics_port}/metrics"
    with urllib.request.urlopen(page, timeout=30) as answer:
        samples: dict[Any, float] = parse(answer.read())
    found = {"logins": 0.0, "expired": 0.0}
    for (name, labels), value in samples.items():
        if name == "kafscale_authentications_total" and ("outcome", "ok") in labels:
            found["logins"] += value
        if name == "kafscale_bad_requests_total" and ("reason", "session_expired") in labels:
            found["expired"] += value
    return found


def stayed(broker: SecuredProcess, clients: dict[str, SecuredClient]) -> dict[str, str]:
    """What each client was told, all of them at once."""
    login = secured.with_password(broker, "SCRAM-SHA-256", ADMIN, ADMIN_PASSWORD)
    with ThreadPoolExecutor(len(clients)) as pool:
        told = {
            name: pool.submit(act, broker.at("SASL_SSL"), "stay", TOPIC, login)
            for name, act in clients.items()
        }
        return {name: answer.result() for name, answer in told.items()}


def test_clients_log_in_again_on_the_same_connection(
    broker: SecuredProcess, tmp_path: Path
) -> None:
    clients: dict[str, SecuredClient] = {}
    for name in LOG_IN_AGAIN:
        (tmp_path / name).mkdir()
        try:
            clients[name] = LIBRARIES.get(name) or PROGRAMS[name](tmp_path / name)
        except Unavailable as reason:
            print(f"not tried: {name}: {reason}")
    before = counted(broker)
    try:
        assert stayed(broker, clients) == dict.fromkeys(clients, "")
    finally:
        for client in clients.values():
            if isinstance(client, SecuredProgram):
                client.close()
    after = counted(broker)
    assert after["expired"] == before["expired"]
    # Two sessions or more of each client follow the first one.
    assert after["logins"] - before["logins"] >= 3 * len(clients)


def test_clients_that_cannot_log_in_again_connect_again(broker: SecuredProcess) -> None:
    clients = {name: LIBRARIES[name] for name in LOSE_IT}
    assert stayed(broker, clients) == dict.fromkeys(clients, "")
