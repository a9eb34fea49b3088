"""A topic of a tenant and namespace is one topic for every client and tool."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pulsar
import pytest
from confluent_kafka import Producer

from kafscale.spark.bucket import Bucket
from kafscale.spark.views import read_views
from tests.e2e.conftest import watched
from tests.e2e.test_cli import kafscale, said
from tests.support.broker import KafscaleProcess
from tests.support.clients.apache_tools import GROUPS, ApacheTools
from tests.support.maven import Unavailable
from tests.support.pulsar_client import connect, read_by_kafka

pytestmark = pytest.mark.slow

SHORT = "acme/billing/orders"
FULL = f"persistent://{SHORT}"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafscaleProcess]:
    """With two messages in the topic, one by each kind of client, and a subscription."""
    with watched(KafscaleProcess(tmp_path_factory.mktemp("tenants"))) as started:
        client = connect(started)
        consumer = client.subscribe(FULL, "s", initial_position=pulsar.InitialPosition.Earliest)
        client.create_producer(SHORT).send(b"by Pulsar")
        producer = Producer({"bootstrap.servers": started.bootstrap})
        producer.produce(FULL, b"by Kafka")
        assert producer.flush(20) == 0
        consumer.acknowledge(consumer.receive(20_000))
        client.close()
        yield started


@pytest.mark.parametrize("name", [SHORT, FULL])
def test_kafka_clients_read_it_by_both_names(broker: KafscaleProcess, name: str) -> None:
    found = [one.value() for one in read_by_kafka(broker, name, 2)]
    assert found == [b"by Pulsar", b"by Kafka"]


def test_commands_show_it(broker: KafscaleProcess) -> None:
    assert SHORT in said(broker, "topics", "list").split()
    for name in (SHORT, FULL):
        assert said(broker, "consume", name) == "by Pulsar\nby Kafka\n"
    assert SHORT in said(broker, "topics", "describe", SHORT)
    (group,) = said(broker, "groups", "describe", "pulsar:s", "--json").splitlines()
    (row,) = json.loads(group)["partitions"]
    assert (row["topic"], row["lag"]) == (SHORT, 1)
    assert SHORT.encode() in kafscale(broker, "cost").stdout


def test_kafkas_own_tool_shows_what_is_not_acknowledged(broker: KafscaleProcess) -> None:
    try:
        tools = ApacheTools(broker.bootstrap)
    except Unavailable as reason:
        pytest.skip(str(reason))
    shown = tools.run(GROUPS, "--describe", "--group", "pulsar:s")
    heads, row = (
        line.split() for line in shown.splitlines() if line.strip() and "no active" not in line
    )
    found = dict(zip(heads, row, strict=False))
    assert (found["TOPIC"], found["CURRENT-OFFSET"], found["LAG"]) == (SHORT, "1", "1")


def test_the_pipeline_reads_it(broker: KafscaleProcess) -> None:
    bucket = Bucket(f"file://{broker.data}")
    (view,) = read_views(bucket, bucket.topic(SHORT), [0])
    assert (view.topic, view.start, view.end) == (SHORT, 0, 2)
    assert [one.name for one in bucket.select(pattern="acme/.*")] == [SHORT]


def test_metrics_and_the_bucket_have_it(broker: KafscaleProcess) -> None:
    with urlopen(f"http://127.0.0.1:{broker.metrics_port}/metrics", timeout=20) as page:
        assert f'topic="{SHORT}"' in page.read().decode()
    folders = {path.name for path in Path(broker.data).rglob("acme,billing,orders")}
    assert folders == {"acme,billing,orders"}
