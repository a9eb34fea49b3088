"""`make faults-proxy`: proxies and an Apache Kafka of three nodes under attack, judged afterwards.

    python -m tests.faults.proxied [--seconds 120] [--seed 1] [--nodes 3]

In this room: two proxies that are killed and stopped, brokers behind them that are killed, so that
leaders move, and the upstream's retention. Then every record that was sent must be there once,
in order, at dense offsets, and where it was acknowledged.
Next door: the judge (tests/support/proxy_load.py), the same for our own fleet (run.py).
"""

import argparse
import random
import sys
import time
from contextlib import ExitStack

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.apache_kafka import ApacheCluster
from tests.support.proxy import ProxyProcess
from tests.support.proxy_load import Acked, create, read, write

PARTITIONS = 30
MAPPING = {"topics": {"load.*": {"virtual_partitions": 30, "physical_partitions": 3}}}

_next_old = [0] * PARTITIONS  # the least offset that the second topic may give next


def main() -> int:
    """Attack and judge; the exit code says whether all was right."""
    parser = argparse.ArgumentParser(prog="tests.faults.proxied")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=3)
    wanted = parser.parse_args()
    dice = random.Random(wanted.seed)
    with ExitStack() as undo:
        cluster = undo.enter_context(ApacheCluster(wanted.nodes))
        proxies = [
            undo.enter_context(
                ProxyProcess(cluster.bootstrap, MAPPING, number=number, ledger="faults")
            )
            for number in range(2)
        ]
        both = ",".join(proxy.bootstrap for proxy in proxies)
        create(both, "load-0", PARTITIONS, replicas=min(3, wanted.nodes))
        create(both, "load-old", PARTITIONS, replicas=min(3, wanted.nodes))
        load = Acked(both, "load-0", PARTITIONS)
        end = time.monotonic() + wanted.seconds
        with load:
            while time.monotonic() < end:
                load.wait_for_more(200)
                print(f"{load.count} acknowledged; {_attack(dice, cluster, proxies, both)}")
            load.wait_for_more(200)
        load.check(both)
        _check_old(both)
    print(f"{load.count} records: 0 lost, 0 twice, dense, in order")
    return 0


def _attack(
    dice: random.Random, cluster: ApacheCluster, proxies: list[ProxyProcess], both: str
) -> str:
    proxy = dice.choice(proxies)
    match dice.randrange(4):
        case 0:
            proxy.kill()
            time.sleep(dice.uniform(0, 3))
            proxy.start()
            return f"proxy {proxy.port} was killed"
        case 1:
            proxy.stop()
            time.sleep(dice.uniform(0, 3))
            proxy.start()
            return f"proxy {proxy.port} was stopped"
        case 2:
            node = dice.choice(cluster.nodes)
            node.kill()
            time.sleep(dice.uniform(0, 5))
            node.start()
            return f"broker {node.port} was killed"
        case _:
            _let_retention_bite(cluster, both)
            return "the oldest records of another topic went"


def _let_retention_bite(cluster: ApacheCluster, both: str) -> None:
    """Write to a second topic, and have the upstream delete all of it."""
    _write_old(both)
    below = AdminClient({"bootstrap.servers": cluster.bootstrap})
    everything = [TopicPartition("load-old", index, -1) for index in range(3)]
    for deleted in below.delete_records(everything).values():
        deleted.result()


def _write_old(both: str) -> list[int]:
    """A record to each partition of the second topic; no offset is given twice."""
    offsets = write(both, "load-old", [(at, b"old") for at in range(PARTITIONS)])
    for partition, offset in enumerate(offsets):
        assert offset >= _next_old[partition], (partition, offset, _next_old[partition])
        _next_old[partition] = offset + 1
    return offsets


def _check_old(both: str) -> None:
    """Offsets go on behind those that were given, with nothing left in the log."""
    last = _write_old(both)
    found = read(both, "load-old", list(range(PARTITIONS)), PARTITIONS)
    for partition, rows in found.items():
        offsets = [offset for offset, _ in rows]
        assert offsets[-1] == last[partition], found
        assert offsets == list(range(offsets[0], offsets[-1] + 1)), found


if __name__ == "__main__":
    sys.exit(main())
