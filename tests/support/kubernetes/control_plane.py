"""A real control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler.

`make kube` builds the programs. It runs in a network of its own (network.py).
Next door: the nodes, whose pods are processes (kubelet.py).
"""

import http.client
import json
import ssl
import subprocess
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

import yaml

from kafscale.operator.installation import LEASE_RULES, NODE_RULES, RULES
from tests.support.kube_programs import CONTROL_PLANE, FOLDER
from tests.support.kubernetes.network import PODS, SERVICES
from tests.support.maven import Unavailable
from tests.support.ports import is_open
from tests.support.program import Program, Service

ADDRESS, PORT = f"{PODS}.0.1", 6443
ADMIN = "admin-token"
_ETCD = "http://127.0.0.1:2379"


def missing() -> str:
    """Why there is none here; empty if there can be."""
    lacking = [name for name in (*CONTROL_PLANE, "etcd") if not (FOLDER / name).exists()]
    if lacking:
        return f"{', '.join(lacking)}: not built; run `make kube` once (Go, 15 minutes)"
    return ""


class ControlPlane(Service):
    """Use it as a context, inside a private network."""

    def __init__(self, folder: Path) -> None:
        if reason := missing():
            raise Unavailable(reason)
        self.folder = folder
        self.config = folder / "kubeconfig"
        self._programs: list[Program] = []
        self._flags: list[str] = []
        self._ignored = 0  # lines of the audit log

    @property
    def authority(self) -> Path:
        """The certificate that the API server made for itself."""
        return self.folder / "pki/apiserver.crt"

    def start(self) -> Self:
        store = ["--data-dir=etcd", "--unsafe-no-fsync"]
        store += [f"--listen-client-urls={_ETCD}", f"--advertise-client-urls={_ETCD}"]
        self._launch("etcd", store).wait_until(lambda: is_open(2379))
        self._flags = self._server_flags()
        self._launch("kube-apiserver", self._flags).wait_until(self._answers)
        self.write_config(self.config, ADMIN)
        for name, port, flags in (
            ("kube-controller-manager", 10257, self._controller_flags()),
            ("kube-scheduler", 10259, []),
        ):
            own = [f"--{word}kubeconfig={self.config}" for word in ("", *_DELEGATED)]
            own += ["--leader-elect=false", "--bind-address=127.0.0.1", f"--secure-port={port}"]
            program = self._launch(name, [*own, f"--cert-dir=pki-{name}", *flags])
            program.wait_until(lambda port=port: is_open(port))  # type: ignore[misc]
        return self

    @property
    def _server(self) -> Program:
        return next(one for one in self._programs if one.label == "kube-apiserver")

    def restart_server(self) -> None:
        """Kill the API server and start it again, on the same etcd.

        Not on a helper thread: the kernel would end the server together with that thread.
        """
        self._server.kill()
        self._server.launch([str(FOLDER / "kube-apiserver"), *self._flags])

    def wait_for_server(self) -> None:
        """Wait until the API server answers; before, it knows no rights and refuses everything."""
        self._server.wait_until(self._answers)
        self.forget_refusals()

    def forget_refusals(self) -> None:
        """Judge what is asked from now on."""
        self._ignored = len(self.audited())

    def audited(self) -> list[dict[str, Any]]:
        """What the operator's account has asked for, as the API server wrote it down."""
        file = self.folder / "audit.log"
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]

    def refusals(self) -> list[str]:
        """What the operator's account has asked for and may not do."""
        return [
            f"{one['verb']} {one['requestURI']}: {one['responseStatus'].get('message')}"
            for one in self.audited()[self._ignored :]
            if one.get("responseStatus", {}).get("code") == HTTPStatus.FORBIDDEN
            # This is no matter of rights: nothing can be made in a namespace that ends.
            and "being terminated" not in one["responseStatus"].get("message", "")
        ]

    def unused_rights(self) -> list[str]:
        """Rights of the operator's account that it has never used."""
        used = set()
        for one in self.audited():
            about = one.get("objectRef", {})
            resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
            used.add((about.get("apiGroup", ""), resource, one["verb"]))
            if one.get("responseStatus", {}).get("code") == HTTPStatus.CREATED:
                # An apply that makes an object is written down as a patch, and needs both rights.
                used.add((about.get("apiGroup", ""), resource, "create"))
        given = {
            (group, resource, verb)
            for rule in (*RULES, *NODE_RULES, *LEASE_RULES)
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        return sorted(f"{verb} {resource}" for _, resource, verb in given - used)

    def kill(self) -> None:
        for program in reversed(self._programs):
            program.kill()

    def write_config(self, path: Path, token: str) -> None:
        """A kubeconfig for the owner of a token."""
        cluster = {
            "server": f"https://{ADDRESS}:{PORT}",
            "certificate-authority": str(self.authority),
        }
        config: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": token}}],
        }
        path.write_text(yaml.safe_dump(config))

    def _launch(self, name: str, flags: list[str]) -> Program:
        program = Program(self.folder, f"{name}.txt")
        program.label = name
        program.launch([str(FOLDER / name), *flags])
        self._programs.append(program)
        return program

    def _server_flags(self) -> list[str]:
        key, public = self.folder / "sa.key", self.folder / "sa.pub"
        _openssl("genrsa", "-out", str(key), "2048")
        _openssl("rsa", "-in", str(key), "-pubout", "-out", str(public))
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f'{ADMIN},admin,admin,"system:masters"\n')
        policy = self.folder / "audit.yaml"
        policy.write_text(yaml.safe_dump(_AUDIT))
        return [
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self.folder / 'audit.log'}",
            f"--etcd-servers={_ETCD}",
            f"--bind-address={ADDRESS}",
            f"--advertise-address={ADDRESS}",
            f"--secure-port={PORT}",
            "--cert-dir=pki",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={public}",
            f"--service-account-signing-key-file={key}",
            f"--service-cluster-ip-range={SERVICES}.0.0/16",
        ]

    def _controller_flags(self) -> list[str]:
        return [
            f"--service-account-private-key-file={self.folder / 'sa.key'}",
            f"--root-ca-file={self.authority}",
            "--use-service-account-credentials=true",
            "--horizontal-pod-autoscaler-sync-period=5s",
            # A node that is silent for so long is called not ready.
            "--node-monitor-period=2s",
            "--node-monitor-grace-period=20s",
        ]

    def _answers(self) -> bool:
        if not self.authority.exists():
            return False
        trust = ssl.create_default_context(cafile=str(self.authority))
        asked = http.client.HTTPSConnection(ADDRESS, PORT, timeout=5, context=trust)
        try:
            asked.request("GET", "/readyz", headers={"Authorization": f"Bearer {ADMIN}"})
            return asked.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            asked.close()


_OPERATOR = "system:serviceaccount:kafscale:kafscale-operator"
_AUDIT: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata", "users": [_OPERATOR]}, {"level": "None"}],
}
_DELEGATED = ("authentication-", "authorization-")


def _openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)
