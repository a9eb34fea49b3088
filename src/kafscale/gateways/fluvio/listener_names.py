"""Names and protocols of the two listeners, by which brokers tell each other their addresses."""

from typing import Final

CONTROL_LISTENER: Final = "FLUVIO_SC"
DATA_LISTENER: Final = "FLUVIO_SPU"
PLAIN_PROTOCOL: Final = "FLUVIO"
TLS_PROTOCOL: Final = "FLUVIO_SSL"
