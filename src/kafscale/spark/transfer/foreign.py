"""Another Kafka, as a client sees it: its topics, its records, its groups.

Here: everything that is asked of the source of a mirror, and how brokers are reached that want a
login. Settings travel to the executors and stand in no plan of Spark's: tasks are closures, not
options.
Next door: what is done with it (jobs/mirror.py).
"""

import argparse
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from kafscale.model.configs.topic_configs import TOPIC_CONFIGS
from kafscale.model.errors import InvalidRequest, KafscaleError, UnknownTopic
from kafscale.spark.kernels.spans import HEADERS
from kafscale.spark.transfer.rewriter import Rewriter

TIMEOUT_S: Final = 30.0
_AT_ONCE: Final = 10_000
_MOMENT_S: Final = 0.2  # the client waits so long for a full list of messages
# The library would write every failed attempt to stderr, besides raising what came of them.
_SILENT: Final = {"log_level": 0}
# What is the source's own business, or would do here what it must not.
_NOT_COPIED: Final = frozenset({"message.format.version", "compression.type"})


class SourceFailed(KafscaleError):
    """The other Kafka did not give what it has."""


class ForeignTopic(NamedTuple):
    """A topic of the source."""

    name: str
    bounds: list[tuple[int, int]]  # log start and end of every partition
    configs: dict[str, str]


def add_config_argument(parser: argparse.ArgumentParser, option: str) -> None:
    """Beside an option with an address: a file that says how to log in there."""
    parser.add_argument(
        f"{option}-config",
        default="",
        metavar="FILE",
        help=f"client settings for {option}, KEY=VALUE per line: TLS, login",
    )


def read_settings(file: str) -> dict[str, str]:
    """The settings of such a file, none without one. Raises InvalidRequest."""
    if not file:
        return {}
    lines = [line.strip() for line in Path(file).read_text("utf-8").splitlines()]
    pairs = [line.split("=", 1) for line in lines if line and not line.startswith("#")]
    if any(len(pair) != 2 for pair in pairs):
        raise InvalidRequest(f"{file}: write KEY=VALUE in every line")
    return {key.strip(): value.strip() for key, value in pairs}


def admin(bootstrap: str, settings: Mapping[str, str] | None = None) -> Any:
    """An administrator's connection."""
    from confluent_kafka.admin import AdminClient

    return AdminClient({**_SILENT, "bootstrap.servers": bootstrap, **(settings or {})})


def add_partitions(client: Any, topic: str, count: int) -> None:
    """Let a broker give a topic more partitions."""
    from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

    client.list_topics(topic, timeout=TIMEOUT_S)  # so that the broker looks for it
    client.create_partitions([NewPartitions(topic, count)])[topic].result(TIMEOUT_S)


class Foreign:
    """How to reach the source; travels as these two fields."""

    def __init__(self, bootstrap: str, settings: dict[str, str] | None = None) -> None:
        self.bootstrap = bootstrap
        self.settings = settings or {}

    def _consumer(self, **more: Any) -> Any:
        from confluent_kafka import Consumer

        return Consumer(
            {
                **_SILENT,
                "bootstrap.servers": self.bootstrap,
                "group.id": "kafscale-mirror",  # needed by the library, never committed to
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "check.crcs": True,
                **self.settings,
                **more,
            }
        )

    def topics(self, names: Collection[str]) -> tuple[str, list[ForeignTopic]]:
        """The cluster's id and the topics asked for; all but internal ones if none is."""
        from confluent_kafka import KafkaException

        client = admin(self.bootstrap, self.settings)
        try:
            listed = client.list_topics(timeout=TIMEOUT_S)
        except KafkaException as silent:
            raise SourceFailed(f"{self.bootstrap}: {silent.args[0].str()}") from silent
        missing = [name for name in names if name not in listed.topics]
        if missing:
            raise UnknownTopic(f"the source has no topic {missing[0]!r}")
        chosen = sorted(names or (name for name in listed.topics if not name.startswith("__")))
        configs = self._configs(client, chosen)
        consumer = self._consumer()
        try:
            topics = [
                ForeignTopic(
                    name,
                    self._bounds(consumer, name, sorted(listed.topics[name].partitions)),
                    configs[name],
                )
                for name in chosen
            ]
        finally:
            consumer.close()
        return str(listed.cluster_id), topics

    def _bounds(self, consumer: Any, topic: str, numbers: Sequence[int]) -> list[tuple[int, int]]:
        from confluent_kafka import TopicPartition

        return [
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=TIMEOUT_S)
            for number in numbers
        ]

    def _configs(self, client: Any, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """The settings that were given to each topic, those that Kafscale knows."""
        from confluent_kafka.admin import (  # type: ignore[attr-defined]
            ConfigResource,
            ResourceType,
        )

        if not topics:
            return {}
        asked = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
        answers = client.describe_configs(asked, request_timeout=TIMEOUT_S)
        return {
            resource.name: {
                name: entry.value
                for name, entry in answer.result(TIMEOUT_S).items()
                if not entry.is_default
                and _is_topics_own(entry)
                and name in TOPIC_CONFIGS
                and name not in _NOT_COPIED
                and entry.value is not None
                and TOPIC_CONFIGS[name].is_legal(entry.value)
            }
            for resource, answer in answers.items()
        }

    def groups(self, topics: Collection[str]) -> dict[str, dict[str, dict[int, int]]]:
        """Committed offsets of every group in these topics: group, topic, partition."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        client = admin(self.bootstrap, self.settings)
        listed = client.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
        groups: dict[str, dict[str, dict[int, int]]] = {}
        for name in sorted(group.group_id for group in listed.valid):
            asked = [ConsumerGroupTopicPartitions(name)]
            answer = client.list_consumer_group_offsets(asked)[name].result(TIMEOUT_S)
            for offset in answer.topic_partitions:
                if offset.topic in topics and offset.offset >= 0:
                    mine = groups.setdefault(name, {}).setdefault(offset.topic, {})
                    mine[offset.partition] = offset.offset
        return groups

    @contextmanager
    def partition(self, topic: str, number: int) -> "Iterator[PartitionReader]":
        """Read one partition."""
        consumer = self._consumer()
        try:
            yield PartitionReader(consumer, topic, number)
        finally:
            consumer.close()


def _is_topics_own(entry: Any) -> bool:
    from confluent_kafka.admin import ConfigSource  # type: ignore[attr-defined]

    return bool(entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value)


class PartitionReader:
    """Records of one partition, in order, as Arrow."""

    def __init__(self, consumer: Any, topic: str, number: int) -> None:
        self._consumer = consumer
        self._topic = topic
        self._number = number
        self._at = -1  # where the consumer stands

    def read_into(self, writer: Rewriter, until: int, most_bytes: int) -> int:
        """Give the writer what follows its last record; the offset up to which it is complete."""
        from confluent_kafka import KafkaError, TopicPartition

        if self._at != writer.next:
            place = TopicPartition(self._topic, self._number)
            low, _ = self._consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
            place.offset = self._at = max(writer.next, low)
            self._consumer.assign([place])
        size = 0
        while self._at < until and size < most_bytes:
            messages = self._next()
            end = False
            records = []
            for message in messages:
                error = message.error()
                if error is None:
                    records.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    self._at, end = message.offset(), True
                else:
                    raise SourceFailed(f"{self._topic}-{self._number}: {error.str()}")
            if records:
                rows = as_rows(records)
                size += rows.nbytes
                writer.add(rows)
                self._at = max(self._at, records[-1].offset() + 1)
            if end:
                break  # also before `until`: a transaction is still open there
        return self._at

    def _next(self) -> list[Any]:
        """What comes within a moment; SourceFailed when nothing comes for long."""
        for _ in range(int(TIMEOUT_S / _MOMENT_S)):
            if messages := self._consumer.consume(_AT_ONCE, _MOMENT_S):
                return list(messages)
        raise SourceFailed(f"{self._topic}-{self._number}: no answer for {TIMEOUT_S:.0f} s")


def as_rows(messages: Sequence[Any]) -> pa.RecordBatch:
    """A consumer's messages with the columns of the source."""
    headers = [
        [{"key": name, "value": held} for name, held in message.headers() or ()] or None
        for message in messages
    ]
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([message.key() for message in messages], pa.binary()),
            "value": pa.array([message.value() for message in messages], pa.binary()),
            "headers": pa.array(headers, HEADERS),
            "offset": pa.array([message.offset() for message in messages], pa.int64()),
            "timestamp": pa.array([message.timestamp()[1] for message in messages], pa.int64()),
        }
    )
