"""Logins, rights and encryption of brokers: settings, mounted Secrets, the operator's login.

Next door: the brokers (brokers.py), where the password comes from (passwords.py).
"""

from typing import Any, Final

from kafscale.operator.kinds.cluster import KafscaleCluster, Security
from kafscale.operator.parts.common import KubeManifest, part

OPERATOR_USER: Final = "kafscale-operator"
_CERTIFICATE_FOLDER: Final = "/etc/kafscale-certificate"
_LOGIN_FOLDER: Final = "/etc/kafscale-login"


def protocol(cluster: KafscaleCluster) -> str:
    """The protocol of every listener."""
    security = cluster.spec.security
    if security is None:
        return "PLAINTEXT"
    return "SASL_PLAINTEXT" if security.tls is None else "SASL_SSL"


def login_name(cluster: KafscaleCluster) -> str:
    """The name of the Secret with the operator's login."""
    return f"{cluster.metadata.name}-operator-login"


def login(cluster: KafscaleCluster, password: str) -> KubeManifest:
    """The Secret with the operator's login, which brokers make their first administrator."""
    made = part(cluster, "v1", "Secret", login_name(cluster), "login")
    made["immutable"] = True
    made["stringData"] = {"username": OPERATOR_USER, "password": password}
    return made


def settings(security: Security) -> dict[str, Any]:
    """The settings of brokers that follow from `spec.security`."""
    found: dict[str, Any] = {
        "sasl.adminUser": OPERATOR_USER,
        "sasl.adminPasswordFile": f"{_LOGIN_FOLDER}/password",
        "authorization.enabled": "true" if security.authorization else "false",
        "authorization.superUsers": ";".join([f"User:{OPERATOR_USER}", *security.super_users]),
        # Their clients would not be asked who they are; `spec.config.broker` may open them.
        "pulsar.enabled": "false",
        "fluvio.enabled": "false",
    }
    if security.tls is not None:
        found["tls.certFile"] = f"{_CERTIFICATE_FOLDER}/tls.crt"
        found["tls.keyFile"] = f"{_CERTIFICATE_FOLDER}/tls.key"
    return found


def volumes(cluster: KafscaleCluster) -> list[KubeManifest]:
    """The Secrets that brokers mount."""
    security = cluster.spec.security
    if security is None:
        return []
    found = [_volume("login", login_name(cluster))]
    if security.tls is not None:
        found.append(_volume("certificate", security.tls.secret_ref))
    return found


def mounts(cluster: KafscaleCluster) -> list[KubeManifest]:
    """Where brokers find them."""
    folders = {"login": _LOGIN_FOLDER, "certificate": _CERTIFICATE_FOLDER}
    return [
        {"name": one["name"], "mountPath": folders[one["name"]], "readOnly": True}
        for one in volumes(cluster)
    ]


def _volume(name: str, secret: str) -> KubeManifest:
    return {"name": name, "secret": {"secretName": secret, "defaultMode": 0o440}}
