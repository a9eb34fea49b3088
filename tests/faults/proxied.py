"""`make faults-proxy`: proxies and an Apache Kafka of three nodes under attack, judged afterwards.

    python -m tests.faults.proxied [--seconds 120] [--seed 1] [--nodes 3]

In this room: two proxies that are killed, stopped and paused; brokers behind them that are killed;
leaders that move; the upstream's retention. Clients and judge are those of our own fleet
(workers.py, members.py, raw.py, checker.py): their topics are mapped ones here. A second topic
loses all its records again and again: no offset of it may be given twice.
"""

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.faults import places, raw, report
from tests.faults.checker import check
from tests.faults.history import Fault, History
from tests.faults.members import Auditor, Group, GroupMember, wait_for_group
from tests.faults.workers import Follower, Worker, Writer
from tests.support.apache_kafka import ApacheCluster
from tests.support.proxy import ProxyProcess
from tests.support.proxy_load import create, read, write

OLD, OLD_PARTITIONS, OLD_PHYSICAL = "load-old", 30, 3
MAPPING = {
    "topics": {
        "under-fire.*": {"virtual_partitions": 6, "physical_partitions": 2},
        OLD: {"virtual_partitions": OLD_PARTITIONS, "physical_partitions": OLD_PHYSICAL},
    }
}


class ProxiedField:
    """Proxies, the cluster behind them, and clients that note what they were told."""

    def __init__(self, cluster: ApacheCluster, proxies: list[ProxyProcess], seed: int) -> None:
        self.cluster = cluster
        self.proxies = proxies
        self.history = history = History(len(places.PLACES))
        self.dice = random.Random(seed)
        self.both = ",".join(proxy.bootstrap for proxy in proxies)
        self._next_old = [0] * OLD_PARTITIONS  # the least offset that the second topic may give
        for kind in places.KINDS:
            create(self.both, kind.topic, kind.partitions)
        create(self.both, OLD, OLD_PARTITIONS)
        reach = {"bootstrap.servers": self.both}
        self.writers = [
            Writer(f"writer-{number}", reach, history, idempotent=number < 2, per_s=300)
            for number in range(3)
        ]
        self.follower = Follower("follower", reach, history)
        self.group = Group()
        self.members = [
            GroupMember(f"member-{number}", reach, history, self.group, number == 1, seed)
            for number in range(2)
        ]
        self.stubborn = [
            raw.Stubborn(f"proxy-{number}", proxy.port, history)
            for number, proxy in enumerate(proxies)
        ]
        self.auditor = Auditor("auditor", reach, history)
        self.attacks: dict[str, Callable[[], None]] = {
            "kill-proxy": self._kill_proxy,
            "stop-proxy": self._stop_proxy,
            "pause-proxy": self._pause_proxy,
            "kill-broker": self._kill_broker,
            "move-leaders": self._move_leaders,
            "retention": self._let_retention_bite,
        }

    @property
    def workers(self) -> list[Worker]:
        """All clients."""
        return [*self.writers, *self.stubborn, self.follower, *self.members, self.auditor]

    def attack(self, name: str) -> None:
        """Do it, and wait until every partition has acknowledged a record afterwards."""
        begun_s = time.monotonic()
        self.attacks[name]()
        ended_s = time.monotonic()
        self.history.faults.append(Fault(name, "", begun_s, ended_s))
        self._wait_for_partitions(ended_s)
        acknowledged = len(self.history.acknowledged())
        print(f"{acknowledged} acknowledged; {name}, {ended_s - begun_s:.1f} s", flush=True)

    def _wait_for_partitions(self, begun_s: float, within_s: float = 180.0) -> None:
        asking = [*self.writers, *self.stubborn]
        while any(
            max(one.answered_s.get(place, 0.0) for one in asking) < begun_s
            for place in range(self.history.partitions)
        ):
            if time.monotonic() > begun_s + within_s:
                raise TimeoutError("some partition came to a halt")
            time.sleep(0.02)

    def _kill_proxy(self) -> None:
        proxy = self.dice.choice(self.proxies)
        proxy.kill()
        time.sleep(self.dice.uniform(0, 4))
        proxy.start()

    def _stop_proxy(self) -> None:
        proxy = self.dice.choice(self.proxies)
        proxy.stop()
        time.sleep(self.dice.uniform(0, 4))
        proxy.start()

    def _pause_proxy(self) -> None:
        proxy = self.dice.choice(self.proxies)
        proxy.pause()
        time.sleep(self.dice.uniform(1, 6))
        proxy.resume()

    def _kill_broker(self) -> None:
        node = self.dice.choice(self.cluster.nodes)
        node.kill()
        time.sleep(self.dice.uniform(0, 5))
        node.start()

    def _move_leaders(self) -> None:
        """Brokers that were killed lead their partitions again."""
        below = AdminClient({"bootstrap.servers": self.cluster.bootstrap})
        try:
            below.elect_leaders(ElectionType.PREFERRED, None).result(60)
        except KafkaException as refused:
            print(f"no election: {refused}")

    def _let_retention_bite(self) -> None:
        """Write to a second topic, and have the upstream delete all of it."""
        self._write_old()
        below = AdminClient({"bootstrap.servers": self.cluster.bootstrap})
        everything = [TopicPartition(OLD, index, -1) for index in range(OLD_PHYSICAL)]
        for deleted in below.delete_records(everything).values():
            deleted.result()

    def _write_old(self) -> list[int]:
        offsets = write(self.both, OLD, [(at, b"old") for at in range(OLD_PARTITIONS)])
        for partition, offset in enumerate(offsets):
            assert offset >= self._next_old[partition], (partition, offset, self._next_old)
            self._next_old[partition] = offset + 1
        return offsets

    def conclude(self) -> None:
        """Let every client finish, start the proxies anew, read everything."""
        for worker in [*self.writers, *self.stubborn]:
            worker.stopping.set()
        for worker in [*self.writers, *self.stubborn]:
            worker.finish(Writer.flush_s + 10)
        ports = [proxy.port for proxy in self.proxies]
        ends = raw.ends(ports, self.history.partitions)
        self.follower.wait_for(ends, within_s=120.0)
        wait_for_group(self.group, ends, self.members[0])
        for worker in [*self.members, self.follower, self.auditor]:
            worker.stopping.set()
        for worker in [*self.members, self.follower, self.auditor]:
            worker.finish()
        for proxy in self.proxies:  # what was only in memory must not help
            proxy.kill()
        for proxy in self.proxies:
            proxy.start()
        ends = raw.ends(ports, self.history.partitions)
        self.history.found = raw.read_log(ports, ends)

    def check_old(self) -> None:
        """Offsets go on behind those that were given, with nothing left in the log."""
        last = self._write_old()
        found = read(self.both, OLD, list(range(OLD_PARTITIONS)), OLD_PARTITIONS)
        for partition, rows in found.items():
            offsets = [offset for offset, _ in rows]
            assert offsets[-1] == last[partition], found
            assert offsets == list(range(offsets[0], offsets[-1] + 1)), found

    def verify(self) -> None:
        """The command finds that what proxies wrote down agrees with the log."""
        proxy = self.proxies[0]
        run = subprocess.run(
            [
                *(sys.executable, "-m", "kafscale.cli.main", "proxy", "verify"),
                *("--upstream", self.cluster.bootstrap, "--config", str(proxy.config)),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        print(run.stdout, end="")
        assert run.returncode == 0, run.stdout + run.stderr


def main() -> int:
    """Attack and judge; the exit code says whether all was right."""
    parser = argparse.ArgumentParser(prog="tests.faults.proxied")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--only", help="this attack alone, again and again")
    wanted = parser.parse_args()
    with ExitStack() as undo:
        cluster = undo.enter_context(ApacheCluster(wanted.nodes))
        proxies = [
            undo.enter_context(
                ProxyProcess(cluster.bootstrap, MAPPING, number=number, ledger="faults")
            )
            for number in range(2)
        ]
        field = ProxiedField(cluster, proxies, wanted.seed)
        for worker in field.workers:
            worker.start()
        try:
            field._wait_for_partitions(time.monotonic())
            end_s = time.monotonic() + wanted.seconds
            while time.monotonic() < end_s:
                for name in field.dice.sample(list(field.attacks), len(field.attacks)):
                    if time.monotonic() < end_s and wanted.only in (None, name):
                        field.attack(name)
            field.conclude()
            field.check_old()
            field.verify()
        finally:
            for worker in field.workers:
                worker.stopping.set()
    findings = check(field.history)
    print(report.table(report.rows(field.history, findings)))
    print(f"{len(field.history.found)} records; {report.summary(findings)}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
