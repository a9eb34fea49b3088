"""What the doors beside Kafka's have in common: a default port that is taken closes them.

A port that was asked for must be free. A default port that is taken closes the door, with a line
for the person who has started the broker: another program or another broker of this machine has
it, and Kafka clients do not care.
Next door: the doors (fluvio_door.py, pulsar_door.py), all listeners (doors.py).
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from kafscale.model.endpoints import Endpoint
from kafscale.model.errors import KafscaleError


class CannotListen(KafscaleError):
    """A listener's address cannot be used; the text names the address and the reason."""


class DefaultPortTaken(Exception):
    """A default port cannot be used; the text names the address and the reason."""


async def listen(
    open_at: Callable[[str, int], Awaitable[int]],
    host: str,
    asked: int | None,
    usual: int,
    door: str,
) -> int:
    """Open a listener at the port that was asked for, else at the usual one; gives the port.

    Raises CannotListen for a port that was asked for, and DefaultPortTaken for the usual one.
    """
    port = usual if asked is None else asked
    try:
        return await open_at(host, port)
    except OSError as problem:
        reason = f"cannot listen on {host}:{port}: {problem.strerror or problem}"
        if asked is None:
            raise DefaultPortTaken(reason) from None
        raise CannotListen(f"{reason} ({door})") from None


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
