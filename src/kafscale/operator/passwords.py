"""Passwords that the operator makes: computed from a key of its own, so that it reads none.

Here: the key is a Secret in the operator's namespace, made once. A password follows from the key
and from what it is for. So the operator may create Secrets and needs no right to read those of
others, and a password that was half made is the same at the next try.
Next door: who gets passwords (loops/clusters.py, loops/users.py).
"""

import base64
import hashlib
import hmac
from typing import Final

from kafscale.model.clock import Dice
from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.kinds.user import KafscaleUser
from kafscale.operator.kube.client import Kube
from kafscale.operator.kube.errors import KubeError

PASSWORD_KEY: Final = "kafscale-operator-password-key"
_FIELD: Final = "key"
_KEY_BYTES: Final = 32
_PASSWORD_BYTES: Final = 24


class Passwords:
    """Computes passwords. The key is read, or made, when the first one is wanted."""

    def __init__(self, kube: Kube, namespace: str, dice: Dice) -> None:
        """`namespace`: of the operator."""
        self._kube = kube
        self._namespace = namespace
        self._dice = dice
        self._key: bytes | None = None

    async def of_operator(self, cluster: KafscaleCluster) -> str:
        """The password with which the operator logs in to a cluster. Raises KubeError."""
        # By name: a cluster that is made again on the same metadata finds its login there.
        return await self._password("operator", *cluster.metadata.key)

    async def of_user(self, user: KafscaleUser) -> str:
        """The password of a user, another one for another Secret. Raises KubeError."""
        return await self._password("user", user.metadata.uid, user.secret)

    async def _password(self, *purpose: str) -> str:
        if self._key is None:
            self._key = await self._load()
        made = hmac.new(self._key, "\0".join(purpose).encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(made[:_PASSWORD_BYTES]).decode()

    async def _load(self) -> bytes:
        found = await self._kube.get("Secret", self._namespace, PASSWORD_KEY)
        if found is None:
            fresh = base64.b64encode(self._dice.token(_KEY_BYTES)).decode()
            manifest = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": PASSWORD_KEY, "namespace": self._namespace},
                "immutable": True,
                "data": {_FIELD: fresh},
            }
            try:
                found = await self._kube.create(manifest)
            except KubeError as problem:
                if not problem.is_conflict:
                    raise
                found = await self._kube.get("Secret", self._namespace, PASSWORD_KEY)
        data = (found or {}).get("data", {}).get(_FIELD, "")
        key = base64.b64decode(data)
        if len(key) < _KEY_BYTES:
            raise KubeError(f"Secret {self._namespace}/{PASSWORD_KEY} has no usable {_FIELD}")
        return key
