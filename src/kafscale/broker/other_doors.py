"""What the doors beside Kafka's have in common: a default port that is taken closes them.

A port that was asked for must be free. A default port that is taken closes the door, with a line
for the person who has started the broker: another program or another broker of this machine has
it, and Kafka clients do not care.
Next door: the doors (fluvio_door.py, pulsar_door.py), all listeners (doors.py).
"""

from typing import Protocol

from kafscale.model.endpoints import Endpoint
from kafscale.model.errors import KafscaleError


class CannotListen(KafscaleError):
    """A listener's address cannot be used; the text names the address and the reason."""


class OtherDoor(Protocol):
    """A door for clients of another protocol than Kafka's."""

    note: str  # for the banner: why the door is closed

    async def open(self) -> dict[str, Endpoint]:
        """Begin to listen; gives what clients are told, by listener name.

        Nothing if a default port is taken. Raises CannotListen for a port that was asked for.
        """
        ...

    def why_not_ready(self) -> list[str]:
        """The listeners that accept no connections, unless the door is closed for a reason."""
        ...

    def close(self) -> None:
        """Accept no new connections; those that are open go on."""
        ...


class ClosedDoor:
    """Implements OtherDoor for a door that must stay closed."""

    def __init__(self, note: str) -> None:
        """`note`: why."""
        self.note = note

    async def open(self) -> dict[str, Endpoint]:
        """See OtherDoor."""
        return {}

    def why_not_ready(self) -> list[str]:
        """See OtherDoor."""
        return []

    def close(self) -> None:
        """See OtherDoor."""
