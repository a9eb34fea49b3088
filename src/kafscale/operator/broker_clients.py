"""Connections of the operator to the brokers of a cluster, as any client makes them.

Here: TLS and the login of the operator. Next door: what is asked (topic_loop.py, user_loop.py).
"""

import asyncio

from kafscale.admin.brokers.client import KafkaAdmin, client_settings, open_admin
from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.parts.brokers import bootstrap_address
from kafscale.operator.parts.security import OPERATOR_USER, protocol
from kafscale.operator.passwords import Passwords


async def connect(cluster: KafscaleCluster, passwords: Passwords) -> KafkaAdmin:
    """Make a client for administration. Raises KubeError or AdminError."""
    properties = await _properties(cluster, passwords)
    settings = client_settings(bootstrap_address(cluster), "kafscale-operator", properties)
    return await asyncio.to_thread(open_admin, settings)


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
