"""What Pulsar's clients of other languages can do beyond sending and receiving.

KAFSCALE_TEST_AGAINST=pulsar runs the same programs against Apache Pulsar: what they print there is
what they must print here.
"""

import subprocess
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import pytest

from tests.e2e.conftest import AGAINST, watched
from tests.support.apache_pulsar import ApachePulsar
from tests.support.broker import KafscaleProcess
from tests.support.java import SOURCES, compiled
from tests.support.maven import Unavailable
from tests.support.ports import free_port
from tests.support.pulsar_client import unique
from tests.support.pulsar_drivers import JAVA_VERSIONS, go_driver

pytestmark = pytest.mark.slow

WITHIN_S = 300
JAVA = """\
redelivery to one consumer: [0, 1, 2, 3, 1, 2, 3, 4, 5]
redelivery to the active consumer: [0, 1, 2, 3, 1, 2, 3, 4, 5]
negative acknowledgement: [0x0, 0x1, 0x2]
dead letter: k=cursed
retry letter: 0 1
part of a batch: [0, 2, 4]
seek: [3, 0, 1, 4, 6, true]
reader: [2, 3, 1, 0, 0, false]
table view: {k0=4, k1=3}
growth: [0, 1] [0, 1, 2, 3]
pattern: [0, 1]
keys: 100 10
sticky keys: [ConsumerAssignException, [15, 5]]
chunks: true [0]
delay: [now, later]
codecs: [NONE=true, LZ4=true, ZLIB=true, ZSTD=true, SNAPPY=true]
no queue: [0, 1, 2]
exclusive producer: [ProducerBusyException, ProducerFencedException]
schemas: [first 1, second 2, first 1, second 2, grüße]
unsubscribe: [0, 1, 2]
"""


GO = """\
negative acknowledgement: [0x0 0x1 0x2]
dead letter: [0]
retry letter: 0 1
part of a batch: [0 2 4]
seek: [3 0 4 5]
reader: [2 3 1 2 3]
table view: [k0=4 k1=3]
growth: 4
pattern: [0 1]
sticky keys: [15 5]
chunks: true
delay: [now later]
codecs: [none lz4 zlib zstd snappy]
exclusive producer: true
schemas: [avro json]
unsubscribe: [0 1 2]
"""


class PulsarAddresses(NamedTuple):
    """Where clients and administrators connect to."""

    pulsar: str
    http: str


@pytest.fixture(scope="module")
def door() -> Iterator[PulsarAddresses]:
    broker: KafscaleProcess | ApachePulsar
    if AGAINST == "pulsar":
        broker = ApachePulsar()
        port = broker.http_port
    else:
        port = free_port()
        broker = KafscaleProcess(settings=[f"pulsar.httpPort={port}"])
    with watched(broker):
        yield PulsarAddresses(
            f"pulsar://127.0.0.1:{broker.pulsar_port}", f"http://127.0.0.1:{port}"
        )


@pytest.mark.timeout(WITHIN_S + 60)
@pytest.mark.parametrize(
    ("version", "lookup"), [(JAVA_VERSIONS[0], "http"), (JAVA_VERSIONS[1], "pulsar")]
)
def test_the_java_client_can_do_what_it_can_with_pulsar(
    door: PulsarAddresses, version: str, lookup: str
) -> None:
    try:
        client = f"org.apache.pulsar:pulsar-client:{version}"
        command = compiled(SOURCES / "PulsarFeatures.java", client)
    except Unavailable as reason:
        pytest.skip(str(reason))
    run = subprocess.run(
        [*command, door.pulsar if lookup == "pulsar" else door.http, door.http, unique("java")],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert run.stdout == JAVA


@pytest.mark.timeout(WITHIN_S + 60)
def test_the_go_client_can_do_what_it_can_with_pulsar(door: PulsarAddresses) -> None:
    try:
        client = go_driver(door.pulsar)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with closing(client):
        assert client.ask(f"FEATURES {door.http} {unique('go')}") == GO.splitlines()
