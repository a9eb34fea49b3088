"""A real kube-apiserver on a real etcd, without controllers: what it takes, adds and refuses."""

import subprocess
from pathlib import Path
from typing import Self

from kafscale.local import programs
from kafscale.operator.kube.access import Access, find_access
from kafscale.system import SystemClock
from tests.support.kube_programs import FOLDER
from tests.support.maven import Unavailable
from tests.support.ports import free_port, is_open
from tests.support.program import Program, Service

_TOKEN = "admin-token"


class _Etcd(Program):
    """The store of the API server."""


class RealApi(Program, Service):
    """Use it as a context; `access` leads to it with all rights."""

    def __init__(self, folder: Path) -> None:
        if not (FOLDER / "kube-apiserver").exists():
            raise Unavailable("kube-apiserver is not built: run `make kube` once (Go, 15 minutes)")
        super().__init__(folder)
        self._etcd = _Etcd(folder, "etcd.txt")
        self._port, self._etcd_port = free_port(), free_port()

    def start(self) -> Self:
        client = f"http://127.0.0.1:{self._etcd_port}"
        self._etcd.launch(
            [
                *(str(programs.etcd()), f"--data-dir={self.folder / 'etcd'}", "--unsafe-no-fsync"),
                *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
                f"--listen-peer-urls=http://127.0.0.1:{free_port()}",
            ]
        )
        self._etcd.wait_until(lambda: is_open(self._etcd_port))
        key, tokens = self.folder / "sa.key", self.folder / "tokens.csv"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        tokens.write_text(f'{_TOKEN},admin,admin,"system:masters"\n')
        self.launch(
            [
                str(FOLDER / "kube-apiserver"),
                f"--etcd-servers={client}",
                "--watch-cache=false",  # the wheel's etcd cannot report how far a watch is
                "--bind-address=127.0.0.1",
                "--endpoint-reconciler-type=none",
                f"--secure-port={self._port}",
                f"--cert-dir={self.folder / 'pki'}",
                f"--token-auth-file={tokens}",
                "--authorization-mode=RBAC",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                "--service-cluster-ip-range=10.96.0.0/16",
                "--disable-admission-plugins=ServiceAccount",
            ]
        )
        self.wait_until(lambda: is_open(self._port))
        return self

    def kill(self) -> None:
        super().kill()
        self._etcd.kill()

    def access(self, token: str = _TOKEN) -> Access:
        config = self.folder / "kubeconfig"
        authority = self.folder / "pki/apiserver.crt"
        config.write_text(
            f"""
current-context: test
contexts: [{{name: test, context: {{cluster: test, user: test}}}}]
clusters:
  - name: test
    cluster: {{server: "https://127.0.0.1:{self._port}", certificate-authority: {authority}}}
users: [{{name: test, user: {{token: "{token}"}}}}]
"""
        )
        return find_access(str(config), {}, SystemClock())
