"""A Kubernetes for one test on a real control plane: nodes, volumes, a namespace of its own.

In this room: what a cloud would give: nodes that stay alive, and a volume for every claim.
Operators run with the rights of their own account.
Next door: the control plane (control_plane.py), the pods (kubelet.py).
"""

import asyncio
import contextlib
import datetime
import itertools
import json
from pathlib import Path
from typing import Any

from kafscale.operator.installation import manifests
from kafscale.operator.kube.access import find_access
from kafscale.operator.kube.client import Kube
from kafscale.operator.kube.errors import KubeError
from kafscale.operator.kube.resources import RESOURCES
from kafscale.system import SystemClock
from tests.support import etcd
from tests.support.kube_programs import FOLDER
from tests.support.kubernetes.cluster import PATIENCE_S, TestKubernetes
from tests.support.kubernetes.control_plane import ADDRESS, PORT, ControlPlane
from tests.support.kubernetes.fake_api import Object
from tests.support.kubernetes.network import PODS
from tests.support.kubernetes.real_objects import RealObjects
from tests.support.seaweed import SeaweedServer

HOME = "kafscale"  # the namespace of operators
# The API server refuses every pod that asks for more than it needs.
STRICT = {"pod-security.kubernetes.io/enforce": "restricted"}
KUBECTL = FOLDER / "kubectl"
_numbers = itertools.count(1)


class RealKubernetes(TestKubernetes):
    """Use it as a context, inside a private network with a control plane."""

    __test__ = False

    def __init__(
        self, plane: ControlPlane, folder: Path, bucket: SeaweedServer, member: etcd.EtcdCluster
    ) -> None:
        self._number = next(_numbers)
        self.plane = plane
        self.nodes = [f"node-{self._number}-{letter}" for letter in "abc"]
        kube = Kube(find_access(str(plane.config), {}, SystemClock()))
        super().__init__(folder, bucket, member, RealObjects(kube), f"team-{self._number}")

    def _ground(self) -> tuple[tuple[str, ...], str]:
        return tuple(self.nodes), PODS

    async def _start(self) -> None:
        kube = self.api.kube
        await kube.__aenter__()
        await _install(kube)
        await self.api.open()
        self.api.create(
            {"kind": "Namespace", "metadata": {"name": self.namespace, "labels": STRICT}}
        )
        for number, node in enumerate(self.nodes):
            self.api.create(_node(node, number))
        self._tasks.append(asyncio.create_task(self._keep_alive()))
        self._tasks.append(asyncio.create_task(self._give_volumes()))
        self.kubelet.env = {
            "KUBERNETES_SERVICE_HOST": ADDRESS,
            "KUBERNETES_SERVICE_PORT": str(PORT),
        }
        (self.names.account / "ca.crt").write_bytes(self.plane.authority.read_bytes())
        (self.names.account / "namespace").write_text(HOME)

    async def _stop(self) -> None:
        """Take everything away: pods of nodes that are gone go by themselves."""
        pods = [pod["metadata"]["name"] for pod in self.api.all_of("Pod", self.namespace)]
        for path in (
            *(f"/api/v1/nodes/{node}" for node in self.nodes),
            f"/api/v1/namespaces/{self.namespace}",
            *(RESOURCES["Pod"].path(self.namespace, pod) for pod in pods),
        ):
            try:
                self.api.ask("DELETE", path, {"gracePeriodSeconds": 0})
            except KubeError as problem:
                if problem.status not in (404, 409):
                    raise
        await self.api.close()
        await self.api.kube.__aexit__(None, None, None)

    def _kubeconfig(self) -> Path:
        config = self.folder / "kubeconfig"
        self.plane.write_config(config, self.token())
        return config

    def token(self, account: str = "kafscale-operator", namespace: str = HOME) -> str:
        """A token of an account, as a kubelet asks for it."""
        path = RESOURCES["ServiceAccount"].path(namespace, account, "token")
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = self.api.ask("POST", path, body)
        return str(answer["status"]["token"])

    async def start_operator(self, *flags: str) -> asyncio.subprocess.Process:
        own = ("--namespace", HOME, "--watch-namespace", self.namespace)
        return await super().start_operator(*own, *flags)

    def forget_operator(self) -> None:
        """Take away what the chart brings itself."""
        for manifest in manifests(HOME, "kafscale:test"):
            if manifest["kind"] not in ("Namespace", "CustomResourceDefinition", "Deployment"):
                place = manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]
                self.api.ask("DELETE", RESOURCES[manifest["kind"]].path(*place))

    def give_account(self, name: str) -> None:
        """Put the token of an account where pods look for it."""
        (self.names.account / "token").write_text(self.token(name))

    async def kubectl(self, *words: str) -> str:
        """What kubectl prints, asked about the namespace of this test."""
        process = await asyncio.create_subprocess_exec(
            *(str(KUBECTL), f"--kubeconfig={self.plane.config}"),
            *(f"--namespace={self.namespace}", f"--cache-dir={self.folder / 'kubectl'}", *words),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(3 * PATIENCE_S):
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        assert process.returncode == 0, f"kubectl {words}: {err.decode()}\n{self.story()}"
        return out.decode()

    # -- what a cloud gives ------------------------------------------------------------------

    async def lose_node(self, node: str) -> None:
        """A node ends with all that runs on it."""
        self.nodes.remove(node)
        await self.kubelet.lose_node(node)

    async def cut_watches(self) -> None:
        """The API server is killed and started again."""
        self.plane.restart_server()
        await asyncio.to_thread(self.plane.wait_for_server)

    async def _keep_alive(self) -> None:
        """Say every few seconds that the nodes are there."""
        while True:
            with contextlib.suppress(KubeError):  # the server may be away for a moment
                await self._say_alive()
            await asyncio.sleep(4)

    async def _say_alive(self) -> None:
        for node in list(self.nodes):
            now = datetime.datetime.now(datetime.UTC)
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": node, "namespace": "kube-node-lease"},
                "spec": {
                    "holderIdentity": node,
                    "leaseDurationSeconds": 20,
                    "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                },
            }
            await self.api.kube.apply(lease, "kubelet")
            found = self.api.get("Node", "", node)
            if found is not None:
                self.api.set_status(found, _node_status(node))

    async def _give_volumes(self) -> None:
        """Make a volume for every claim that waits for one."""
        given: set[str] = set()
        while True:
            for claim in self.api.all_of("PersistentVolumeClaim", self.namespace):
                uid = claim["metadata"]["uid"]
                if uid in given or claim.get("status", {}).get("phase") == "Bound":
                    continue
                given.add(uid)
                await self.api.kube.create(_volume(claim, self.folder))
            await asyncio.sleep(0.2)

    def run_cron_job(self, name: str, job: str) -> None:
        cron = json.loads(json.dumps(self.one("CronJob", name)))
        template = cron["spec"]["jobTemplate"]
        owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": name}
        owner |= {"uid": cron["metadata"]["uid"], "controller": True}
        metadata = {"name": job, "namespace": self.namespace, **template["metadata"]}
        self.api.create(
            {
                "kind": "Job",
                "metadata": {**metadata, "ownerReferences": [owner]},
                "spec": template["spec"],
            }
        )


async def _install(kube: Kube) -> None:
    """Install definitions, rights and the account of the operator, once for all tests."""
    for _ in range(120):
        try:
            for manifest in manifests(HOME, "kafscale:test"):
                if manifest["kind"] == "Namespace":
                    manifest["metadata"]["labels"] = STRICT
                if manifest["kind"] != "Deployment":
                    await kube.apply(manifest, "kubectl")
            for kind in ("KafscaleCluster", "KafscaleTopic", "KafscaleUser"):
                await kube.list_all(kind)
        except KubeError as problem:
            if problem.status not in (0, 403, 404, 500, 503):
                raise
            await asyncio.sleep(0.5)
        else:
            return
    raise AssertionError("the API server does not serve our resources")


def _node(name: str, number: int) -> Object:
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number}"}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}}


def _node_status(name: str) -> Object:
    room = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    calm = ("MemoryPressure", "DiskPressure", "PIDPressure")
    words: dict[str, Any] = {"reason": "KubeletReady", "message": ""}
    return {
        "capacity": room,
        "allocatable": room,
        "addresses": [{"type": "Hostname", "address": name}],
        "conditions": [
            *({"type": one, "status": "False", **words} for one in calm),
            {"type": "Ready", "status": "True", **words},
        ],
    }


def _volume(claim: Object, folder: Path) -> Object:
    namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-{name}"},
        "spec": {
            "capacity": claim["spec"]["resources"]["requests"],
            "accessModes": claim["spec"]["accessModes"],
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": namespace, "name": name},
            "hostPath": {"path": str(folder / "volumes" / name)},
        },
    }
