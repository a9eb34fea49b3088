"""MirrorMaker 2, Spring for Apache Kafka and Flink."""

from pathlib import Path

import pytest

from tests.ecosystem.running import PATIENCE_S, Running, eventually, read_topic
from tests.ecosystem.trials import tried
from tests.support.apache_kafka import VERSION, ApacheKafka
from tests.support.broker import KafscaleProcess
from tests.support.clients.base import Record
from tests.support.clients.confluent import Confluent
from tests.support.java import compiled, on_the_jvm
from tests.support.maven import Unavailable, classpath

PROGRAMS = Path(__file__).parent / "programs"
SPRING = "4.0.0"
FLINK = "2.0.0"
FLINK_CONNECTOR = "4.0.1-2.0"

MIRROR = """\
clusters = apache, ours
apache.bootstrap.servers = {apache}
ours.bootstrap.servers = {ours}
apache->ours.enabled = true
apache->ours.topics = moved.*
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
refresh.topics.interval.seconds = 1
refresh.groups.interval.seconds = 1
"""


def ask(broker: KafscaleProcess, count: int) -> list[bytes]:
    """Fill `asked` with records; the answers that a program must write."""
    client = Confluent(broker.bootstrap)
    client.create_topic("asked", 4)
    client.create_topic("answered", 4)
    client.produce("asked", [Record(n % 4, b"%d" % n, b"question %d" % n) for n in range(count)])
    return sorted(b"re: question %d" % n for n in range(count))


def answers(broker: KafscaleProcess) -> list[bytes]:
    return sorted(value or b"" for _, value in read_topic(broker.bootstrap, "answered"))


@tried(
    "MirrorMaker 2",
    VERSION,
    "a topic and the committed offsets of a group move from Apache Kafka to Kafscale; "
    "records, keys and order agree",
)
def test_mirror_maker(broker: KafscaleProcess, tmp_path: Path) -> None:
    try:
        jars = classpath(f"org.apache.kafka:connect-mirror:{VERSION}", "org.slf4j:slf4j-nop:1.7.36")
        apache = ApacheKafka(tmp_path / "apache")
    except Unavailable as reason:
        pytest.skip(str(reason))
    with apache:
        there = Confluent(apache.bootstrap)
        there.create_topic("moved", 2)
        there.produce("moved", [Record(n % 2, b"%d" % n, b"value %d" % n) for n in range(1000)])
        there.commit("readers-of-moved", "moved", {0: 500, 1: 200})
        settings = tmp_path / "mirror.properties"
        settings.write_text(MIRROR.format(apache=apache.bootstrap, ours=broker.bootstrap))
        mirror = "org.apache.kafka.connect.mirror.MirrorMaker"
        with Running(on_the_jvm(jars, mirror, str(settings)), tmp_path / "mirror.txt") as running:
            here = Confluent(broker.bootstrap)
            eventually(running, lambda: "apache.moved" in here.list_topics())
            wanted = read_topic(apache.bootstrap, "moved")
            assert len(wanted) == 1000
            eventually(running, lambda: read_topic(broker.bootstrap, "apache.moved") == wanted)
            # An offset at the end of a partition is translated exactly.
            eventually(
                running, lambda: here.committed("readers-of-moved", "apache.moved", 0) == 500
            )


@tried(
    "Spring for Apache Kafka",
    SPRING,
    "a listener container with two threads answers every record of a topic in another one; the "
    "broker is killed on the way; no record is without an answer",
)
def test_spring(broker: KafscaleProcess, tmp_path: Path) -> None:
    program = PROGRAMS / "SpringEcho.java"
    try:
        command = compiled(program, f"org.springframework.kafka:spring-kafka:{SPRING}")
    except Unavailable as reason:
        pytest.skip(str(reason))
    wanted = ask(broker, 1000)
    with Running([*command, broker.bootstrap], tmp_path / "spring.txt") as running:
        eventually(running, lambda: len(answers(broker)) > 0)
        broker.kill()
        broker.start()
        # A listener may see a record again after the broker was away, and answers it again.
        eventually(running, lambda: sorted(set(answers(broker))) == wanted)
        assert running.end() == 0, running.said()


@tried(
    f"Flink {FLINK}, connector",
    FLINK_CONNECTOR,
    "a job with checkpoints copies a topic into another one, at least once; no record is missing "
    "(the exactly-once sink needs transactions)",
)
def test_flink(broker: KafscaleProcess, tmp_path: Path) -> None:
    try:
        command = compiled(
            PROGRAMS / "FlinkCopy.java",
            f"org.apache.flink:flink-connector-kafka:{FLINK_CONNECTOR}",
            f"org.apache.flink:flink-connector-base:{FLINK}",
            f"org.apache.flink:flink-clients:{FLINK}",
            f"org.apache.flink:flink-streaming-java:{FLINK}",
        )
    except Unavailable as reason:
        pytest.skip(str(reason))
    command = [word.replace("-Xmx256m", "-Xmx1g") for word in [*command, broker.bootstrap]]
    command[1:1] = ["--add-opens=java.base/java.util=ALL-UNNAMED"]
    wanted = ask(broker, 1000)
    with Running(command, tmp_path / "flink.txt") as running:
        assert running.process.wait(PATIENCE_S) == 0, running.said()
    assert sorted(set(answers(broker))) == wanted
