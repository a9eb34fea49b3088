"""kcat: librdkafka on the command line."""

import json
import re
import subprocess
from itertools import groupby
from typing import Any, ClassVar

from tests.support.clients.base import (
    ANSWER_WITHIN_S,
    Client,
    ClientError,
    Cluster,
    Headers,
    Member,
    Record,
    Stored,
)
from tests.support.clients.members import ProgramMember
from tests.support.debian import program

# Bytes no test record contains: between messages, between key and value.
BETWEEN, AFTER_KEY = b"\x1e", b"\x1f"
FORMAT = r"%p %o %K %S %T %h\n%k%s\n"


FROM_START = "`-X auto.offset.reset=earliest`"
# For members: one line per record, of records that are text.
MEMBER_FORMAT = r"%p\t%o\t%T\t%k\t%s\n"


class Kcat(Client):
    name = "kcat"
    title = "kcat"
    version = "1.7.1"
    absent: ClassVar = {"admin": "it can only list"}
    departures: ClassVar = {
        "groups": FROM_START,
        "rebalance": FROM_START,
        "commit and resume": FROM_START,
        "idempotence": "`-X enable.idempotence=true`",
    }
    lacks = frozenset(
        {
            "timestamps",
            "null headers",
            "binary",
            "admin",
            "records without key and value",
            "max timestamp",
            "cluster id",
            "commits",
        }
    )

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._program = program("kcat")

    def found_version(self) -> str:
        said = subprocess.run([self._program, "-V"], capture_output=True, text=True, check=True)
        return re.findall(r"Version (\S+)", said.stdout)[0]

    def produce(self, topic: str, records: list[Record], codec: str = "none") -> list[int]:
        return self._produce(topic, records, "-z", codec)

    def produce_idempotently(self, topic: str, records: list[Record]) -> list[int]:
        return self._produce(topic, records, "-X", "enable.idempotence=true")

    def subscribe(self, group: str, topic: str) -> Member:
        words = ["-b", self.bootstrap, "-q", "-u", "-X", "auto.offset.reset=earliest"]
        words += ["-f", MEMBER_FORMAT, "-G", group, topic]
        return ProgramMember([self._program, *words], _from_line)

    def _produce(self, topic: str, records: list[Record], *settings: str) -> list[int]:
        offsets: list[int] = []
        for (partition, headers, nulls), alike in groupby(records, key=_invocation):
            arguments = ["-P", "-t", topic, "-p", str(partition), *settings, "-v", "-v"]
            arguments += ["-D", r"\x1e", "-K", r"\x1f", *(["-Z"] if nulls else [])]
            for name, value in headers:
                arguments += ["-H", f"{name}={(value or b'').decode()}"]
            said = self._run(arguments, BETWEEN.join(map(_line, alike))).stderr.decode()
            offsets += map(int, re.findall(r"delivered to partition \d+ \(offset (\d+)\)", said))
        return offsets

    def consume(self, topic: str, partitions: list[int], count: int) -> list[Stored]:
        # One partition or all: it waits half a second at the end of each run.
        where = ["-p", str(partitions[0])] if len(partitions) == 1 else []
        arguments = ["-C", "-t", topic, *where, "-o", "beginning", "-e", "-q", "-f", FORMAT]
        found = _parse(self._run(arguments).stdout)
        return [stored for stored in found if stored.partition in partitions]

    def list_topics(self) -> dict[str, int]:
        topics = self._metadata()["topics"]
        return {topic["topic"]: len(topic["partitions"]) for topic in topics}

    def earliest(self, topic: str, partition: int) -> int:
        return self._query(topic, partition, -2)

    def latest(self, topic: str, partition: int) -> int:
        return self._query(topic, partition, -1)

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        offset = self._query(topic, partition, timestamp_ms)
        return None if offset < 0 else offset

    def cluster(self) -> Cluster:
        answer = self._metadata()
        ids = tuple(sorted(broker["id"] for broker in answer["brokers"]))
        return Cluster("", answer["controllerid"], ids)

    def begin_transaction(self, transactional_id: str) -> None:
        self._run(["-P", "-t", "never", "-X", f"transactional.id={transactional_id}"], b"x")

    def _metadata(self) -> Any:
        return json.loads(self._run(["-L", "-J"]).stdout)

    def _query(self, topic: str, partition: int, timestamp_ms: int) -> int:
        said = self._run(["-Q", "-t", f"{topic}:{partition}:{timestamp_ms}"]).stdout.decode()
        return int(re.findall(r"offset (-?\d+)", said)[0])

    def _run(self, arguments: list[str], given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        try:
            run = subprocess.run(
                [self._program, "-b", self.bootstrap, *arguments],
                input=given,
                capture_output=True,
                timeout=ANSWER_WITHIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise ClientError(f"kcat hangs: {(late.stderr or b'')[-500:]!r}") from late
        if run.returncode:
            raise ClientError(run.stderr.decode(errors="replace"))
        return run


def _invocation(record: Record) -> tuple[int, Headers, bool]:
    """What kcat can only choose per run; with -Z every empty field becomes null."""
    return record.partition, record.headers, record.value is None


def _line(record: Record) -> bytes:
    if record.key is None:
        return record.value or b""
    return record.key + AFTER_KEY + (record.value or b"")


def _from_line(line: str) -> Stored:
    partition, offset, timestamp, key, value = line.split("\t")
    return Stored(
        int(partition), int(offset), key.encode() or None, value.encode(), (), int(timestamp)
    )


def _parse(said: bytes) -> list[Stored]:
    found = []
    while said:
        head, said = said.split(b"\n", 1)
        words = head.decode().split(" ")
        partition, offset, key, value, timestamp = map(int, words[:5])
        headers = tuple(
            (name, None if text == "NULL" else text.encode())
            for name, text in (pair.split("=", 1) for pair in words[5].split(",") if pair)
        )
        keyed, valued = max(key, 0), max(value, 0)
        found.append(
            Stored(
                partition,
                offset,
                None if key < 0 else said[:keyed],
                None if value < 0 else said[keyed : keyed + valued],
                headers,
                timestamp,
            )
        )
        said = said[keyed + valued + 1 :]
    return found
