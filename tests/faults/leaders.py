"""Who led which partition: by what controllers wrote, and by what brokers told clients.

In this room: member lists from the brokers' output, leaders that follow from them, and a survey
that asks every broker, directly, who leads (Metadata v7). Two brokers that name different leaders
of a partition under one epoch contradict each other: a client believes both.
Next door: the run that uses it (flips.py).
"""

import json
import socket
import struct
import threading
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from kafscale.engine.cluster.placement import Placement
from kafscale.metadata.keys import MemberList, MemberRow
from tests.faults.raw import METADATA
from tests.support import wire


class Written(NamedTuple):
    """One member list, and when a controller wrote it."""

    at_s: float
    generation: int
    brokers: tuple[int, ...]


class Change(NamedTuple):
    """From then on a broker was the leader."""

    at_s: float
    leader: int


class Told(NamedTuple):
    """What a broker says about a partition."""

    partition: int
    leader: int
    epoch: int


def written_generations(outputs: Iterable[Path]) -> list[Written]:
    """The member lists that brokers say they have written, in their order."""
    rows = [
        Written(
            datetime.fromisoformat(line["timestamp"]).timestamp(),
            line["generation"],
            tuple(line["brokers"]),
        )
        for output in outputs
        for line in _lines(output)
        if line.get("event") == "members_written"
    ]
    return sorted(rows, key=lambda row: row.generation)


def _lines(output: Path) -> Iterator[dict[str, object]]:
    for text in output.read_text(errors="replace").splitlines():
        if text.startswith("{") and text.endswith("}"):
            yield json.loads(text)


def most_within(written: Sequence[Written], seconds: float) -> int:
    """The most member lists that were written within so many seconds."""
    times = [row.at_s for row in written]
    return max((sum(at <= one < at + seconds for one in times) for at in times), default=0)


def changes(written: Sequence[Written], folder: str) -> list[Change]:
    """The leaders of a log, one after the other."""
    found: list[Change] = []
    for row in written:
        brokers = tuple(MemberRow(broker, 0) for broker in row.brokers)
        leader = Placement(MemberList(generation=row.generation, brokers=brokers)).owner(folder)
        if not found or found[-1].leader != leader:
            found.append(Change(row.at_s, leader))
    return found


def quick_returns(leaders: Sequence[Change], seconds: float) -> int:
    """How often a leader came back so soon after another one had taken its place."""
    return sum(
        leaders[at].leader == leaders[at - 2].leader
        and leaders[at].at_s - leaders[at - 1].at_s < seconds
        for at in range(2, len(leaders))
    )


def leaders_told(port: int, topic: str, within_s: float = 1.0) -> list[Told]:
    """Ask one broker who leads."""
    request = wire.frame(METADATA, 7, 1, struct.pack(">i", 1) + wire.string(topic) + b"\0")
    with socket.create_connection(("127.0.0.1", port), within_s) as sock:
        sock.settimeout(within_s)
        sock.sendall(request)
        return list(told_in(wire.read_answer(sock)[1], topic))


def told_in(body: bytes, topic: str) -> Iterator[Told]:
    """Leaders and epochs in the answer to Metadata v7 about one topic."""
    at = body.index(topic.encode(), 4) + len(topic) + 1  # after the name: whether it is internal
    (count,) = struct.unpack_from(">i", body, at)
    at += 4
    for _ in range(count):
        _, partition, leader, epoch = struct.unpack_from(">hiii", body, at)
        yield Told(partition, leader, epoch)
        at += 14
        for _ in range(3):  # replicas, those in sync, those offline
            (length,) = struct.unpack_from(">i", body, at)
            at += 4 + 4 * length


class Survey:
    """Asks all brokers, a few times a second, each in a thread of its own."""

    every_s = 0.1

    def __init__(self, topic: str, ports: Sequence[int]) -> None:
        self._topic = topic
        self._stopping = threading.Event()
        self._told: dict[tuple[int, int], set[int]] = {}  # by partition and epoch: the leaders
        self.threads = [
            threading.Thread(target=self._ask, args=(port,), daemon=True) for port in ports
        ]

    def _ask(self, port: int) -> None:
        while not self._stopping.wait(self.every_s):
            try:
                self.note(leaders_told(port, self._topic))
            except (OSError, ValueError):
                continue  # dead, paused, or it does not know the topic yet

    def note(self, told: Iterable[Told]) -> None:
        for one in told:
            self._told.setdefault((one.partition, one.epoch), set()).add(one.leader)

    def stop(self) -> None:
        self._stopping.set()
        for thread in self.threads:
            thread.join()

    def contradictions(self) -> list[str]:
        """Partitions whose leader had two names under one epoch."""
        return [
            f"partition {partition} in epoch {epoch}: {sorted(named)}"
            for (partition, epoch), named in sorted(self._told.items())
            if len(named) > 1
        ]
