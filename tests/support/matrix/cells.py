"""One cell of the matrix: a question to one client, judged by another.

In this room: what each column of docs/clients.md tries. A cell that does not hold raises.
Next door: reading each other's records (crosswise.py), the page (page.py).
"""

import itertools
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from tests.support import wire
from tests.support.clients.base import CODECS, Client, ClientError, Member, Record, Stored
from tests.support.clients.confluent import Confluent

PARTITIONS: Final = 4
WITHIN_S: Final = 120.0
_names = itertools.count()


class Bench:
    """A client on trial, and the one that makes topics for it and checks what it did."""

    def __init__(self, client: Client, judge: Confluent, port: int) -> None:
        self.client = client
        self.judge = judge
        self.port = port

    def new_topic(self, purpose: str, partitions: int = 1) -> str:
        topic = f"{purpose}-{self.client.name}-{next(_names)}"
        self.judge.create_topic(topic, partitions)
        # Kafka's brokers learn of a topic a little later than they admit to it, and the judge keeps
        # asking for what it remembers of a topic that it has asked for too early.
        until(lambda: self.judge.list_topics().get(topic) == partitions, f"{topic} is listed")
        until(lambda: all(self._is_empty(topic, p) for p in range(partitions)), f"{topic} is there")
        return topic

    def fill(self, topic: str, first: int, count: int, partitions: int = PARTITIONS) -> set[bytes]:
        """The judge writes numbers, one partition after the other."""
        numbers = range(first, first + count)
        self.judge.produce(topic, [Record(n % partitions, b"k", b"%d" % n) for n in numbers])
        return {b"%d" % n for n in numbers}

    def batches(self, topic: str) -> list[wire.Batch]:
        """The batches of partition 0 as the broker hands them out."""
        with socket.create_connection(("127.0.0.1", self.port)) as sock:
            sock.sendall(wire.fetch(topic, 0, 0, 1))
            error, _, records = wire.fetched(wire.read_answer(sock)[1])
        assert error == 0
        return list(wire.batches(records))

    def _is_empty(self, topic: str, partition: int) -> bool:
        try:
            return self.judge.latest(topic, partition) == 0
        except ClientError:
            return False


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.02)


def some_records(count: int = 20) -> list[Record]:
    return [Record(0, b"key %d" % n, b"value %d" % n) for n in range(count)]


def told(found: list[Stored]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(stored.offset, stored.key, stored.value) for stored in found]


def as_written(records: list[Record]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(offset, record.key, record.value) for offset, record in enumerate(records)]


def produce(bench: Bench) -> str:
    topic, records = bench.new_topic("produce"), some_records()
    offsets = bench.client.produce(topic, records, bench.client.default_codec)
    if "offsets of what it wrote" not in bench.client.lacks:
        assert offsets == list(range(len(records)))
    assert told(bench.judge.consume(topic, [0], len(records))) == as_written(records)
    return "yes"


def consume(bench: Bench) -> str:
    topic, records = bench.new_topic("consume"), some_records()
    bench.judge.produce(topic, records)
    assert told(bench.client.consume(topic, [0], len(records))) == as_written(records)
    return "yes"


def groups(bench: Bench) -> str:
    """A member is given every partition, and reads what was there before and what comes."""
    topic = bench.new_topic("groups", PARTITIONS)
    written = bench.fill(topic, 0, 40)
    with Crowd(bench, topic) as crowd:
        crowd.join()
        crowd.reads(written)
        assert crowd.shares() == [PARTITIONS]
        crowd.reads(written | bench.fill(topic, 40, 40))
    return "yes"


def rebalance(bench: Bench) -> str:
    """Two members halve the partitions; when one leaves, the other has them all."""
    topic = bench.new_topic("rebalance", PARTITIONS)
    with Crowd(bench, topic) as crowd:
        crowd.join()
        crowd.drive(lambda: crowd.shares() == [4], "one member")
        crowd.join()
        crowd.drive(lambda: crowd.shares() == [2, 2], "two members")
        written = bench.fill(topic, 0, 40)
        crowd.reads(written)
        crowd.members.pop(0).leave()
        crowd.drive(lambda: crowd.shares() == [4], "one member again")
        crowd.reads(written | bench.fill(topic, 40, 40))
    return "yes"


def resume(bench: Bench) -> str:
    """What a member has read is committed when it leaves, and the next reads the rest only."""
    topic = bench.new_topic("resume", PARTITIONS)
    written = bench.fill(topic, 0, 40)
    with Crowd(bench, topic) as crowd:
        for first in (0, 40):
            crowd.join()
            crowd.reads(written)
            crowd.leave()
            ends = [(first + 40) // PARTITIONS] * PARTITIONS
            assert [bench.judge.committed(topic, topic, p) for p in range(PARTITIONS)] == ends
            if "commits" not in bench.client.lacks:
                assert bench.client.committed(topic, topic, 0) == ends[0]
            if first == 0:
                written |= bench.fill(topic, 40, 40)
    return "yes"


def admin(bench: Bench) -> str:
    """A topic is made, listed, altered and deleted; a second of the same name is refused."""
    client, topic = bench.client, f"admin-{bench.client.name}-{next(_names)}"
    client.create_topic(topic, 3)
    until(lambda: client.list_topics().get(topic) == 3, f"{topic} is listed")
    assert bench.judge.list_topics()[topic] == 3
    try:
        client.create_topic(topic, 3)
    except ClientError:
        pass
    else:
        raise AssertionError("made the same topic twice")
    client.create_partitions(topic, 5)
    until(lambda: client.list_topics().get(topic) == 5, f"{topic} has grown")
    client.alter_config(topic, "SET", "retention.ms", "5000000")
    until(lambda: bench.judge.configs(topic).get("retention.ms") == "5000000", f"{topic} is set")
    client.delete_topic(topic)
    until(lambda: topic not in client.list_topics(), f"{topic} is gone")
    return "yes"


def idempotence(bench: Bench) -> str:
    """The producer got an id and numbered its batches without a gap."""
    topic, records = bench.new_topic("idempotence"), some_records()
    bench.client.produce_idempotently(topic, records)
    assert told(bench.judge.consume(topic, [0], len(records))) == as_written(records)
    batches = bench.batches(topic)
    assert len({batch.producer_id for batch in batches}) == 1
    assert batches[0].producer_id >= 0
    assert [batch.base_sequence for batch in batches] == [batch.base_offset for batch in batches]
    return "yes"


def codecs(bench: Bench) -> str:
    """Written, stored as it was compressed, read by the client itself and by the judge."""
    for codec in bench.client.codecs[1:]:
        topic = bench.new_topic(codec)
        # Compressible, and large enough that no client sends it plain.
        records = [Record(0, r.key, (r.value or b"") * 100) for r in some_records()]
        bench.client.produce(topic, records, codec)
        stored = {batch.codec for batch in bench.batches(topic)}
        assert stored == {CODECS.index(codec)}, f"{codec}: stored with codec {stored}"
        for reader in (bench.client, bench.judge):
            assert told(reader.consume(topic, [0], len(records))) == as_written(records), codec
    return ", ".join(bench.client.codecs[1:])


class Crowd:
    """The members of one group, polled in turn, and what they have read together."""

    def __init__(self, bench: Bench, topic: str) -> None:
        self._bench = bench
        self._topic = topic
        self.members: list[Member] = []
        self.seen: list[Stored] = []

    def __enter__(self) -> "Crowd":
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def join(self) -> None:
        """The group is named like the topic."""
        self.members.append(self._bench.client.subscribe(self._topic, self._topic))

    def drive(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not holds():
            assert time.monotonic() < deadline, f"never: {what}; {self.shares()}, {self._values()}"
            for member in self.members:
                self.seen += member.poll()

    def reads(self, wanted: set[bytes]) -> None:
        """Everything, and nothing twice."""
        self.drive(lambda: len(self.seen) >= len(wanted), f"{len(wanted)} records")
        assert self._values() == sorted(wanted)

    def shares(self) -> list[int]:
        """How many partitions each member has, as the broker tells; nothing while they change."""
        return self._bench.judge.shares(self._topic)

    def leave(self) -> None:
        with ExitStack() as all_of_them:
            while self.members:
                all_of_them.callback(self.members.pop().leave)

    def _values(self) -> list[bytes]:
        return sorted(stored.value or b"" for stored in self.seen)


COLUMNS: Final[dict[str, Callable[[Bench], str]]] = {
    "produce": produce,
    "consume": consume,
    "groups": groups,
    "rebalance": rebalance,
    "commit and resume": resume,
    "admin": admin,
    "idempotence": idempotence,
    "codecs": codecs,
}
