"""Addresses outside: what clients beyond the Kubernetes cluster are told of brokers.

Here: a load balancer's address is the cloud's to give, and a node's port the API server's. Until
both are known, a broker has nothing to tell.
Next door: the Services (parts/services.py), the rest of the plan (plan.py).
"""

from typing import Final

from kafscale.operator.kinds.cluster import External, KafscaleCluster
from kafscale.operator.kinds.seen import Service
from kafscale.operator.parts import brokers, services
from kafscale.operator.parts.common import EXTERNAL_PORT
from kafscale.operator.planning.conditions import Judgement
from kafscale.operator.planning.seen_cluster import SeenCluster

_TOLD_AT_FIRST: Final = 3  # brokers; one of them leads to all others


def outside_addresses(cluster: KafscaleCluster, seen: SeenCluster) -> dict[int, brokers.Address]:
    """What clients outside are told of each broker, as far as it is known."""
    external = cluster.spec.brokers.external
    if external is None:
        return {}
    found = {}
    for ordinal in range(brokers.most_brokers(cluster)):
        service = seen.services.get(services.external_name(cluster, ordinal))
        address = _address(external, ordinal, service) if service is not None else None
        if address is not None:
            found[ordinal] = address
    return found


def addressed_brokers(cluster: KafscaleCluster, seen: SeenCluster) -> int:
    """How many brokers, from the first on, have an address outside."""
    known = outside_addresses(cluster, seen)
    return next(number for number in range(len(known) + 1) if number not in known)


def _address(external: External, ordinal: int, service: Service) -> brokers.Address | None:
    port = next((port for port in service.spec.ports if port.name == "external"), None)
    if port is None:
        return None
    is_node_port = external.type == "NodePort"
    number = port.node_port if is_node_port else port.port
    host = (external.host_template or "").replace("{ordinal}", str(ordinal))
    host = host or _given(service)
    return brokers.Address(host, number) if host and number else None


def outside_bootstrap(cluster: KafscaleCluster, seen: SeenCluster) -> str:
    """What clients outside connect to first: the common load balancer, else some brokers."""
    external = cluster.spec.brokers.external
    if external is None:
        return ""
    common = seen.services.get(services.external_bootstrap_name(cluster))
    if external.type == "LoadBalancer" and common is not None and (host := _given(common)):
        return f"{host}:{EXTERNAL_PORT}"
    known = sorted(outside_addresses(cluster, seen).items())[:_TOLD_AT_FIRST]
    return ",".join(f"{address.host}:{address.port}" for _, address in known)


def _given(service: Service) -> str:
    """The address that the cloud gave; empty if it has given none."""
    given = service.status.load_balancer.ingress
    return (given[0].hostname or given[0].ip) if given else ""


def external_finding(cluster: KafscaleCluster, seen: SeenCluster, wanted: int) -> Judgement:
    """Whether every broker has an address outside."""
    known = len(outside_addresses(cluster, seen))
    words = f"{min(known, wanted)} of {wanted} brokers have an address outside"
    if known < wanted:
        return Judgement("ExternalReady", False, "WaitingForAddress", words)
    return Judgement("ExternalReady", True, "Ready", words)
