"""Leaders that change and come back: do default clients keep every partition?

    python -m tests.faults.flips [--runs 20] [--seed N] [--brokers 3] [--readers 8]
    python -m tests.faults.flips --only paused --blows 6

In this room: a fleet on a real etcd whose brokers all come back at once, again and again;
confluent-kafka clients that write and read all partitions meanwhile; what brokers tell clients
about leaders; the figures of a run.
Next door: the same kinds of faults with every promise judged (run.py), what a fleet has said
(leaders.py).

librdkafka loses a partition if it is told of leaders A, B and A again before it has carried out the
first change: it goes on asking B, which refuses, until the leader changes once more. So a client is
*stuck* if it has not read or written a partition for STUCK_S after everything has healed.
"""

import argparse
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.faults import leaders
from tests.faults.workers import QUIET
from tests.support.broker import KafscaleProcess
from tests.support.etcd import EtcdCluster

TOPIC: Final = "flips"
PARTITIONS: Final = 12
LEASE_S: Final = 3.0
STUCK_S: Final = 45.0  # a default client pauses for 10 s before it connects again
BLOWS_A_RUN: Final = 4
READERS: Final = 8
EVERY_S: Final = 0.1  # between two records of a writer to one partition


class Client(threading.Thread):
    """Writes or reads all partitions, and notes when each one last moved."""

    def __init__(self, name: str, bootstrap: str) -> None:
        super().__init__(name=name, daemon=True)
        self.bootstrap = bootstrap
        self.stopping = threading.Event()
        self.moved_s = dict.fromkeys(range(PARTITIONS), time.monotonic())
        self.longest_s = 0.0
        self.longest_at = -1

    def moved(self, partition: int) -> None:
        now_s = time.monotonic()
        silent_s = now_s - self.moved_s[partition]
        if silent_s > self.longest_s:
            self.longest_s, self.longest_at = silent_s, partition
        self.moved_s[partition] = now_s

    def behind(self, since_s: float) -> list[int]:
        """Partitions that have not moved since then."""
        return [partition for partition, at_s in self.moved_s.items() if at_s < since_s]

    def finish(self) -> None:
        for partition in range(PARTITIONS):
            self.moved(partition)
        self.stopping.set()


class FlipWriter(Client):
    """A producer that writes to all partitions in turn."""

    def __init__(self, name: str, bootstrap: str, *, idempotent: bool) -> None:
        super().__init__(name, bootstrap)
        settings = {"enable.idempotence": True} if idempotent else {"acks": "all"}
        self._producer = Producer({"bootstrap.servers": bootstrap, **settings, **QUIET})

    def run(self) -> None:
        while not self.stopping.is_set():
            if len(self._producer) < 2000:
                for partition in range(PARTITIONS):
                    self._producer.produce(
                        TOPIC, b"x", partition=partition, on_delivery=self._delivered
                    )
            until_s = time.monotonic() + EVERY_S
            while time.monotonic() < until_s:
                self._producer.poll(EVERY_S)
        self._producer.purge()
        self._producer.flush(5)

    def _delivered(self, error: object, message: object) -> None:
        if error is None:
            self.moved(message.partition())  # type: ignore[attr-defined]


class FlipReader(Client):
    """A consumer of all partitions, by itself or as the only member of a group."""

    def __init__(self, name: str, bootstrap: str, *, subscribes: bool = False) -> None:
        super().__init__(name, bootstrap)
        self._subscribes = subscribes

    def run(self) -> None:
        settings = {"group.id": self.name, "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": self.bootstrap, **settings, **QUIET})
        if self._subscribes:
            consumer.subscribe([TOPIC])
        else:
            consumer.assign([TopicPartition(TOPIC, p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
        while not self.stopping.is_set():
            for message in consumer.consume(1000, timeout=0.1):
                if message.error() is None and message.partition() is not None:
                    self.moved(message.partition() or 0)
        consumer.close()


class FlipFleet:
    """Brokers on one etcd that share a folder, and what can be done to them."""

    def __init__(self, folder: Path, etcd: EtcdCluster, brokers: int) -> None:
        self.etcd = etcd
        shared = {
            "KAFSCALE_ETCD_ENDPOINTS": etcd.endpoints[0],
            "KAFSCALE_ETCD_LEASE_TTL": f"{LEASE_S:.0f}s",
            "KAFSCALE_DATA_DIR": str(folder / "data"),
            "KAFSCALE_FLUSH_INTERVAL_MS": "20",
        }
        self.brokers = [
            KafscaleProcess(folder / f"broker-{n}", {**shared, "KAFSCALE_BROKER_ID": str(n)})
            for n in range(brokers)
        ]

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers)

    def start(self, brokers: Sequence[KafscaleProcess]) -> None:
        """All at the same time. From this thread: a process ends with the thread it began in."""
        for broker in brokers:
            broker.begin()
        for broker in brokers:
            broker.wait_until(broker.answers)

    # -- what is done to them ------------------------------------------------------------------

    def etcd_away(self, dice: random.Random) -> None:
        """etcd is silent until all leases have ended: all brokers register anew.

        A renewal that waited in etcd's socket can save a lease when etcd goes on: those end by
        command.
        """
        leases = self.etcd.leases()
        self.etcd.pause()
        time.sleep(LEASE_S + dice.uniform(0.5, 1.5))
        self.etcd.resume()
        self.etcd.revoke(leases)

    def all_killed(self, dice: random.Random) -> None:
        """All brokers are killed, and start again when their leases have ended."""
        for broker in self.brokers:
            broker.kill()
        time.sleep(LEASE_S + dice.uniform(0.0, 1.0))
        self.start(self.brokers)

    def all_killed_shortly(self, dice: random.Random) -> None:
        """All brokers are killed, and start again while their leases run or end."""
        for broker in self.brokers:
            broker.kill()
        time.sleep(dice.uniform(0.0, LEASE_S))
        self.start(self.brokers)

    def returns_late(self, dice: random.Random) -> None:
        """One broker is killed, and comes back just when its lease ends."""
        broker = dice.choice(self.brokers)
        broker.kill()
        time.sleep(LEASE_S - dice.uniform(0.0, 1.0))
        self.start([broker])

    def restarted(self, dice: random.Random) -> None:
        """Two brokers are restarted by SIGTERM, one after the other."""
        for broker in dice.sample(self.brokers, 2):
            broker.restart()

    def restarted_together(self, dice: random.Random) -> None:
        """Two brokers are stopped and started by SIGTERM at the same time."""
        chosen = dice.sample(self.brokers, 2)
        for broker in chosen:
            broker.send(signal.SIGTERM)
        for broker in chosen:
            broker.stop()
        self.start(chosen)

    def paused(self, dice: random.Random) -> None:
        """Two brokers sleep until their leases have ended."""
        chosen = dice.sample(self.brokers, 2)
        for broker in chosen:
            broker.pause()
        time.sleep(LEASE_S + dice.uniform(0.5, 1.5))
        for broker in chosen:
            broker.resume()


Blow = Callable[[FlipFleet, random.Random], None]
BLOWS: Final[tuple[Blow, ...]] = (
    FlipFleet.etcd_away,
    FlipFleet.all_killed,
    FlipFleet.all_killed_shortly,
    FlipFleet.returns_late,
    FlipFleet.restarted,
    FlipFleet.restarted_together,
    FlipFleet.paused,
)


@dataclass(slots=True)
class Outcome:
    """The figures of one run."""

    seed: int
    generations: int = 0
    most_in_3_s: int = 0
    moves: int = 0  # leader changes, of all partitions together
    returns: int = 0  # of them back to the leader before, within three seconds
    contradictions: list[str] = field(default_factory=list)
    unread_s: float = 0.0
    unwritten_s: float = 0.0
    stuck: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"seed {self.seed}: {self.generations} generations, {self.most_in_3_s} at most within "
            f"3 s, {self.moves} leader changes, {self.returns} of them back within 3 s; longest "
            f"unread {self.unread_s:.1f} s, unwritten {self.unwritten_s:.1f} s; "
            f"{len(self.contradictions)} contradictions, {len(self.stuck)} stuck"
        ]
        return "\n".join([*lines, *(f"  STUCK: {one}" for one in self.stuck)])


def play(
    seed: int,
    brokers: int,
    blows: Sequence[Blow],
    say: Callable[[str], None],
    *,
    count: int = BLOWS_A_RUN,
    readers_count: int = READERS,
) -> Outcome:
    """One run: a new fleet, some of the blows, and after each one every client must go on."""
    dice, outcome = random.Random(seed), Outcome(seed)
    few = len(blows) < count
    chosen = dice.choices(blows, k=count) if few else dice.sample(blows, count)
    with tempfile.TemporaryDirectory(prefix="flips-") as folder, ExitStack() as undo:
        etcd = undo.enter_context(EtcdCluster())
        fleet = FlipFleet(Path(folder), etcd, brokers)
        for broker in fleet.brokers:
            undo.callback(broker.close)
        fleet.start(fleet.brokers)
        admin = AdminClient({"bootstrap.servers": fleet.bootstrap, **QUIET})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(60)
        survey = leaders.Survey(TOPIC, [broker.port for broker in fleet.brokers])
        writers = [FlipWriter(f"writer-{n}", fleet.bootstrap, idempotent=n > 0) for n in range(2)]
        readers = [
            FlipReader(f"reader-{n}", fleet.bootstrap, subscribes=n == 0)
            for n in range(readers_count)
        ]
        for thread in (*survey.threads, *writers, *readers):
            thread.start()
        _await_all([*writers, *readers], outcome)
        for blow in chosen:
            if outcome.stuck:
                break
            say(f"    {blow.__name__}")
            blow(fleet, dice)
            _await_all([*writers, *readers], outcome)
        for client in (*writers, *readers):
            client.finish()
        survey.stop()
        outcome.unread_s = max(reader.longest_s for reader in readers)
        outcome.unwritten_s = max(writer.longest_s for writer in writers)
        outcome.contradictions = survey.contradictions()
        _count(outcome, fleet)
        for client in (*writers, *readers):
            client.join(30)
    return outcome


def _await_all(clients: Sequence[Client], outcome: Outcome) -> None:
    """Until each client has moved on in each partition; one that does not is stuck."""
    since_s = time.monotonic()
    while any(client.behind(since_s) for client in clients):
        if time.monotonic() > since_s + STUCK_S:
            outcome.stuck += [
                f"{client.name} in partitions {late}, for {STUCK_S:.0f} s"
                for client in clients
                if (late := client.behind(since_s))
            ]
            return
        time.sleep(0.05)


def _count(outcome: Outcome, fleet: FlipFleet) -> None:
    written = leaders.written_generations(broker.output for broker in fleet.brokers)
    outcome.generations = len(written)
    outcome.most_in_3_s = leaders.most_within(written, 3.0)
    for partition in range(PARTITIONS):
        changes = leaders.changes(written, f"default/{TOPIC}/{partition}")
        outcome.moves += len(changes) - 1
        outcome.returns += leaders.quick_returns(changes, 3.0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.faults.flips")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the first run (1)")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--readers", type=int, default=READERS)
    parser.add_argument("--blows", type=int, default=BLOWS_A_RUN, help="how many in a run (4)")
    names = {blow.__name__: blow for blow in BLOWS}
    parser.add_argument("--only", choices=names, help="this blow, again and again")
    options = parser.parse_args()
    blows = BLOWS if options.only is None else (names[options.only],)
    outcomes = []
    for seed in range(options.seed, options.seed + options.runs):
        outcomes.append(
            play(
                seed,
                options.brokers,
                blows,
                lambda text: None,
                count=options.blows,
                readers_count=options.readers,
            )
        )
        print(outcomes[-1], flush=True)
    stuck = sum(bool(one.stuck) for one in outcomes)
    print(
        f"{len(outcomes)} runs, {stuck} with a client that was stuck; "
        f"{sum(one.generations for one in outcomes) / len(outcomes):.1f} generations a run, "
        f"{max(one.most_in_3_s for one in outcomes)} at most within 3 s; "
        f"{sum(one.returns for one in outcomes)} leaders came back within 3 s; "
        f"{sum(len(one.contradictions) for one in outcomes)} contradictions; "
        f"longest unread {max(one.unread_s for one in outcomes):.1f} s, "
        f"unwritten {max(one.unwritten_s for one in outcomes):.1f} s"
    )
    return 1 if stuck else 0


if __name__ == "__main__":
    sys.exit(main())
