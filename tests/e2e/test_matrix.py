"""docs/clients.md holds: every cell is tried, with every client.

KAFSCALE_TEST_WRITE_CLIENTS=1 (`make clients`) writes what is seen into the page instead.
"""

import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from tests.e2e.conftest import watched
from tests.support.broker import KafscaleProcess
from tests.support.clients import EVERYONE
from tests.support.clients.base import Client
from tests.support.clients.confluent import Confluent
from tests.support.matrix import crosswise, pulsar_crosswise
from tests.support.matrix.cells import COLUMNS, Bench
from tests.support.matrix.page import ABSENT, PATH, UNKNOWN, Page
from tests.support.maven import Unavailable
from tests.support.process import BrokerProcess
from tests.support.pulsar_client import connect

# The first run fetches and builds the clients.

WRITING = bool(os.environ.get("KAFSCALE_TEST_WRITE_CLIENTS"))


@pytest.fixture(scope="module")
def matrix_broker(kind: type[BrokerProcess]) -> Iterator[BrokerProcess]:
    """Its groups begin at once: dozens are made, and the first member need not wait for others."""
    at_once = ["consumer.initialRebalanceDelayMs=0"]
    made = kind(settings=at_once) if issubclass(kind, KafscaleProcess) else kind()
    with watched(made) as broker:
        yield broker


@pytest.fixture(scope="module")
def judge(matrix_broker: BrokerProcess) -> Confluent:
    return Confluent(matrix_broker.bootstrap)


def start(name: str, broker: BrokerProcess, undo: ExitStack) -> Client:
    client = EVERYONE[name](broker.bootstrap)
    undo.callback(client.close)
    found = client.found_version()
    if found != client.version:
        raise Unavailable(f"the page tells of {client.version}, here is {found}")
    return client


@pytest.mark.parametrize("name", EVERYONE)
def test_a_client_does_what_the_page_says(
    name: str, matrix_broker: BrokerProcess, judge: Confluent
) -> None:
    with ExitStack() as undo:
        try:
            client = start(name, matrix_broker, undo)
        except Unavailable as reason:
            pytest.skip(f"{name}: {reason}")
        bench = Bench(client, judge, matrix_broker.port)
        seen = {column: outcome(bench, column, cell) for column, cell in COLUMNS.items()}
    page = Page.load()
    if WRITING:
        page.features[name] = seen
        page.save()
    assert seen == page.features[name]


def outcome(bench: Bench, column: str, cell: Callable[[Bench], str]) -> str:
    if column in bench.client.absent:
        return ABSENT
    try:
        return cell(bench)
    except Exception:
        # A cell that does not hold is told as such; the reason is for the reader of the output.
        print(f"{bench.client.name}: {column}")
        traceback.print_exc()
        return "no"


def test_everyone_reads_what_everyone_wrote(matrix_broker: BrokerProcess, judge: Confluent) -> None:
    places = {name: place for place, name in enumerate(EVERYONE)}
    crosswise.prepare(judge, len(places))
    missing: list[str] = []
    present: dict[str, Client] = {}
    seen: dict[str, dict[str, str]] = {}
    with ExitStack() as undo:
        for name in EVERYONE:
            try:
                present[name] = start(name, matrix_broker, undo)
            except Unavailable as reason:
                missing.append(f"{name}: {reason}")
        for name, client in present.items():
            crosswise.write(client, places[name], len(places))
        for name, client in present.items():
            seen[name] = crosswise.read(client, present, places)
        broken = beside_pulsar(matrix_broker, present, places)
    page = Page.load()
    if WRITING:
        for name, row in seen.items():
            page.crosswise[name] |= {writer: cell[:3].strip(":") for writer, cell in row.items()}
        page.save()
    said = {name: {who: page.crosswise[name][who] for who in present} for name in present}
    assert seen == said
    assert not broken
    if missing:
        pytest.skip("without " + "; ".join(missing))


def beside_pulsar(
    broker: BrokerProcess, present: dict[str, Client], places: dict[str, int]
) -> dict[str, list[str]]:
    """What Kafka's and Pulsar's clients do not read of each other, by Kafka client."""
    if not isinstance(broker, KafscaleProcess):
        return {}
    with closing(connect(broker)) as client:
        pulsar_crosswise.write(client)
        seen = {
            name: [
                *pulsar_crosswise.read_by(one),
                *pulsar_crosswise.read(client, one, places[name], len(places)),
            ]
            for name, one in present.items()
        }
    return {name: rows for name, rows in seen.items() if rows}


def test_the_page_is_whole() -> None:
    page = Page.load()
    assert PATH.read_text() == page.text(), "run `make clients`"
    rows = [*page.features.values(), *page.crosswise.values()]
    assert not any(UNKNOWN in row.values() for row in rows), "run `make clients`"
