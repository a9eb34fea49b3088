"""Transactions of the Java client: with an epoch for each transaction (4.x), and without (2.8)."""

import pytest

from tests.e2e.test_observability import scrape
from tests.e2e.test_old_clients import run_java
from tests.e2e.test_transactions import PARTITIONS, make_topic, read
from tests.support.apache_kafka import VERSION
from tests.support.broker import KafscaleProcess
from tests.support.clients.base import Record
from tests.support.clients.confluent import Confluent
from tests.support.exposition import parse, series
from tests.support.process import BrokerProcess

COUNT = 60
VERSIONS = [VERSION, "2.8.2"]


def registrations(broker: BrokerProcess) -> float:
    """How often clients have registered partitions."""
    if not isinstance(broker, KafscaleProcess):
        return 0.0
    asked = series("kafscale_requests_total", api="AddPartitionsToTxn")
    return parse(scrape(broker).encode()).get(asked, 0.0)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_is_copied_exactly_once(broker: BrokerProcess, version: str) -> None:
    source, copy = make_topic(broker, "source"), make_topic(broker, "copy")
    registered = registrations(broker)
    rows = [Record(n % PARTITIONS, None, b"question %d" % n) for n in range(COUNT)]
    Confluent(broker.bootstrap).produce(source, rows)
    for begun in (0, 1):  # the second one finds the offsets of the first, and nothing to do
        more = [Record(n % PARTITIONS, None, b"another %d" % n) for n in range(COUNT * begun)]
        Confluent(broker.bootstrap).produce(source, more)
        rows += more
        where = broker.bootstrap, f"copier-{copy}", source, copy, str(COUNT)
        (said,) = run_java(version, "Transactions.java", "copy", *where)
        assert said.startswith(f"copied {COUNT} in ")
        wanted = sorted(f"re: {row.value.decode()}" for row in rows if row.value is not None)
        assert read(broker, copy) == wanted
    assert len(read(broker, copy, "read_uncommitted")) > len(wanted), "nothing was aborted"
    # With an epoch for each transaction, Produce registers partitions itself.
    if isinstance(broker, KafscaleProcess):
        assert (registrations(broker) == registered) is (version == VERSION)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_second_instance_fences_the_first(broker: BrokerProcess, version: str) -> None:
    topic = make_topic(broker, "fenced")
    said = run_java(version, "Transactions.java", "fence", broker.bootstrap, f"id-{topic}", topic)
    assert said == ["fenced"]
    assert read(broker, topic) == ["of the second"]
