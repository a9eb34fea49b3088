"""Where clients reach a broker: one endpoint per listener, found by the listener's name."""

from typing import Final

import msgspec

PLAINTEXT: Final = "PLAINTEXT"  # the protocol, and the name of a listener that was given none


class Endpoint(msgspec.Struct, frozen=True):
    """What clients of one listener are told to connect to."""

    host: str
    port: int
    protocol: str = PLAINTEXT

    def __str__(self) -> str:
        """As people write it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
