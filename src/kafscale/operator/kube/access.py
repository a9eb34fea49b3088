"""How the API server is reached: from inside by the pod's account, from outside by a kubeconfig.

Here: address, authority, token or client certificate. A token in a file is read again every minute,
because Kubernetes renews it.
"""

import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from kafscale.model.clock import Clock
from kafscale.operator.kube.errors import KubeError

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_FRESH_S: Final = 60.0


class Access:
    """An address with what it takes to be let in."""

    def __init__(
        self,
        server: str,
        clock: Clock,
        *,
        trust: ssl.SSLContext | None = None,
        token: str = "",
        token_file: Path | None = None,
        namespace: str = "default",
    ) -> None:
        self.server = server.rstrip("/")
        self.trust = trust
        self.namespace = namespace
        self._clock = clock
        self._token = token
        self._token_file = token_file
        self._read_s: float | None = None

    def headers(self) -> dict[str, str]:
        """The header by which the server knows the operator."""
        if self._token_file is not None:
            now_s = self._clock.elapsed_s()
            if self._read_s is None or now_s - self._read_s > _TOKEN_FRESH_S:
                self._token = self._token_file.read_text().strip()
                self._read_s = now_s
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}


def find_access(kubeconfig: str | None, env: Mapping[str, str], clock: Clock) -> Access:
    """Find the API server: by a kubeconfig if one is named, else from inside a pod."""
    named = kubeconfig or env.get("KUBECONFIG", "")
    if not named and (host := env.get("KUBERNETES_SERVICE_HOST")):
        return _from_inside(host, env.get("KUBERNETES_SERVICE_PORT", "443"), clock)
    path = Path(named) if named else Path.home() / ".kube/config"
    if not path.exists():
        raise KubeError(f"{path}: there is no such kubeconfig, and this is no pod")
    return _from_file(path, clock)


def _from_inside(host: str, port: str, clock: Clock) -> Access:
    trust = ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt"))
    namespace = (_ACCOUNT / "namespace").read_text().strip()
    address = f"[{host}]" if ":" in host else host
    return Access(
        f"https://{address}:{port}",
        clock,
        trust=trust,
        token_file=_ACCOUNT / "token",
        namespace=namespace,
    )


def _from_file(path: Path, clock: Clock) -> Access:
    file: dict[str, Any] = yaml.safe_load(path.read_text())
    context = _named(file, "contexts", file.get("current-context", ""))["context"]
    cluster = _named(file, "clusters", context["cluster"])["cluster"]
    user = _named(file, "users", context["user"]).get("user") or {}
    if "exec" in user or "auth-provider" in user:
        raise KubeError(f"{path}: only tokens and client certificates are supported")
    trust = None
    if cluster["server"].startswith("https://"):
        trust = _trust(path, cluster, user)
    token_file = user.get("tokenFile")
    return Access(
        cluster["server"],
        clock,
        trust=trust,
        token=user.get("token", ""),
        token_file=Path(token_file) if token_file else None,
        namespace=context.get("namespace", "default"),
    )


def _named(file: Mapping[str, Any], what: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] | None = next(
        (one for one in file.get(what) or [] if one["name"] == name), None
    )
    if found is None:
        raise KubeError(f"the kubeconfig has no {name} among its {what}")
    return found


def _trust(path: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    authority = _bytes_of(path, cluster, "certificate-authority")
    trust = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        trust.check_hostname = False
        trust.verify_mode = ssl.CERT_NONE
    certificate = _bytes_of(path, user, "client-certificate")
    key = _bytes_of(path, user, "client-key")
    if certificate and key:
        # The library reads certificates from files only.
        with tempfile.NamedTemporaryFile() as both:
            os.fchmod(both.fileno(), 0o600)
            both.write(certificate + b"\n" + key)
            both.flush()
            trust.load_cert_chain(both.name)
    return trust


def _bytes_of(path: Path, where: Mapping[str, Any], key: str) -> bytes | None:
    if data := where.get(f"{key}-data"):
        return base64.b64decode(data)
    if name := where.get(key):
        return (path.parent / str(name)).read_bytes()
    return None
