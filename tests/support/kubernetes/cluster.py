"""A Kubernetes for one test: the fakes, the kubelet, operators, a real etcd and S3 server.

Next door: the same with a real control plane (real_cluster.py).
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import yaml

from kafscale.local import programs
from tests.support import etcd
from tests.support.kubernetes.fake_api import FakeApi, Object
from tests.support.kubernetes.fake_controllers import FakeControllers, is_ready
from tests.support.kubernetes.kubelet import NETWORK, NODE, Kubelet, Names, secret_data
from tests.support.ports import free_port
from tests.support.seaweed import ACCESS_KEY, BUCKET, SECRET_KEY, SeaweedServer

NAMESPACE = "team"
IMAGE, OTHER_IMAGE = "kafscale:test", "kafscale:next"
PATIENCE_S = 120.0
_PROGRAM = [sys.executable, "-m", "kafscale.cli.main"]


class TestKubernetes:
    """Use it as a context. `apply` things, then wait for what should become of them."""

    __test__ = False

    def __init__(
        self,
        folder: Path,
        bucket: SeaweedServer,
        member: etcd.EtcdCluster,
        api: Any = None,
        namespace: str = NAMESPACE,
    ) -> None:
        self.api = api or FakeApi()
        self.namespace = namespace
        self.folder = folder
        self.names = Names(folder)
        images = {IMAGE: _PROGRAM, OTHER_IMAGE: _PROGRAM, "etcd:test": [str(programs.etcd())]}
        self.kubelet = Kubelet(self.api, self.names, folder, images, *self._ground())
        self.operators: list[asyncio.subprocess.Process] = []
        self._bucket = bucket
        self._member = member
        self._port = free_port()
        self._tasks: list[asyncio.Task[None]] = []

    def _ground(self) -> tuple[tuple[str, ...], str]:
        """The nodes, and the network of the pods."""
        return (NODE,), NETWORK

    @property
    def page(self) -> str:
        """Host and port of the page of the first operator."""
        return f"{self._ground()[1]}.2.1:8080"

    @property
    def bootstrap(self) -> str:
        """The address for clients of the cluster `c`."""
        return f"c-bootstrap.{self.namespace}.svc:9092"

    async def __aenter__(self) -> Self:
        await self.names.open()
        await self._start()
        self._tasks.append(asyncio.create_task(self.kubelet.run()))
        for name, key in (("keys", SECRET_KEY), ("wrong", "wrong")):
            self.apply_secret(name, accessKey=ACCESS_KEY, secretKey=key)
        return self

    async def _start(self) -> None:
        """Start the control plane and its nodes."""
        await self.api.start(f"{NETWORK}.0.1", self._port)
        self._tasks.append(asyncio.create_task(FakeControllers(self.api).run()))
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.api.create({"kind": "Node", "metadata": {"name": NODE}, "status": ready})

    async def _stop(self) -> None:
        await self.api.stop()

    async def __aexit__(self, *_: object) -> None:
        for operator in self.operators:
            if operator.returncode is None:
                operator.terminate()
                await operator.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stop()
        await self.names.close()

    def _kubeconfig(self) -> Path:
        """How operators reach the API server."""
        config = self.folder / "kubeconfig"
        server = f"http://{NETWORK}.0.1:{self._port}"
        config.write_text(
            yaml.safe_dump(
                {
                    "current-context": "test",
                    "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
                    "clusters": [{"name": "test", "cluster": {"server": server}}],
                    "users": [{"name": "test", "user": {"token": "test"}}],
                }
            )
        )
        return config

    async def start_operator(self, *flags: str) -> asyncio.subprocess.Process:
        """One more operator, as a process of its own."""
        number = len(self.operators)
        env = {
            **os.environ,
            "KAFSCALE_OPERATOR_IMAGE": IMAGE,
            "KAFSCALE_OPERATOR_ETCD_IMAGE": "etcd:test",
            "KAFSCALE_OPERATOR_IDENTITY": f"operator-{number}",
        }
        network = self._ground()[1]
        page = ["--host", f"{network}.2.{number + 1}", "--port", "8080", *flags]
        config = self._kubeconfig()
        with (self.folder / f"operator-{number}.log").open("ab") as log:
            operator = await asyncio.create_subprocess_exec(
                *self.names.inside(
                    *_PROGRAM, "operator", "run", "--kubeconfig", str(config), *page
                ),
                env=env,
                stdout=log,
                stderr=log,
            )
        self.operators.append(operator)
        return operator

    # -- what people do ----------------------------------------------------------------------

    def apply_cluster(
        self,
        name: str = "c",
        *,
        managed: bool = False,
        security: Object | None = None,
        **brokers: Any,
    ) -> None:
        spec = {**self.cluster_spec(name), "brokers": {"replicas": 1, **brokers}}
        if security is not None:
            spec["security"] = security
        if not managed:
            prefix = f"/{name}-{self._port}"
            spec["etcd"] = {"endpoints": list(self._member.endpoints), "prefix": prefix}
        self.api.create(self._object("KafscaleCluster", name, spec))

    def cluster_spec(self, name: str) -> dict[str, Any]:
        """The bucket and the settings of a cluster of this test."""
        return {
            "s3": {
                "bucket": BUCKET,
                "endpoint": self._bucket.endpoint,
                "credentialsSecretRef": "keys",
            },
            "config": {
                "cacheSize": "64Mi",
                "flushIntervalMs": 20,
                "broker": {
                    "storage.namespace": f"{name}-{self._port}",
                    "etcd.leaseTtl": "3s",
                    "pulsar.enabled": "false",
                    "fluvio.enabled": "false",
                },
            },
        }

    def snapshots(self, keys: str) -> Object:
        """Where snapshots of the managed etcd go."""
        s3 = {"bucket": BUCKET, "endpoint": self._bucket.endpoint, "credentialsSecretRef": keys}
        return {"snapshot": {"prefix": f"etcd-{self._port}", "s3": s3}}

    def run_cron_job(self, name: str, job: str) -> None:
        """Run a CronJob now, as `kubectl create job --from` does."""
        cron = json.loads(json.dumps(self.one("CronJob", name)))
        template = cron["spec"]["jobTemplate"]
        owners = [{"kind": "CronJob", "name": name, "uid": cron["metadata"]["uid"]}]
        labels = template["metadata"]["labels"]
        metadata = {"name": job, "namespace": self.namespace, "labels": labels}
        metadata["creationTimestamp"] = f"2026-01-01T00:00:{len(self.api.all_of('Job')):02}Z"
        self.api.create(
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {**metadata, "ownerReferences": owners},
                "spec": template["spec"],
            }
        )

    def apply_topic(self, name: str, cluster: str = "c", **spec: Any) -> None:
        whole = {"clusterRef": cluster, "partitions": 3, **spec}
        self.api.create(self._object("KafscaleTopic", name, whole))

    def apply_user(self, name: str, cluster: str = "c", **spec: Any) -> None:
        self.api.create(self._object("KafscaleUser", name, {"clusterRef": cluster, **spec}))

    def apply_secret(self, name: str, **data: str) -> None:
        metadata = {"name": name, "namespace": self.namespace}
        self.api.create({"kind": "Secret", "metadata": metadata, "stringData": data})

    def change(self, kind: str, name: str, patch: Object) -> None:
        """Change an object as `kubectl edit` does."""
        self.api.change(kind, self.namespace, name, patch)

    def _object(self, kind: str, name: str, spec: Object) -> Object:
        return {
            "apiVersion": "kafscale.io/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": spec,
        }

    # -- what people see ---------------------------------------------------------------------

    def one(self, kind: str, name: str) -> Object:
        found: Object | None = self.api.get(kind, self.namespace, name)
        assert found is not None, f"there is no {kind} {name}"
        return found

    def secret(self, name: str) -> dict[str, str]:
        """What a Secret holds."""
        return secret_data(self.one("Secret", name))

    def condition(self, kind: str, name: str, which: str = "Ready") -> Object:
        conditions = (self.one(kind, name).get("status") or {}).get("conditions", [])
        return next((one for one in conditions if one["type"] == which), {})

    def is_so(self, kind: str, name: str, which: str = "Ready") -> bool:
        """Whether a condition is true of the latest generation."""
        found = self.condition(kind, name, which)
        generation = self.one(kind, name)["metadata"]["generation"]
        is_latest = found.get("observedGeneration") == generation
        return found.get("status") == "True" and is_latest

    def pods(self, app: str = "kafscale-broker") -> list[Object]:
        found: list[Object] = self.api.all_of("Pod", self.namespace, app=app)
        return found

    def ready(self, app: str = "kafscale-broker") -> int:
        return sum(is_ready(pod) for pod in self.pods(app))

    def leader(self) -> str:
        """The operator that holds the Lease."""
        leases = (one for one in self.api.all_of("Lease"))
        ours = [one for one in leases if one["metadata"]["name"] == "kafscale-operator"]
        return str(ours[0]["spec"].get("holderIdentity") or "") if ours else ""

    async def cut_watches(self) -> None:
        """End every watch, as a server does that restarts."""
        self.api.cut_watches()

    async def until(
        self, what: str, is_so: Callable[[], bool], within_s: float = PATIENCE_S
    ) -> float:
        """Wait until something is so; gives the seconds it took."""
        began = time.monotonic()
        while not is_so():
            if time.monotonic() - began > within_s:
                raise AssertionError(f"{what}: not after {within_s:.0f} s\n{self.story()}")
            await asyncio.sleep(0.1)
        return time.monotonic() - began

    def story(self) -> str:
        """What is there, and the end of every log."""
        lines = [json.dumps(one.get("status")) for one in self.api.all_of("KafscaleCluster")]
        for kind in ("KafscaleTopic", "KafscaleUser", "Pod", "StatefulSet"):
            lines += [_shown(one) for one in self.api.all_of(kind, self.namespace)]
        for log in sorted(self.folder.glob("*.log")):
            lines += [f"-- {log.name}", *log.read_text("utf-8", "replace").splitlines()[-15:]]
        return "\n".join(lines)

    async def python(self, script: str, *arguments: str) -> list[str]:
        """Run a program where the cluster's names are known; gives its lines."""
        process = await asyncio.create_subprocess_exec(
            *self.names.inside(sys.executable, "-c", script, *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(PATIENCE_S):
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        assert process.returncode == 0, f"{err.decode()[-3000:]}\n{self.story()}"
        return out.decode().splitlines()


def _shown(one: Object) -> str:
    return f"{one['kind']} {one['metadata']['name']}: {json.dumps(one.get('status'))[:600]}"
