"""The names of the two listeners, by which brokers tell each other their addresses."""

from typing import Final

PULSAR: Final = "PULSAR"
PULSAR_HTTP: Final = "PULSAR-HTTP"  # the admin API
