"""etcd, an S3 server and some brokers as processes; every broker behind wires of its own.

In this room: which process is connected to which, starting them, and stopping all of them.
Next door: the wires (links.py, s3_proxy.py), disturbing them (nemesis.py).
Never here: clients.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import obstore
import yaml

from tests.faults.guard import Guard, GuardedProcess
from tests.faults.history import History, Listed
from tests.faults.links import Link, LoopThread
from tests.faults.s3_proxy import S3Proxy, direct_store
from tests.faults.schedule import LEASE_S
from tests.faults.workers import Reach
from tests.support.broker import KafscaleProcess
from tests.support.etcd import EtcdCluster
from tests.support.ports import free_port
from tests.support.program import ProgramDied
from tests.support.seaweed import SeaweedServer

NAMESPACE = "faults"

# Short times, so that a run of minutes meets what takes hours elsewhere: roll-ups, deletions,
# leases that run out.
SETTINGS: dict[str, dict[str, Any]] = {
    "storage": {
        "flushIntervalMs": 50,
        "rollupObjects": 100,
        "housekeepingInterval": "2s",
        "gracePeriod": "20s",
    },
    "s3": {"requestTimeout": "3s", "connectTimeout": "2s"},
    "etcd": {"requestTimeout": "3s", "leaseTtl": f"{LEASE_S:.0f}s"},
    "consumer": {"initialRebalanceDelayMs": 500},
}


class Node:
    """One broker and its wires."""

    def __init__(self, cluster: "Cluster", number: int, settings: Mapping[str, Any]) -> None:
        self.name = f"broker-{number}"
        folder = cluster.folder / self.name
        folder.mkdir(parents=True)
        self.etcd = [Link(cluster.wires, member.port) for member in cluster.etcd.members]
        self.s3 = S3Proxy(
            cluster.wires, cluster.s3.port, self.name, cluster.history, seed=cluster.seed
        )
        config = folder / "broker.yaml"
        guard = cluster.guard
        self.broker = (KafscaleProcess if guard is None else GuardedProcess)(
            folder,
            {
                **cluster.s3.broker_environment(NAMESPACE),
                "KAFSCALE_CONFIG": str(config),
                "KAFSCALE_METRICS_PORT": "0",  # any free port: no client asks for metrics
                "KAFSCALE_S3_ENDPOINT": self.s3.endpoint,
                "KAFSCALE_ETCD_ENDPOINTS": ",".join(link.endpoint for link in self.etcd),
            },
        )
        self.pulsar = Link(cluster.wires, self.broker.pulsar_port)
        if guard is None:
            settings = merged(settings, {"pulsar": {"advertisedPort": self.pulsar.port}})
            self.clients = Link(cluster.wires, self.broker.port)
            self.broker.extra_env["KAFSCALE_ADVERTISED_PORT"] = str(self.clients.port)
        else:
            port = free_port()
            self.clients = Link(cluster.wires, port)
            settings = {
                **settings,
                **guard.settings(self.broker.port, port, self.clients.port),
            }
        config.write_text(yaml.safe_dump(dict(settings)))

    def close(self) -> None:
        self.broker.close()
        self.clients.close()
        self.pulsar.close()
        self.s3.close()
        for link in self.etcd:
            link.close()


class Cluster:
    """All processes, running when entered. The folder keeps what they printed."""

    def __init__(
        self,
        folder: Path,
        history: History,
        *,
        brokers: int = 3,
        etcd_members: int = 3,
        seed: int = 0,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        guarded: bool = False,
    ) -> None:
        self.folder = folder
        self.guard = Guard(folder / "guard") if guarded else None
        self.history = history
        self.seed = seed
        self._brokers, self._etcd_members = brokers, etcd_members
        self._settings = merged(SETTINGS, settings or {})
        self.nodes: list[Node] = []

    @property
    def reach(self) -> Reach:
        """The settings of clients: addresses, and a login where one is asked for."""
        addresses = ",".join(node.clients.endpoint for node in self.nodes)
        login = self.guard.login() if self.guard is not None else {}
        return {"bootstrap.servers": addresses, **login}

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.wires = LoopThread()
        self.s3 = SeaweedServer()
        self.etcd = EtcdCluster(self._etcd_members)
        try:
            self.s3.start()
            self.etcd.start()
            self.nodes = [Node(self, number, self._settings) for number in range(self._brokers)]
            for node in self.nodes:
                node.broker.start()
            if self.guard is not None:
                self.guard.prepare(self.nodes[0].broker.bootstrap)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for node in self.nodes:
            node.close()
        self.etcd.close()
        self.s3.close()
        self.wires.close()

    def start_broker(self, node: Node, within_s: float = 120.0) -> None:
        """Start the broker, and again if the servers that it needs are not there yet."""
        deadline = time.monotonic() + within_s
        while not node.broker.running:
            try:
                node.broker.start()
            except ProgramDied:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def kill_brokers(self) -> None:
        for node in self.nodes:
            node.broker.kill()

    def start_brokers(self) -> None:
        for node in self.nodes:
            self.start_broker(node)

    def listing(self) -> list[Listed]:
        """Every object of the namespace, asked of the server itself."""
        store = direct_store(self.s3.endpoint)
        return [
            Listed(row["path"], (row["e_tag"] or "").strip('"'))
            for page in obstore.list(store, NAMESPACE)
            for row in page
        ]


def merged(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, Any]:
    """Both settings in one; the second one wins."""
    return {section: {**one.get(section, {}), **two.get(section, {})} for section in {**one, **two}}
