"""Which pods are kept only by the memory of a node that is dead.

A StatefulSet waits for such a pod, because another one could run beside it. Brokers may run beside
each other: every object in the bucket is created once, and the fleet knows one broker per number.
Next door: deleting them (loops/clusters.py).
"""

from collections.abc import Iterable, Mapping
from typing import Final

from kafscale.operator.kinds.seen import KubeNode, Pod
from kafscale.operator.planning.plan import seconds_of

_LEASE_S: Final = 10.0  # after it, the fleet has forgotten a silent broker


def dead_pods(pods: Iterable[Pod], nodes: Mapping[str, KubeNode], now_s: float) -> list[Pod]:
    """Give the pods that should have ended a while ago, on nodes that are not ready or gone."""
    found = []
    for pod in pods:
        until = pod.metadata.deletion_timestamp
        if until is None or now_s < seconds_of(until) + _LEASE_S:
            continue
        node = nodes.get(pod.spec.node_name)
        if node is None or not node.is_ready:
            found.append(pod)
    return found
