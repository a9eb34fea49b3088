"""One broker and one of each client for the whole run.

KAFSCALE_TEST_AGAINST=apache runs the same tests against Apache Kafka: what fails there is a wrong
test, not a wrong broker. With =virtual every topic is a virtual one, with =shared all topics share
two logs, with =proxy every topic is a mapped one of an Apache Kafka behind `kafscale proxy`, with
=proxy-three of one with three nodes; no client may notice.
"""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.apache_kafka import ApacheKafka
from tests.support.broker import (
    KafscaleProcess,
    SharedKafscaleProcess,
    VirtualKafscaleProcess,
)
from tests.support.clients import CLIENTS
from tests.support.clients.base import Client
from tests.support.maven import Unavailable
from tests.support.process import BrokerProcess
from tests.support.proxy import ProxiedCluster, ProxiedKafka

KINDS: dict[str, type[BrokerProcess]] = {
    "kafscale": KafscaleProcess,
    "virtual": VirtualKafscaleProcess,
    "shared": SharedKafscaleProcess,
    "apache": ApacheKafka,
    "proxy": ProxiedKafka,
    "proxy-three": ProxiedCluster,
}
AGAINST = os.environ.get("KAFSCALE_TEST_AGAINST", "kafscale")

_brokers: list[BrokerProcess] = []


@pytest.fixture(scope="session")
def kind() -> type[BrokerProcess]:
    return KINDS[AGAINST]


@pytest.fixture(scope="session")
def broker(kind: type[BrokerProcess]) -> Iterator[BrokerProcess]:
    with watched(kind()) as shared:
        yield shared


@pytest.fixture
def own_broker(kind: type[BrokerProcess]) -> Iterator[BrokerProcess]:
    """A broker a test may stop, kill and start as it likes."""
    with watched(kind()) as own:
        yield own


@pytest.fixture(scope="session")
def client_named(broker: BrokerProcess) -> Iterator[Callable[[str], Client]]:
    with clients_of(broker) as get:
        yield get


@contextmanager
def clients_of(broker: BrokerProcess) -> Iterator[Callable[[str], Client]]:
    """Clients by name, each made once; a test whose client cannot be had is skipped."""
    made: dict[str, Client] = {}
    missing: dict[str, str] = {}

    def get(name: str) -> Client:
        if name not in made and name not in missing:
            try:
                made[name] = CLIENTS[name](broker.bootstrap)
            except Unavailable as reason:
                missing[name] = str(reason)
        if name in missing:
            pytest.skip(f"{name}: {missing[name]}")
        return made[name]

    yield get
    for client in made.values():
        client.close()


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, client_named: Callable[[str], Client]) -> Client:
    return client_named(request.param)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """A failed test shows what the broker said."""
    report = yield
    if report.failed:
        for number, shown in enumerate(_brokers):
            report.sections.append((f"output of broker {number}", shown.tail()))
    return report


@contextmanager
def watched(broker: BrokerProcess) -> Iterator[BrokerProcess]:
    """A running broker whose output is shown when a test fails meanwhile."""
    _brokers.append(broker)
    try:
        with broker:
            yield broker
    finally:
        _brokers.remove(broker)
