"""Apache Kafka's own command line tools: every question is one run of a tool.

Keys and values are text without tabs and line ends, as people type them.
"""

import re
import subprocess
from typing import Final

from tests.support.apache_kafka import VERSION
from tests.support.clients.base import ANSWER_WITHIN_S, Client, ClientError, Member, Record, Stored
from tests.support.clients.members import ProgramMember
from tests.support.java import on_the_jvm
from tests.support.maven import classpath

TOOLS: Final = "org.apache.kafka.tools"
TOPICS: Final = f"{TOOLS}.TopicCommand"
CONFIGS: Final = "kafka.admin.ConfigCommand"
GROUPS: Final = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
PRODUCER: Final = f"{TOOLS}.ConsoleProducer"
CONSUMER: Final = f"{TOOLS}.consumer.ConsoleConsumer"

SHOWN: Final = ("timestamp", "partition", "offset", "key")


class ApacheTools(Client):
    name = "apache-tools"
    title = "Kafka's command line tools"
    version = VERSION
    lacks = frozenset({"offsets of what it wrote", "choosing a partition"})

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        names = ("kafka_2.13", "kafka-tools")
        self.jars = ":".join(classpath(f"org.apache.kafka:{n}:{self.version}") for n in names)

    def produce(self, topic: str, records: list[Record], codec: str = "none") -> list[int]:
        """Nothing is told of offsets; the keys choose the partitions."""
        words = ["--topic", topic]
        if codec != "none":
            words += ["--compression-codec", codec]
        keyed = any(record.key is not None for record in records)
        if keyed:
            words += _properties("reader", {"parse.key": "true"})
        lines = [f"{_text(r.key)}\t{_text(r.value)}" if keyed else _text(r.value) for r in records]
        self.run(PRODUCER, *words, given="".join(f"{line}\n" for line in lines))
        return []

    def consume(self, topic: str, partitions: list[int], count: int) -> list[Stored]:
        words = [*_reading(topic), "--max-messages", str(count), "--timeout-ms", "60000"]
        said = self.run(CONSUMER, *words)
        found = [_stored(line) for line in said.splitlines()]
        return [stored for stored in found if stored.partition in partitions]

    def subscribe(self, group: str, topic: str) -> Member:
        command = self.command(CONSUMER, *_reading(topic), "--group", group)
        return ProgramMember(command, _stored)

    def create_topic(self, topic: str, partitions: int) -> None:
        self.run(TOPICS, "--create", "--topic", topic, "--partitions", str(partitions))

    def delete_topic(self, topic: str) -> None:
        self.run(TOPICS, "--delete", "--topic", topic)

    def list_topics(self) -> dict[str, int]:
        said = self.run(TOPICS, "--describe")
        rows = re.findall(r"^Topic: (\S+)\s.*PartitionCount: (\d+)", said, re.MULTILINE)
        return {name: int(partitions) for name, partitions in rows}

    def create_partitions(self, topic: str, total: int) -> None:
        self.run(TOPICS, "--alter", "--topic", topic, "--partitions", str(total))

    def alter_config(self, topic: str, operation: str, name: str, value: str | None) -> None:
        change = ["--add-config", f"{name}={value}"]
        if operation == "DELETE":
            change = ["--delete-config", name]
        self.run(CONFIGS, "--entity-type", "topics", "--entity-name", topic, "--alter", *change)

    def configs(self, topic: str) -> dict[str, str]:
        where = ["--entity-type", "topics", "--entity-name", topic]
        said = self.run(CONFIGS, *where, "--describe")
        return dict(re.findall(r"^\s+(\S+?)=(\S+) sensitive", said, re.MULTILINE))

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        said = self.run(GROUPS, "--describe", "--group", group)
        rows = (line.split() for line in said.splitlines())
        offsets = [row[3] for row in rows if row[:3] == [group, topic, str(partition)]]
        return int(offsets[0]) if offsets and offsets[0] != "-" else None

    def command(self, tool: str, *words: str) -> list[str]:
        return on_the_jvm(self.jars, tool, "--bootstrap-server", self.bootstrap, *words)

    def run(self, tool: str, *words: str, given: str = "") -> str:
        """What a tool prints; ClientError when it fails."""
        command = self.command(tool, *words)
        try:
            done = subprocess.run(
                command,
                input=given,
                capture_output=True,
                text=True,
                timeout=2 * ANSWER_WITHIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise ClientError(f"{tool} hangs: {late.stdout!r}") from late
        if done.returncode:
            raise ClientError(f"{tool}: {done.stdout}{done.stderr}")
        return done.stdout


def _reading(topic: str) -> list[str]:
    shown = {f"print.{what}": "true" for what in SHOWN}
    return ["--topic", topic, "--from-beginning", *_properties("formatter", shown)]


def _properties(of: str, given: dict[str, str]) -> list[str]:
    pairs = [(f"--{of}-property", f"{name}={value}") for name, value in given.items()]
    return [word for pair in pairs for word in pair]


def _text(raw: bytes | None) -> str:
    assert raw is not None, "there is no way to type null"
    return raw.decode()


def _stored(line: str) -> Stored:
    time, partition, offset, key, value = line.split("\t")
    return Stored(
        int(partition.removeprefix("Partition:")),
        int(offset.removeprefix("Offset:")),
        None if key == "null" else key.encode(),
        None if value == "null" else value.encode(),
        (),
        int(time.rpartition(":")[2]),
    )
