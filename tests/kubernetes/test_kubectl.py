"""What people do by kubectl itself: scale, restart, drain nodes, look, and overlays of kustomize.

`make kube` builds kubectl. Next door: the ten commands of the documents (test_document.py).
"""

import asyncio
import re

import pytest
import yaml

from tests.kubernetes.test_chain import CONSUME, RECORDS, UNDER_LOAD
from tests.support.kubernetes.document import PAGE, ROOT
from tests.support.kubernetes.real_cluster import HOME, KUBECTL, RealKubernetes

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.real_time,
    pytest.mark.timeout(1200),
    pytest.mark.parametrize("plane", ["control_plane"], indirect=True, scope="session"),
    pytest.mark.skipif(not KUBECTL.exists(), reason="kubectl is not built: run `make kube` once"),
]

RACKS = """
import sys
from confluent_kafka.admin import AdminClient
admin = AdminClient({"bootstrap.servers": sys.argv[1]})
found = admin.describe_cluster().result(60)
print(*sorted(f"{node.id}={node.rack}" for node in found.nodes))
"""


async def test_brokers_are_scaled_shown_and_restarted_as_every_other_set_is(
    kubernetes: RealKubernetes,
) -> None:
    await kubernetes.start_operator()
    kubernetes.apply_cluster()
    await kubernetes.until("ready", lambda: kubernetes.is_so("KafscaleCluster", "c"))
    await kubernetes.kubectl("scale", "kfs", "c", "--replicas=2")
    await kubernetes.until("two", lambda: kubernetes.ready() == 2)
    await kubernetes.until("told", lambda: kubernetes.is_so("KafscaleCluster", "c"))
    shown = (await kubernetes.kubectl("get", "kfs")).splitlines()
    assert shown[0].split()[:6] == ["NAME", "PHASE", "BROKERS", "WANTED", "TOPICS", "REASON"]
    assert shown[1].split()[:4] == ["c", "Running", "2", "2"]
    described = await kubernetes.kubectl("describe", "kfs", "c")
    assert "clients connect to" in described
    explained = await kubernetes.kubectl("explain", "kfs.spec.brokers.idleAfter")
    assert "wakes" in explained

    before = {pod["metadata"]["uid"] for pod in kubernetes.pods()}
    await kubernetes.kubectl("annotate", "kfs", "c", "kafscale.io/restart=1")
    await kubernetes.until(
        "restarted",
        lambda: (
            not before & {pod["metadata"]["uid"] for pod in kubernetes.pods()}
            and kubernetes.ready() == 2
        ),
    )


async def test_drains_of_two_nodes_at_once_take_one_broker_at_a_time(
    kubernetes: RealKubernetes,
) -> None:
    await kubernetes.start_operator()
    kubernetes.apply_cluster(replicas=2)
    kubernetes.apply_topic("orders")
    await kubernetes.until("topic", lambda: kubernetes.is_so("KafscaleTopic", "orders"))
    await kubernetes.until("ready", lambda: kubernetes.is_so("KafscaleCluster", "c"))
    nodes = [pod["spec"]["nodeName"] for pod in kubernetes.pods()]
    assert len(set(nodes)) == 2  # spread over nodes and zones
    zones = [
        kubernetes.api.get("Node", "", node)["metadata"]["labels"]["topology.kubernetes.io/zone"]
        for node in nodes
    ]
    told = await kubernetes.python(RACKS, kubernetes.bootstrap)
    assert told == [f"0={zones[0]} 1={zones[1]}"]

    load = asyncio.create_task(kubernetes.python(UNDER_LOAD, kubernetes.bootstrap, "orders", "30"))
    await asyncio.sleep(2)
    drain = ("drain", "--delete-emptydir-data", "--timeout=180s")
    drains = [asyncio.create_task(kubernetes.kubectl(*drain, node)) for node in nodes]
    fewest = 2

    def moved() -> bool:
        nonlocal fewest
        fewest = min(fewest, kubernetes.ready())
        left = {pod["spec"].get("nodeName") for pod in kubernetes.pods()} - set(nodes)
        return kubernetes.ready() == 2 and len(left) == 1

    took_s = await kubernetes.until("moved", moved, 180)
    assert fewest == 1
    await asyncio.gather(*drains)
    sent, longest = (await load)[0].split()
    print(f"two nodes were empty after {took_s:.0f} s; {sent} records, longest wait {longest} s")
    assert await kubernetes.python(CONSUME, kubernetes.bootstrap, "orders", sent) == [sent]
    assert await kubernetes.python(RECORDS, kubernetes.bootstrap, "orders") == [sent]


async def test_an_overlay_of_the_documents_changes_the_image_in_every_place(
    kubernetes: RealKubernetes,
) -> None:
    (text,) = re.findall(r"^```text\n(resources: .*?)^```", PAGE.read_text(), re.S | re.M)
    (kubernetes.folder / "kafscale").symlink_to(ROOT)
    overlay = kubernetes.folder / "overlay"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(text)
    shown = await kubernetes.kubectl("kustomize", str(overlay))
    found = {one["kind"]: one for one in yaml.safe_load_all(shown)}
    (container,) = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    images = {one["name"]: one.get("value") for one in container["env"]}
    assert container["image"] == images["KAFSCALE_OPERATOR_IMAGE"] == "REGISTRY/kafscale:0.1.0"
    assert {"Namespace", "CustomResourceDefinition", "ClusterRole"} <= found.keys()
    tried = ("apply", "--server-side", "--dry-run=server", f"--namespace={HOME}")
    await kubernetes.kubectl(*tried, "-k", str(overlay))
