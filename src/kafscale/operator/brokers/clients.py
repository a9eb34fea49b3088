"""Connections of the operator to the brokers of a cluster, as any client makes them.

Here: TLS and the login of the operator. Next door: what is asked (loops/topics.py, loops/users.py).
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

from kafscale.admin.brokers.client import KafkaAdmin, client_settings, open_admin
from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.kube.informer import Key
from kafscale.operator.parts.brokers import bootstrap_address
from kafscale.operator.parts.security import OPERATOR_USER, protocol
from kafscale.operator.passwords import Passwords


class BrokerClients:
    """Makes clients, and knows which clusters have one: it is no reason for brokers to stay."""

    def __init__(self, passwords: Passwords) -> None:
        self._passwords = passwords
        self._connected: Counter[Key] = Counter()

    def __contains__(self, key: Key) -> bool:
        """Whether the operator itself is a client of this cluster now."""
        return self._connected[key] > 0

    @contextlib.asynccontextmanager
    async def connect(self, cluster: KafscaleCluster) -> AsyncIterator[KafkaAdmin]:
        """Make a client for administration. Raises KubeError or AdminError."""
        properties = await _properties(cluster, self._passwords)
        settings = client_settings(bootstrap_address(cluster), "kafscale-operator", properties)
        self._connected[cluster.metadata.key] += 1
        try:
            yield await asyncio.to_thread(open_admin, settings)
        finally:
            self._connected[cluster.metadata.key] -= 1


async def _properties(cluster: KafscaleCluster, passwords: Passwords) -> dict[str, str]:
    security = cluster.spec.security
    if security is None:
        return {}
    found = {
        "security.protocol": protocol(cluster),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": OPERATOR_USER,
        "sasl.password": await passwords.of_operator(cluster),
    }
    if security.tls is not None:
        found["ssl.ca.pem"] = security.tls.authority
    return found
