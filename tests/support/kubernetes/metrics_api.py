"""A metrics API as an adapter of Prometheus serves it: one number for every pod.

The autoscaler of Kubernetes asks the API server for it, and the API server asks this server.
"""

import ssl
import subprocess
from typing import Any, Self

from aiohttp import web

from kafscale.operator.kube.resources import RESOURCES, KindPath
from tests.support.kubernetes.network import PODS
from tests.support.kubernetes.real_cluster import RealKubernetes

_METRIC = "kafscale_produce_requests_per_second"
_GROUP = "custom.metrics.k8s.io/v1beta2"
_ADDRESS, _PORT = f"{PODS}.3.1", 8443
RESOURCES["APIService"] = KindPath(
    "apiregistration.k8s.io/v1", "APIService", "apiservices", is_namespaced=False
)


class MetricsApi:
    """Use it as a context; `value` is what it says of every broker."""

    def __init__(self, kubernetes: RealKubernetes) -> None:
        self.value = 1.0
        self._kubernetes = kubernetes
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        folder = self._kubernetes.folder
        files = str(folder / "metrics.crt"), str(folder / "metrics.key")
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
                *("-subj", "/CN=metrics", "-out", files[0], "-keyout", files[1]),
            ],
            check=True,
            capture_output=True,
        )
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trust.load_cert_chain(*files)
        app = web.Application()
        root = f"/apis/{_GROUP}"
        app.router.add_get(root, self._kinds)
        app.router.add_get(root + "/namespaces/{namespace}/pods/{pod}/{metric}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, _ADDRESS, _PORT, ssl_context=trust).start()
        for manifest in self._manifests():
            self._kubernetes.api.create(manifest)
        return self

    async def __aexit__(self, *_: object) -> None:
        version = "v1beta2.custom.metrics.k8s.io"
        self._kubernetes.api.ask("DELETE", RESOURCES["APIService"].path("", version))
        if self._runner is not None:
            await self._runner.cleanup()

    def _manifests(self) -> list[dict[str, Any]]:
        namespace = self._kubernetes.namespace
        service = {"namespace": namespace, "name": "metrics", "port": _PORT}
        return [
            {
                "kind": "Service",
                "metadata": {"name": "metrics", "namespace": namespace},
                # No pod is behind it; the name is only for the API server.
                "spec": {"type": "ExternalName", "externalName": _ADDRESS},
            },
            {
                "kind": "APIService",
                "metadata": {"name": "v1beta2.custom.metrics.k8s.io"},
                "spec": {
                    "group": "custom.metrics.k8s.io",
                    "version": "v1beta2",
                    "groupPriorityMinimum": 100,
                    "versionPriority": 100,
                    "insecureSkipTLSVerify": True,
                    "service": service,
                },
            },
        ]

    async def _kinds(self, request: web.Request) -> web.Response:
        kind = {"name": f"pods/{_METRIC}", "namespaced": True, "kind": "MetricValueList"}
        kind |= {"singularName": "", "verbs": ["get"]}  # type: ignore[dict-item]
        whole = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": _GROUP}
        return web.json_response({**whole, "resources": [kind]})

    async def _answer(self, request: web.Request) -> web.Response:
        namespace = request.match_info["namespace"]
        pods = self._kubernetes.api.all_of("Pod", namespace, app="kafscale-broker")
        items = [
            {
                "describedObject": {
                    "kind": "Pod",
                    "namespace": namespace,
                    "name": pod["metadata"]["name"],
                    "apiVersion": "v1",
                },
                "metric": {"name": request.match_info["metric"]},
                "timestamp": "2026-01-01T00:00:00Z",
                "value": f"{int(self.value * 1000)}m",
            }
            for pod in pods
        ]
        whole = {"kind": "MetricValueList", "apiVersion": _GROUP, "metadata": {}}
        return web.json_response({**whole, "items": items})
