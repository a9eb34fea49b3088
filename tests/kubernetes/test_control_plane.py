"""What only a real control plane does: nodes that die, namespaces that end, charts, autoscaling.

`make kube` builds it. Next door: what the fakes do as well (test_chain.py).
"""

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafscale.operator.kube.errors import KubeError
from tests.kubernetes.test_chain import CONSUME, PRODUCE, RECORDS, UNDER_LOAD
from tests.support.kube_programs import FOLDER
from tests.support.kubernetes.cluster import IMAGE, PATIENCE_S
from tests.support.kubernetes.metrics_api import MetricsApi
from tests.support.kubernetes.real_cluster import HOME, RealKubernetes
from tests.support.seaweed import SeaweedServer

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.real_time,
    pytest.mark.timeout(1200),
    pytest.mark.parametrize("plane", ["control_plane"], indirect=True, scope="session"),
]

CHART = Path(__file__).parents[2] / "deploy/helm/kafscale"


async def test_a_broker_of_a_dead_node_comes_back_elsewhere_under_its_number(
    kubernetes: RealKubernetes,
) -> None:
    await kubernetes.start_operator()
    kubernetes.apply_cluster(replicas=2)
    kubernetes.apply_topic("orders")
    await kubernetes.until("topic", lambda: kubernetes.is_so("KafscaleTopic", "orders"))
    await kubernetes.until("ready", lambda: kubernetes.is_so("KafscaleCluster", "c"))
    await kubernetes.python(PRODUCE, kubernetes.bootstrap, "orders", "50")
    lost = kubernetes.pods()[1]
    node = lost["spec"]["nodeName"]
    await kubernetes.lose_node(node)

    def is_back() -> bool:
        pods = {pod["metadata"]["name"]: pod for pod in kubernetes.pods()}
        found = pods.get(lost["metadata"]["name"])
        return (
            found is not None
            and found["metadata"]["uid"] != lost["metadata"]["uid"]
            and found["spec"].get("nodeName") not in (None, node)
            and kubernetes.ready() == 2
        )

    took_s = await kubernetes.until("elsewhere", is_back, 3 * PATIENCE_S)
    print(f"the broker of a dead node was ready elsewhere after {took_s:.0f} s")
    assert await kubernetes.python(CONSUME, kubernetes.bootstrap, "orders", "50") == ["50"]


async def test_a_namespace_ends_with_all_that_is_in_it(kubernetes: RealKubernetes) -> None:
    await kubernetes.start_operator()
    kubernetes.apply_cluster()
    kubernetes.apply_topic("orders", deletionPolicy="Delete")
    await kubernetes.until("topic", lambda: kubernetes.is_so("KafscaleTopic", "orders"))
    found = kubernetes.one("KafscaleTopic", "orders")
    assert found["metadata"]["finalizers"] == ["kafscale.io/topic"]
    kubernetes.api.ask("DELETE", f"/api/v1/namespaces/{kubernetes.namespace}")
    await kubernetes.until(
        "the namespace is gone",
        lambda: kubernetes.api.get("Namespace", "", kubernetes.namespace) is None,
        2 * PATIENCE_S,
    )


async def test_brokers_wait_for_a_store_that_is_away(
    kubernetes: RealKubernetes, bucket: SeaweedServer
) -> None:
    await kubernetes.start_operator()
    kubernetes.apply_cluster()
    kubernetes.apply_topic("orders")
    await kubernetes.until("topic", lambda: kubernetes.is_so("KafscaleTopic", "orders"))
    load = asyncio.create_task(kubernetes.python(UNDER_LOAD, kubernetes.bootstrap, "orders", "20"))
    await asyncio.sleep(3)
    bucket.pause()
    try:
        await kubernetes.until(
            "told",
            lambda: (
                kubernetes.condition("KafscaleCluster", "c", "BrokersReady").get("reason")
                == "StoreUnavailable"
            ),
        )
    finally:
        bucket.resume()
    await kubernetes.until("ready", lambda: kubernetes.is_so("KafscaleCluster", "c"))
    sent, longest = (await load)[0].split()
    print(f"{sent} records around an outage of the store, longest wait {longest} s")
    assert await kubernetes.python(CONSUME, kubernetes.bootstrap, "orders", sent) == [sent]
    assert await kubernetes.python(RECORDS, kubernetes.bootstrap, "orders") == [sent]
    assert kubernetes.kubelet.restarts == {}


async def test_an_autoscaler_adds_and_takes_away_brokers_under_load(
    kubernetes: RealKubernetes,
) -> None:
    await kubernetes.start_operator()
    async with MetricsApi(kubernetes) as metrics:
        scaling = {"maxReplicas": 5, "produceRequestsPerSecond": 100}
        metrics.value = 100.0
        kubernetes.apply_cluster(replicas=3, autoscaling=scaling)
        kubernetes.apply_topic("orders")
        await kubernetes.until("topic", lambda: kubernetes.is_so("KafscaleTopic", "orders"))
        await kubernetes.until("three at first", lambda: kubernetes.ready() == 3)
        scaler = "HorizontalPodAutoscaler", kubernetes.namespace, "c-broker"
        await kubernetes.until("scaler", lambda: kubernetes.api.get(*scaler) is not None)
        # The autoscaler of Kubernetes waits five minutes before it takes brokers away, and takes
        # none away while a metric is missing: nothing here measures processors.
        all_at_once = [{"type": "Percent", "value": 100, "periodSeconds": 15}]
        soon = {"scaleDown": {"stabilizationWindowSeconds": 0, "policies": all_at_once}}
        measured = kubernetes.one("HorizontalPodAutoscaler", "c-broker")["spec"]["metrics"]
        pods = [one for one in measured if one["type"] == "Pods"]
        hasty = {"spec": {"behavior": soon, "metrics": pods}}
        pause = {"metadata": {"annotations": {"kafscale.io/paused": "true"}}}
        load = asyncio.create_task(
            kubernetes.python(UNDER_LOAD, kubernetes.bootstrap, "orders", "60")
        )
        metrics.value = 300.0
        up_s = await kubernetes.until("five", lambda: kubernetes.ready() == 5, 2 * PATIENCE_S)
        await kubernetes.until("told", lambda: kubernetes.is_so("KafscaleCluster", "c"))
        kubernetes.change("KafscaleCluster", "c", pause)
        kubernetes.change("HorizontalPodAutoscaler", "c-broker", hasty)
        metrics.value = 1.0
        down_s = await kubernetes.until(
            "three again", lambda: len(kubernetes.pods()) == 3, 2 * PATIENCE_S
        )
        print(f"3 to 5 brokers after {up_s:.0f} s, back to 3 after {down_s:.0f} s")
        sent, longest = (await load)[0].split()
        print(f"{sent} records while brokers came and went, longest wait {longest} s")
        assert await kubernetes.python(CONSUME, kubernetes.bootstrap, "orders", sent) == [sent]
        assert await kubernetes.python(RECORDS, kubernetes.bootstrap, "orders") == [sent]


async def test_a_restore_that_cannot_be_done_is_told_and_brokers_come_back_without_it(
    kubernetes: RealKubernetes,
) -> None:
    await kubernetes.start_operator()
    kubernetes.apply_cluster()
    kubernetes.apply_topic("orders")
    await kubernetes.until("topic", lambda: kubernetes.is_so("KafscaleTopic", "orders"))
    await kubernetes.python(PRODUCE, kubernetes.bootstrap, "orders", "10")
    asked = {"request": "monday", "from": "Snapshot"}
    with pytest.raises(KubeError, match=r"needs etcd\.snapshot"):
        kubernetes.change("KafscaleCluster", "c", {"spec": {"etcd": {"restore": asked}}})
    where = kubernetes.snapshots("keys")  # and no snapshot was ever made
    kubernetes.change("KafscaleCluster", "c", {"spec": {"etcd": {**where, "restore": asked}}})
    await kubernetes.until(
        "told",
        lambda: (
            kubernetes.condition("KafscaleCluster", "c", "Restoring").get("reason")
            == "RestoreFailed"
        ),
        3 * PATIENCE_S,  # Kubernetes waits longer after each of four tries
    )
    assert "has no snapshot" in kubernetes.condition("KafscaleCluster", "c", "Ready")["message"]
    assert kubernetes.pods() == []
    kubernetes.change("KafscaleCluster", "c", {"spec": {"etcd": {"restore": None}}})
    await kubernetes.until("ready", lambda: kubernetes.is_so("KafscaleCluster", "c"))
    assert await kubernetes.python(CONSUME, kubernetes.bootstrap, "orders", "10") == ["10"]


BROKERS_TOLD = """
import sys
from confluent_kafka.admin import AdminClient
found = AdminClient({"bootstrap.servers": sys.argv[1]}).list_topics(timeout=60).brokers
print(",".join(sorted(f"{one.host}:{one.port}" for one in found.values())))
"""


async def test_clients_outside_come_by_load_balancers_once_the_cloud_has_given_addresses(
    kubernetes: RealKubernetes,
) -> None:
    await kubernetes.start_operator()
    kubernetes.apply_cluster(replicas=2, external={"type": "LoadBalancer"})
    names = ["c-external", "c-external-0", "c-external-1"]
    space = kubernetes.namespace
    await kubernetes.until(
        "services", lambda: all(kubernetes.api.get("Service", space, name) for name in names)
    )
    await kubernetes.until(
        "told",
        lambda: (
            kubernetes.condition("KafscaleCluster", "c", "ExternalReady").get("reason")
            == "WaitingForAddress"
        ),
    )
    assert kubernetes.pods() == []  # a broker would not know what to tell its clients
    given = {}
    for name in names:
        service = kubernetes.one("Service", name)
        # The relay at the address inside stands for the load balancer.
        given[name] = service["spec"]["clusterIP"]
        balancer = {"loadBalancer": {"ingress": [{"ip": given[name]}]}}
        kubernetes.api.set_status(service, balancer)
    kubernetes.apply_topic("orders")
    await kubernetes.until("topic", lambda: kubernetes.is_so("KafscaleTopic", "orders"))
    await kubernetes.until("ready", lambda: kubernetes.is_so("KafscaleCluster", "c"))
    assert kubernetes.is_so("KafscaleCluster", "c", "ExternalReady")
    outside = f"{given['c-external']}:9094"
    assert kubernetes.one("KafscaleCluster", "c")["status"]["externalBootstrap"] == outside
    told = await kubernetes.python(BROKERS_TOLD, outside)
    assert told == [",".join(sorted(f"{given[name]}:9094" for name in names[1:]))]
    inside = await kubernetes.python(BROKERS_TOLD, kubernetes.bootstrap)
    assert all(".c-brokers." in one for one in inside[0].split(","))
    await kubernetes.python(PRODUCE, outside, "orders", "20")
    assert await kubernetes.python(CONSUME, outside, "orders", "20") == ["20"]


async def test_clients_outside_come_by_the_ports_of_nodes(kubernetes: RealKubernetes) -> None:
    await kubernetes.start_operator()
    outside = {"type": "NodePort", "hostTemplate": "b{ordinal}.example.org"}
    kubernetes.apply_cluster(replicas=2, external=outside)
    for ordinal in (0, 1):
        kubernetes.names.put(f"b{ordinal}.example.org", kubernetes.kubelet.node_address)
    kubernetes.apply_topic("orders")
    await kubernetes.until("topic", lambda: kubernetes.is_so("KafscaleTopic", "orders"))
    await kubernetes.until("ready", lambda: kubernetes.is_so("KafscaleCluster", "c"))
    ports = [
        kubernetes.one("Service", f"c-external-{ordinal}")["spec"]["ports"][0]["nodePort"]
        for ordinal in (0, 1)
    ]
    told = f"b0.example.org:{ports[0]},b1.example.org:{ports[1]}"
    assert kubernetes.one("KafscaleCluster", "c")["status"]["externalBootstrap"] == told
    assert await kubernetes.python(BROKERS_TOLD, told) == [told]
    await kubernetes.python(PRODUCE, told, "orders", "20")
    assert await kubernetes.python(CONSUME, told, "orders", "20") == ["20"]


# -- the chart -------------------------------------------------------------------------------


def _helm(kubernetes: RealKubernetes, *words: str) -> str:
    env = {
        **os.environ,
        "KUBECONFIG": str(kubernetes.plane.config),
        "HOME": str(kubernetes.folder),
    }
    run = subprocess.run(
        [str(FOLDER / "helm"), *words], env=env, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout


def _operators(kubernetes: RealKubernetes) -> list[dict[str, Any]]:
    name = {"app.kubernetes.io/name": "kafscale-operator"}
    found: list[dict[str, Any]] = kubernetes.api.all_of("Pod", HOME, **name)
    return found


async def test_the_chart_installs_upgrades_rolls_back_and_leaves_clusters_alone(
    kubernetes: RealKubernetes,
) -> None:
    if not (FOLDER / "helm").exists():
        pytest.skip("helm is not built: run `make kube` once")
    repository, tag = IMAGE.split(":")
    image = {"image": {"repository": repository, "tag": tag}}
    values = {"operator": {**image, "etcdImage": "etcd:test"}, "broker": image}
    file = kubernetes.folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    _helm(kubernetes, "lint", "--strict", str(CHART), "-f", str(file))
    shown = _helm(kubernetes, "template", "kafscale", str(CHART), "--kube-version", "1.36.3")
    assert {"Deployment", "ClusterRole"} <= {one["kind"] for one in yaml.safe_load_all(shown)}

    # The account of the tests' own operators has the chart's name: the chart brings its own.
    kubernetes.forget_operator()
    release = ["kafscale", str(CHART), "--namespace", HOME, "-f", str(file)]
    _helm(kubernetes, "install", *release, "--create-namespace")
    kubernetes.give_account("kafscale-operator")
    await kubernetes.until("operators", lambda: len(_operators(kubernetes)) == 2)
    kubernetes.apply_cluster()
    kubernetes.apply_topic("orders")
    await kubernetes.until("topic", lambda: kubernetes.is_so("KafscaleTopic", "orders"))
    await kubernetes.python(PRODUCE, kubernetes.bootstrap, "orders", "20")

    _helm(kubernetes, "upgrade", *release, "--set", "operator.replicas=1")
    await kubernetes.until("one operator", lambda: len(_operators(kubernetes)) == 1)
    _helm(kubernetes, "rollback", "kafscale", "1", "--namespace", HOME)
    await kubernetes.until("two operators", lambda: len(_operators(kubernetes)) == 2)
    assert kubernetes.is_so("KafscaleCluster", "c")
    _helm(kubernetes, "uninstall", "kafscale", "--namespace", HOME)
    await kubernetes.until("no operator", lambda: not _operators(kubernetes))
    kubernetes.plane.forget_refusals()  # rights go before the operators that had them
    assert kubernetes.ready() == 1
    assert await kubernetes.python(CONSUME, kubernetes.bootstrap, "orders", "20") == ["20"]


EVERYTHING: dict[str, Any] = {
    "operator": {"watchNamespace": HOME, "etcdEndpoints": ["http://etcd:2379"], "replicas": 3},
    "monitoring": {"enabled": True, "labels": {"release": "prometheus"}},
    "console": {
        "enabled": True,
        "bootstrap": "production-bootstrap.kafscale.svc:9092",
        "credentialsSecretRef": "console",
        "allowedHosts": ["console.example.org"],
        "properties": {"secretRef": "login", "key": "client.properties"},
        "env": [{"name": "KAFSCALE_S3_BUCKET", "value": "data"}],
    },
    "cluster": {"create": True, "spec": {"brokers": {}, "s3": {"bucket": "data"}}},
}


async def test_the_server_takes_everything_that_the_chart_can_have(
    kubernetes: RealKubernetes,
) -> None:
    if not (FOLDER / "helm").exists():
        pytest.skip("helm is not built: run `make kube` once")
    file = kubernetes.folder / "values.yaml"
    file.write_text(yaml.safe_dump(EVERYTHING))
    words = ["template", "kafscale", str(CHART), "--namespace", HOME, "-f", str(file)]
    words += ["--kube-version", "1.36.3", "--api-versions", "monitoring.coreos.com/v1"]
    shown = [one for one in yaml.safe_load_all(_helm(kubernetes, *words)) if one]
    kinds = [one["kind"] for one in shown]
    assert {"ServiceMonitor", "PodMonitor", "PrometheusRule", "KafscaleCluster"} <= set(kinds)
    assert kinds.count("Deployment") == 2  # the operator and the console
    (rules,) = (one for one in shown if one["kind"] == "PrometheusRule")
    alarms = {rule["alert"] for group in rules["spec"]["groups"] for rule in group["rules"]}
    assert {"KafscaleClusterNotReady", "KafscaleBrokerDown"} <= alarms
    for one in shown:
        if not one["apiVersion"].startswith("monitoring.coreos.com"):
            kubernetes.api.try_out(one)
    with pytest.raises(AssertionError, match="replica"):
        _helm(kubernetes, *words, "--set", "operator.replica=2")
