"""A broker's settings under the names Kafka's tools look for.

Here: plain data. Next door: the settings of topics (topic_configs.py).
Never here: where the values come from (broker/kafka_names.py).
"""

from dataclasses import dataclass
from typing import Final

from kafscale.model.configs.topic_configs import ConfigType


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """One setting, to be looked at only: it is changed in the broker's configuration."""

    name: str
    type: ConfigType
    value: str
    is_default: bool
    doc: str


METRICS_PORT: Final = "kafscale.metrics.port"  # by which tools find the page for operators
METRICS_TLS: Final = "kafscale.metrics.tls"  # whether the page is encrypted
METRICS_ADDRESS: Final = "kafscale.metrics.address"  # the page's URL, without a path
VERSION: Final = "kafscale.version"
FEATURES: Final = "kafscale.features"  # what this broker has, with commas between

# What a topic's setting is called where it is the broker's, which topics without one go by.
BROKER_NAME_OF: Final[dict[str, str]] = {
    "compression.type": "compression.type",
    "index.interval.bytes": "log.index.interval.bytes",
    "kafscale.acks1": "kafscale.acks1",
    "max.message.bytes": "message.max.bytes",
    "message.format.version": "log.message.format.version",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
}
