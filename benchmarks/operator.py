"""What the operator costs and how long it takes: on the real control plane, else on the fakes.

    python -m benchmarks.operator [--quick]

Clients, brokers, etcd and the operator are processes of this machine; `make kube` builds the
control plane. Printed are: the seconds from the creation of a cluster's object to the first record
that a client has acknowledged, the seconds until many topics are reconciled, the memory of the
operator and its requests to the API server in a minute in which nothing happens, and the seconds of
a client's first record that has to wake a sleeping cluster, alone and with its managed etcd. Needs
root.
"""

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil

from benchmarks import run
from kafscale.admin.cost.metrics_page import parse_samples
from tests.support import etcd
from tests.support.kubernetes import control_plane
from tests.support.kubernetes.cluster import TestKubernetes
from tests.support.kubernetes.control_plane import ControlPlane
from tests.support.kubernetes.network import private_network
from tests.support.kubernetes.real_cluster import RealKubernetes
from tests.support.seaweed import SeaweedServer

FIRST_RECORD = """
import sys, time
from confluent_kafka import Producer
failed = []
producer = Producer({"bootstrap.servers": sys.argv[1]})
producer.produce("orders", b"x", on_delivery=lambda error, message: error and failed.append(error))
assert producer.flush(240) == 0 and not failed, failed
"""
_REQUESTS = "kafscale_operator_requests_total"
_PATIENCE_S = 900.0


async def measure(kubernetes: TestKubernetes, topics: int, rest_s: float) -> None:
    """Print every figure."""
    operator = await kubernetes.start_operator()
    began = time.monotonic()
    kubernetes.apply_cluster()
    await kubernetes.until(
        "named", lambda: kubernetes.bootstrap.split(":")[0] in _names(kubernetes)
    )
    await kubernetes.python(FIRST_RECORD, kubernetes.bootstrap)
    _show("from the object to the first acknowledged record", time.monotonic() - began, "s")

    before = _requests(kubernetes)
    began = time.monotonic()
    for number in range(topics):
        kubernetes.apply_topic(f"topic-{number}", partitions=1)
    made_s = time.monotonic() - began
    await kubernetes.until("topics", lambda: _all_ready(kubernetes, topics), _PATIENCE_S)
    _show(f"{topics} objects of topics written", made_s, "s")
    _show(
        f"{topics} topics ready, after the last was written", time.monotonic() - began - made_s, "s"
    )
    _show("requests of the operator for each topic", (_requests(kubernetes) - before) / topics, "")

    await asyncio.sleep(rest_s / 4)
    before, spent = _requests(kubernetes), _spent(operator.pid)
    await asyncio.sleep(rest_s)
    per_minute = 60 / rest_s
    _show("requests in a minute at rest", (_requests(kubernetes) - before) * per_minute, "")
    _show("processor time in a minute at rest", (_spent(operator.pid) - spent) * per_minute, "s")
    _show("memory of the operator", psutil.Process(operator.pid).memory_info().rss / 2**20, "MB")


async def measure_waking(kubernetes: TestKubernetes, *, managed: bool) -> None:
    """Print how long the first record takes that wakes a cluster."""
    await kubernetes.start_operator()
    kubernetes.apply_cluster(managed=managed, idleAfter="6s")
    kubernetes.apply_topic("orders")
    await kubernetes.until("topic", lambda: kubernetes.is_so("KafscaleTopic", "orders"))
    await kubernetes.until("asleep", lambda: _all_asleep(kubernetes), _PATIENCE_S)
    began = time.monotonic()
    await kubernetes.python(FIRST_RECORD, kubernetes.bootstrap)
    what = "a cluster and its managed etcd" if managed else "a sleeping cluster"
    _show(f"the first record that wakes {what}", time.monotonic() - began, "s")


def _all_asleep(kubernetes: TestKubernetes) -> bool:
    return kubernetes.pods() + kubernetes.pods("kafscale-etcd") == []


def _names(kubernetes: TestKubernetes) -> str:
    return kubernetes.names.file.read_text()


def _all_ready(kubernetes: TestKubernetes, topics: int) -> bool:
    found = kubernetes.api.all_of("KafscaleTopic", kubernetes.namespace)
    return sum((one.get("status") or {}).get("phase") == "Ready" for one in found) >= topics


def _requests(kubernetes: TestKubernetes) -> float:
    """All requests of the operator to the API server so far."""
    page = urllib.request.urlopen(f"http://{kubernetes.page}/metrics", timeout=10).read().decode()
    return sum(value for _, _, value in parse_samples(page, {_REQUESTS}))


def _spent(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def _show(what: str, number: float, unit: str) -> None:
    print(f"{what:<55} {number:>9.1f} {unit}", flush=True)


@contextlib.contextmanager
def _plane(folder: Path) -> Iterator[ControlPlane | None]:
    if reason := control_plane.missing():
        print(f"on the fakes: {reason}")
        yield None
        return
    with private_network(), ControlPlane(folder) as made:
        yield made


async def _run(
    plane: ControlPlane | None, bucket: SeaweedServer, member: etcd.EtcdCluster, topics: int
) -> None:
    for part in ("cost", "waking", "waking etcd"):
        run.show_progress(part)
        with tempfile.TemporaryDirectory() as folder:
            where = Path(folder)
            async with (
                TestKubernetes(where, bucket, member)
                if plane is None
                else RealKubernetes(plane, where, bucket, member)
            ) as kubernetes:
                if part == "cost":
                    await measure(kubernetes, topics, 60.0 if topics > 100 else 10.0)
                else:
                    await measure_waking(kubernetes, managed=part == "waking etcd")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="What the operator costs.")
    parser.add_argument("--quick", action="store_true", help="20 topics only")
    topics = 20 if parser.parse_args().quick else 1000
    if reason := etcd.missing():
        sys.exit(reason)
    with (
        tempfile.TemporaryDirectory() as folder,
        _plane(Path(folder)) as plane,
        SeaweedServer() as bucket,
        etcd.EtcdCluster() as member,
    ):
        asyncio.run(_run(plane, bucket, member, topics))


if __name__ == "__main__":
    main()
