"""A Kafka client in a program of its own, asked by lines and answering by lines.

Next door: the form of questions and answers (asked.py), the programs (../java, ../python, ../go,
../js), who starts which (java.py, old_python.py, go.py, kafkajs.py).
"""

import itertools

from tests.support.clients.asked import AskedProgram, bytes_of, word
from tests.support.clients.base import (
    Client,
    Cluster,
    Headers,
    Member,
    Record,
    Stored,
)


class Driven(Client):
    """Subclasses name the command; the bootstrap address is its last word."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._program = AskedProgram(self.name, [*self.command(), bootstrap])
        self._names = itertools.count()

    def command(self) -> list[str]:
        """The program; Unavailable when it cannot be had here."""
        raise NotImplementedError

    def close(self) -> None:
        self._program.close()

    def produce(self, topic: str, records: list[Record], codec: str = "none") -> list[int]:
        lines = [f"PRODUCE {topic} {codec} {len(records)}", *map(_written, records)]
        return [int(line) for line in self.ask("\n".join(lines))]

    def produce_idempotently(self, topic: str, records: list[Record]) -> list[int]:
        if "idempotence" not in self.departures:
            return self.produce(topic, records)
        lines = [f"IDEMPOTENT {topic} {len(records)}", *map(_written, records)]
        return [int(line) for line in self.ask("\n".join(lines))]

    def consume(self, topic: str, partitions: list[int], count: int) -> list[Stored]:
        where = ",".join(map(str, partitions))
        return [_stored(line) for line in self.ask(f"CONSUME {topic} {where} {count}")]

    def commit(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        where = ",".join(f"{partition}={offset}" for partition, offset in offsets.items())
        self.ask(f"COMMIT {group} {topic} {where}")

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        (answer,) = self.ask(f"COMMITTED {group} {topic} {partition}")
        return None if answer == "~" else int(answer)

    def subscribe(self, group: str, topic: str) -> Member:
        name = f"member-{next(self._names)}"
        self.ask(f"SUBSCRIBE {name} {group} {topic}")
        return _DrivenMember(self, name)

    def subscribe_by(self, protocol: str, group: str, topic: str) -> Member:
        """A member that asks for a group protocol; only the driver in Java knows this."""
        name = f"member-{next(self._names)}"
        self.ask(f"SUBSCRIBE {name} {group} {topic} {protocol}")
        return _DrivenMember(self, name)

    def create_topic(self, topic: str, partitions: int) -> None:
        self.ask(f"CREATE {topic} {partitions}")

    def delete_topic(self, topic: str) -> None:
        self.ask(f"DELETE {topic}")

    def list_topics(self) -> dict[str, int]:
        topics = (line.split(" ") for line in self.ask("LIST"))
        return {name: int(partitions) for name, partitions in topics}

    def create_partitions(self, topic: str, total: int) -> None:
        self.ask(f"PARTITIONS {topic} {total}")

    def configs(self, topic: str) -> dict[str, str]:
        rows = (line.split(" ") for line in self.ask(f"CONFIGS TOPIC {topic}"))
        return {name: value for name, value, source in rows if source == "DYNAMIC_TOPIC_CONFIG"}

    def alter_config(self, topic: str, operation: str, name: str, value: str | None) -> None:
        self.ask(f"ALTER {topic} {operation} {name} {value or '~'}")

    def replace_configs(self, topic: str, configs: dict[str, str]) -> None:
        pairs = " ".join(f"{name}={value}" for name, value in configs.items())
        self.ask(f"REPLACE {topic} {pairs}")

    def broker_config(self, broker: int, name: str) -> str:
        rows = (line.split(" ") for line in self.ask(f"CONFIGS BROKER {broker}"))
        return next(value for found, value, _ in rows if found == name)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        return int(self.ask(f"DELETERECORDS {topic} {partition} {before}")[0])

    def earliest(self, topic: str, partition: int) -> int:
        return self._offset(topic, partition, "earliest")

    def latest(self, topic: str, partition: int) -> int:
        return self._offset(topic, partition, "latest")

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        offset = self._offset(topic, partition, str(timestamp_ms))
        return None if offset < 0 else offset

    def offset_of_max_timestamp(self, topic: str, partition: int) -> int:
        return self._offset(topic, partition, "max")

    def cluster(self) -> Cluster:
        cluster_id, controller, brokers = self.ask("CLUSTER")[0].split(" ")
        return Cluster(cluster_id, int(controller), tuple(map(int, brokers.split(","))))

    def begin_transaction(self, transactional_id: str) -> None:
        self.ask(f"TRANSACTION {transactional_id}")

    def _offset(self, topic: str, partition: int, at: str) -> int:
        return int(self.ask(f"OFFSET {topic} {partition} {at}")[0])

    def ask(self, command: str) -> list[str]:
        return self._program.ask(command)


class _DrivenMember(Member):
    def __init__(self, client: Driven, name: str) -> None:
        self._client = client
        self._name = name

    def poll(self) -> list[Stored]:
        return [_stored(line) for line in self._client.ask(f"POLL {self._name}")]

    def partitions(self) -> set[int]:
        return {int(line) for line in self._client.ask(f"ASSIGNMENT {self._name}")}

    def leave(self) -> None:
        self._client.ask(f"LEAVE {self._name}")


def _written(record: Record) -> str:
    time = "~" if record.timestamp_ms is None else str(record.timestamp_ms)
    words = [str(record.partition), word(record.key), word(record.value), time]
    for name, value in record.headers:
        words += [word(name.encode()), word(value)]
    return " ".join(words)


def _stored(line: str) -> Stored:
    partition, offset, key, value, timestamp, *rest = line.split(" ")
    names, values = rest[::2], rest[1::2]
    headers: Headers = tuple(
        ((bytes_of(name) or b"").decode(), bytes_of(value))
        for name, value in zip(names, values, strict=True)
    )
    return Stored(
        int(partition), int(offset), bytes_of(key), bytes_of(value), headers, int(timestamp)
    )
