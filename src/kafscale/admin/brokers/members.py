"""The brokers of a fleet: where they are, what they lead, and whether they are ready.

Here: what brokers tell as Kafka has it, and by that where each shows its page for operators.
Next door: connections and refusals (client.py), reading metrics
(admin/cost/metrics_page.py), certificates of pages (page_trust.py).
"""

import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections import Counter
from typing import Final, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its own stubs forget them
    AdminClient,
    ConfigResource,
    ResourceType,
)

from kafscale.admin.brokers.client import ANSWER_WITHIN_S, refusal, wait
from kafscale.admin.errors import AdminError
from kafscale.model.configs.broker_configs import METRICS_PORT, METRICS_TLS

_PAGE_WITHIN_S: Final = 3.0


class BrokerFacts(NamedTuple):
    """A broker as the fleet describes it."""

    broker: int
    address: str
    rack: str | None
    leaders: int  # partitions that it leads
    is_controller: bool


def list_brokers(admin: AdminClient) -> list[BrokerFacts]:
    """Ask for every broker of the fleet."""
    described = wait("", admin.describe_cluster(request_timeout=ANSWER_WITHIN_S))
    try:
        topics = admin.list_topics(timeout=ANSWER_WITHIN_S).topics
    except KafkaException as bad:
        raise refusal("", bad) from bad
    leaders = Counter(
        partition.leader for topic in topics.values() for partition in topic.partitions.values()
    )
    controller = described.controller.id if described.controller is not None else None
    return [
        BrokerFacts(
            node.id,
            _address(node.host, node.port),
            node.rack,
            leaders[node.id],
            node.id == controller,
        )
        for node in sorted(described.nodes, key=lambda node: node.id)
    ]


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def find_pages(admin: AdminClient) -> list[str]:
    """Where each broker shows its page for operators: the URL without a path."""
    brokers = list_brokers(admin)
    resources = [ConfigResource(ResourceType.BROKER, str(one.broker)) for one in brokers]
    pages = []
    for broker, resource in zip(brokers, resources, strict=True):
        answers = admin.describe_configs([resource], request_timeout=ANSWER_WITHIN_S)
        said = wait(f"broker {broker.broker}", answers[resource])
        entry, encrypted = said.get(METRICS_PORT), said.get(METRICS_TLS)
        if entry is None or entry.value in (None, "", "0"):
            raise AdminError(f"broker {broker.broker} does not say where it shows its metrics")
        scheme = "https" if encrypted is not None and encrypted.value == "true" else "http"
        pages.append(f"{scheme}://{broker.address.rpartition(':')[0]}:{entry.value}")
    return pages


def why_not_ready(page: str, trust: ssl.SSLContext | None = None) -> list[str]:
    """The reasons that a broker's page gives; AdminError if the page cannot be read.

    `trust`: for https, what the page's certificate must fit; None: the system's authorities.
    """
    try:
        with urllib.request.urlopen(
            f"{page}/ready", timeout=_PAGE_WITHIN_S, context=trust
        ) as answer:
            answer.read()
    except urllib.error.HTTPError as refused:
        try:
            return [str(reason) for reason in json.loads(refused.read())["reasons"]]
        except (ValueError, KeyError, TypeError):
            raise AdminError(f"cannot read {page}/ready: {refused}") from refused
    except (OSError, http.client.HTTPException) as problem:
        raise AdminError(f"cannot read {page}/ready: {problem}") from problem
    return []
