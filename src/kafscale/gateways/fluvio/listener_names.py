"""The names of the two listeners, by which brokers tell each other their addresses."""

from typing import Final

CONTROL_LISTENER: Final = "FLUVIO_SC"
DATA_LISTENER: Final = "FLUVIO_SPU"
