"""What brokers say of themselves as settings: version, features, where their page is.

Next door: the names of these settings (model/configs/broker_configs.py), settings of topics
(configs.py).
"""

from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its own stubs forget them
    AdminClient,
    ConfigResource,
    ResourceType,
)

from kafscale.admin.brokers.client import wait
from kafscale.admin.brokers.cluster_view import NodeFacts
from kafscale.admin.brokers.configs import source_name
from kafscale.admin.errors import AdminError
from kafscale.model.configs.broker_configs import (
    FEATURES,
    METRICS_ADDRESS,
    METRICS_PORT,
    METRICS_TLS,
    VERSION,
)

_ANSWER_WITHIN_S = 5.0


class BrokerSetting(NamedTuple):
    """One setting of a broker."""

    name: str
    value: str | None
    source: str
    is_read_only: bool


class BrokerSelf(NamedTuple):
    """What a broker says of itself; `why`: it did not answer."""

    version: str | None
    features: tuple[str, ...]
    page: str | None  # URL of metrics and health, without a path
    settings: tuple[BrokerSetting, ...]
    why: str = ""


def ask_brokers(admin: AdminClient, nodes: Iterable[NodeFacts]) -> dict[int, BrokerSelf]:
    """Ask every broker for its settings, all at once; one that is silent holds up no other."""
    asked = {node: ConfigResource(ResourceType.BROKER, str(node.broker)) for node in nodes}
    answers = {
        node: admin.describe_configs([resource], request_timeout=_ANSWER_WITHIN_S)[resource]
        for node, resource in asked.items()
    }
    found = {}
    for node, answer in answers.items():
        try:
            entries = wait(f"broker {node.broker}", answer)
        except AdminError as bad:
            found[node.broker] = BrokerSelf(None, (), None, (), str(bad))
            continue
        said = {name: entry.value for name, entry in entries.items()}
        found[node.broker] = BrokerSelf(
            said.get(VERSION),
            tuple(filter(None, (said.get(FEATURES) or "").split(","))),
            _page(node, said),
            tuple(
                BrokerSetting(name, entry.value, source_name(entry), bool(entry.is_read_only))
                for name, entry in sorted(entries.items())
                if not entry.is_sensitive
            ),
        )
    return found


def _page(node: NodeFacts, said: dict[str, str | None]) -> str | None:
    if said.get(METRICS_ADDRESS):
        return said[METRICS_ADDRESS]
    port = said.get(METRICS_PORT)
    if not port or port == "0":
        return None
    host = f"[{node.host}]" if ":" in node.host else node.host
    return f"{'https' if said.get(METRICS_TLS) == 'true' else 'http'}://{host}:{port}"
